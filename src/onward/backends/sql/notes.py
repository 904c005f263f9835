"""Notes on a database server: the statements are named alike in every dialect.

The job's row is locked first, by who signals and by who settles; notes are looked for by a later statement, which sees what
the other one has committed.  So of a signal and a snooze that meet, the second finds what the first has written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onward.backend import Audit, Lease, Note, Signalled
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sql.audit import SqlAudit
from onward.backends.sql.rows import Row
from onward.base.clock import SECOND
from onward.job.settlement import Settlement
from onward.job.states import State, state_named

__all__ = ["ServerNotes", "write_snoozed"]

Result = TypeVar("Result")


class ServerNotes(SqlAudit):
    """The `Notes` half of the backend."""

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result: ...

    @abstractmethod
    def _ask(self, name: str, **parameters: object) -> Sequence[Row]: ...

    @set_aside_and_repeat
    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        fence = {"id": lease.envelope.id, "token": lease.token, "owner": lease.owner}
        return self._write(lambda tx: bool(tx.ask("note", **fence, note=name, value=value).rows()))

    @set_aside_and_repeat
    def notes(self, job_id: str) -> Sequence[Note]:
        return [Note(name=name, value=value, at=at) for name, value, at in self._ask("notes_of", id=job_id)]

    @set_aside_and_repeat
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
        def act(tx: Any) -> Signalled:
            state, is_live = _locked(tx, job_id)
            if not is_live:
                return Signalled(state=state)
            key = f"!{name}"
            ((there, count, size),) = tx.ask("room_for_note", id=job_id, note=key).rows()
            stored = again or not there
            if stored:
                if count >= at_most[0] or size + len(value) > at_most[1]:
                    return Signalled(state=state, full=True)
                tx.ask("store_signal", id=job_id, note=key, value=value)
            return Signalled(state=state, stored=stored, woken=bool(_wake(tx, [job_id])))

        return self._write(self._audited(act, audit, lambda told: [job_id] if told.stored else None))


def write_snoozed(tx: Any, snoozed: Mapping[str, Settlement]) -> None:
    """Write the notes of jobs that were put back just now, and look for the signals that they await; by their ids."""
    for job_id, settlement in snoozed.items():
        for name, value in settlement.notes:
            tx.ask("store_note", id=job_id, note=name, value=value, delay=round(settlement.delay * SECOND))
    if awaiting := sorted(job_id for job_id, settlement in snoozed.items() if settlement.awaits is not None):
        _wake(tx, awaiting)


def _locked(tx: Any, job_id: str) -> tuple[State | None, bool]:
    """Lock the row of a live job.  Return the job's state, None if there is no such job, and whether it is live."""
    for _ in range(2):  # a replay may carry it from the finished to the live ones between two looks
        for statement, is_live in (("lock_live", True), ("finished_state", False)):
            for (word,) in tx.ask(statement, id=job_id).rows():
                return state_named(word), is_live
    return None, False


def _wake(tx: Any, ids: list[str]) -> list[str]:
    """Make those of these jobs due, whose rows are locked, that wait for a signal that is there."""
    signalled = tx.ask("signalled", ids=ids).rows()
    woken = [job_id for job_id, _ in signalled]
    if woken:
        tx.ask("wake_waiters", ids=woken)
        tx.woken.update(woken)
        tx.wakes.update(queue for _, queue in signalled)
    return woken
