"""The notes of the model: under job and name; the first value stays."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence

from onward.backend import Lease, Note, Signalled
from onward.job.states import State
from onward.testing.machine.model_job import ModelJob

__all__ = ["ModelNotes"]


class ModelNotes:
    """The jobs of the model, and the verbs of `Notes`."""

    def __init__(self) -> None:
        self.live: dict[str, ModelJob] = {}
        self.finished: dict[str, ModelJob] = {}
        self.written: dict[str, dict[str, Note]] = {}  # notes by job
        self.events: Counter[str] = Counter()  # what happened that no answer tells

    @property
    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def holds_lease(self, lease: Lease, owner: str) -> bool: ...

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        if not self.holds_lease(lease, lease.owner):
            return False
        self.write(self.live[lease.envelope.id], name, value)
        return True

    def notes(self, job_id: str) -> Sequence[Note]:
        return [note for _, note in sorted(self.written.get(job_id, {}).items())]

    def signal(
        self, job_id: str, name: str, value: bytes, *, again: bool = False, at_most: tuple[int, int] = (1000, 4 << 20)
    ) -> Signalled:
        job = self.live.get(job_id)
        if job is None:
            return Signalled(state=self.finished[job_id].state if job_id in self.finished else None)
        state, notes = job.state, self.written.get(job_id, {})
        others = [note for note in notes.values() if note.name != f"!{name}"]
        stored = again or len(others) == len(notes)
        if stored and (len(others) >= at_most[0] or sum(len(each.value) for each in others) + len(value) > at_most[1]):
            return Signalled(state=state, full=True)
        if stored:
            self.write(job, f"!{name}", value)
            told = self.written[job_id][f"!{name}"]
            self.written[job_id][f"!{name}"] = Note(name=told.name, value=value, at=told.at)
        return Signalled(state=state, stored=stored, woken=self.heed_signal(job))

    def waiting_for_signals(self) -> list[ModelJob]:
        return [job for job in self.live.values() if job.state is State.SCHEDULED and job.awaits]

    def write(self, job: ModelJob, name: str, value: bytes) -> None:
        """Write a note, unless its name is there."""
        self.written.setdefault(job.id, {}).setdefault(name, Note(name=name, value=value, at=self.now))

    def heed_signal(self, job: ModelJob) -> bool:
        """Make a job due that waits for a signal which is there."""
        if job.state is not State.SCHEDULED or f"!{job.awaits}" not in self.written.get(job.id, {}):
            return False
        job.state, job.available_at = State.AVAILABLE, self.now
        self.events["woken by a signal"] += 1
        return True
