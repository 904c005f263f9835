"""Schedules in one database, and the jobs that are booked for them."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Envelope
from onward.backends.postgres import enqueueing
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.schedules import SqlSchedules

__all__ = ["PostgresSchedules"]


class PostgresSchedules(SqlSchedules):
    """The `Schedules` half of the backend."""

    def _store_unknown(self, tx: Transaction, envelopes: Sequence[Envelope]) -> None:
        enqueueing.enqueue(tx, envelopes, retried=True)

    def _before_removing(self, tx: Transaction, envelopes: Sequence[Envelope]) -> None:
        """Lock unique keys before jobs, as every transaction does: even a single one, for there are jobs in hand then."""
        if numbers := enqueueing.key_numbers(each.unique_key for each in envelopes):
            tx.ask("lock_unique_keys", numbers=numbers)
