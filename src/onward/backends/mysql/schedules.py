"""Schedules in one database, and the jobs that are booked for them."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Envelope
from onward.backends.mysql import enqueueing
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.schedules import SqlSchedules

__all__ = ["MySQLSchedules"]


class MySQLSchedules(SqlSchedules):
    """The `Schedules` half of the backend."""

    def _store_unknown(self, tx: Transaction, envelopes: Sequence[Envelope]) -> None:
        enqueueing.enqueue(tx, envelopes, retried=True)

    def _remove_unbegun(self, tx: Transaction, ids: list[str]) -> list[str]:
        unbegun = [job_id for (job_id,) in tx.ask("lock_unbegun", ids=ids).rows()]
        if unbegun:
            tx.ask("take_back", ids=unbegun)
        return unbegun
