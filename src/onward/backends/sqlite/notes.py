"""Notes in a file: rows beside the job's.  A handler writes them under its lease, a program that signals without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from onward.backend import Audit, Lease, Note, Signalled
from onward.backends.sql.audit import SqlAudit
from onward.backends.sqlite.transaction import Transaction
from onward.job.states import FINISHED, state_named

__all__ = ["SqliteNotes", "wake"]

Result = TypeVar("Result")


class SqliteNotes(SqlAudit):
    """The `Notes` half of the backend.  The write lock of the file serves as the lock of the job's row."""

    @abstractmethod
    def _read(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        fence = lease.envelope.id, lease.token, lease.owner
        return self._write(lambda tx: tx.run("note", (*fence, name, tx.now, value)) == 1)

    def notes(self, job_id: str) -> Sequence[Note]:
        def look(tx: Transaction) -> Sequence[Note]:
            return [Note(name=name, value=value, at=at) for name, value, at in tx.ask("notes_of", id=job_id).rows()]

        return self._read(look)

    def signal(
        self,
        job_id: str,
        name: str,
        value: bytes,
        *,
        again: bool = False,
        at_most: tuple[int, int] = (1000, 4 << 20),
        audit: Audit = (),
    ) -> Signalled:
        def act(tx: Transaction) -> Signalled:
            found = tx.row("state_of", (job_id,))
            state = None if found is None else state_named(found[0])
            if state is None or state in FINISHED:
                return Signalled(state=state)
            there, count, size = tx.row("room_for_note", (job_id, f"!{name}")) or (0, 0, 0)
            stored = again or not there
            if stored:
                if count >= at_most[0] or size + len(value) > at_most[1]:
                    return Signalled(state=state, full=True)
                tx.run("store_signal", (job_id, f"!{name}", tx.now, value))
            return Signalled(state=state, stored=stored, woken=bool(wake(tx, [job_id])))

        return self._write(self._audited(act, audit, lambda told: [job_id] if told.stored else None))


def wake(tx: Transaction, ids: Iterable[str]) -> list[str]:
    """Make those of these jobs due that wait for a signal that is there."""
    woken = [job_id for job_id in ids if tx.run("wake_signalled", (job_id, tx.now))]
    if woken:
        tx.wakes = True
        tx.woken += woken
    return woken
