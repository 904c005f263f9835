"""Schedules in one file, and the jobs that are booked for them."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Envelope
from onward.backends.sql.schedules import SqlSchedules
from onward.backends.sqlite import enqueueing
from onward.backends.sqlite.transaction import Transaction

__all__ = ["SqliteSchedules"]


class SqliteSchedules(SqlSchedules):
    """The `Schedules` half of the backend."""

    def _store_unknown(self, tx: Transaction, envelopes: Sequence[Envelope]) -> None:
        enqueueing.enqueue(tx, envelopes, retried=True)
