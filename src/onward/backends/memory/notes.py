"""Notes of jobs in memory: under (job id, name), beside the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from onward.backend import Audit, Lease, Note, Signalled
from onward.backends.memory.store import MemoryJob, MemoryStore
from onward.job.settlement import Settlement
from onward.job.states import State

__all__ = ["MemoryNotes", "snoozed"]


class MemoryNotes:
    """The `Notes` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        with self._writing() as now:
            job = self._store.live.get(lease.envelope.id)
            if job is None or (job.state, job.delivery, job.owner) != (State.EXECUTING, lease.token, lease.owner):
                return False
            self._store.notes.setdefault(job.id, {}).setdefault(name, Note(name=name, value=value, at=now))
            return True

    def notes(self, job_id: str) -> Sequence[Note]:
        with self._writing():
            return [note for _, note in sorted(self._store.notes.get(job_id, {}).items())]

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
        with self._writing() as now:
            job = self._store.live.get(job_id)
            if job is None:
                finished = self._store.finished.get(job_id)
                return Signalled(state=None if finished is None else finished.state)
            state, key = job.state, f"!{name}"
            there = self._store.notes.get(job_id, {})
            stored = again or key not in there
            if stored:
                kept = [note for note in there.values() if note.name != key]
                if len(kept) >= at_most[0] or sum(len(note.value) for note in kept) + len(value) > at_most[1]:
                    return Signalled(state=state, full=True)
                at = there[key].at if key in there else now
                self._store.notes.setdefault(job_id, {})[key] = Note(name=key, value=value, at=at)
                self._store.audit.add(audit, [job_id])
            return Signalled(state=state, stored=stored, woken=_wake(self._store, job, now))


def snoozed(store: MemoryStore, job: MemoryJob, settlement: Settlement, now: int) -> None:
    """Write the notes of a job that was put back just now, and look for the signal that it awaits."""
    for name, value in settlement.notes:
        store.notes.setdefault(job.id, {}).setdefault(name, Note(name=name, value=value, at=now))
    _wake(store, job, now)


def _wake(store: MemoryStore, job: MemoryJob, now: int) -> bool:
    """Make a job due if it waits for a signal that is there."""
    awaited = job.state is State.SCHEDULED and job.awaits is not None
    if not awaited or f"!{job.awaits}" not in store.notes.get(job.id, ()):
        return False
    store.place(job, State.AVAILABLE, available_at=now)
    return True
