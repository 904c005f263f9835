"""Schedules in one database, and the jobs that are booked for them."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Envelope, ScheduleChange
from onward.backends.postgres import enqueueing
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.schedules import SqlSchedules

__all__ = ["PostgresSchedules"]


class PostgresSchedules(SqlSchedules):
    """The `Schedules` half of the backend."""

    def _store_unknown(self, tx: Transaction, envelopes: Sequence[Envelope]) -> None:
        enqueueing.enqueue(tx, envelopes, retried=True)

    def _before_removing(self, tx: Transaction, change: ScheduleChange) -> None:
        """Lock unique keys before jobs, as every transaction does: those that are freed and those that are taken.

        Of two changes, each may free the key that the other takes.  Where none is taken, none is waited for.
        """
        taken = {each.unique_key for each in change.envelopes} - {None}
        if taken:
            freed = {key for (key,) in tx.ask("unique_keys_of", ids=list(change.take_back)).rows()}
            tx.ask("lock_unique_keys", numbers=enqueueing.key_numbers(taken | freed))

    def _remove_unbegun(self, tx: Transaction, ids: list[str]) -> list[str]:
        """Remove those that were never claimed; a job that is being claimed is waited for, and looked at again then.

        While it waits it has no lock of a job.  The lock of one that turns out to have begun stays until the commit, else:
        the turn that settles it would wait for this transaction, which may wait for another job of that turn.
        """
        tx.ask("savepoint")
        while True:
            found = tx.ask("try_unbegun", ids=ids).rows()
            other = next((job_id for job_id, is_held in found if not is_held), None)
            if other is None:
                held = [job_id for job_id, _ in found]
                return [job_id for (job_id,) in tx.ask("take_back", ids=held).rows()] if held else []
            tx.ask("unlock")
            tx.ask("lock_live", id=other)
            tx.ask("unlock")
