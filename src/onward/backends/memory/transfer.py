"""Transfer between stores: jobs in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from onward.backend import Note, StoredJob
from onward.backends.memory.store import KEPT, SEALED, MemoryJob, MemoryStore, Pointer
from onward.contract.transfer import TRANSFERABLE, Attached, Confirmed, Restored, check_reserved, version_of
from onward.job.envelope import Envelope

__all__ = ["MemoryTransfer"]


class MemoryTransfer:
    """The `Transferable` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def reserve(self, queue: str, transfer: str | None, *, was: str | None = None) -> bool:
        with self._writing() as now:
            reserved = self._store.reserved
            if reserved.get(queue) != was:
                return False
            reserved.pop(queue, None)
            if transfer is not None:
                reserved[queue] = transfer
                self._store.paused.setdefault(queue, now)
            return True

    def attached(self, jobs: Sequence[StoredJob]) -> Attached:
        with self._writing():
            keys = {job.idempotency_key for job in jobs if job.idempotency_key is not None}
            pointers = {key: self._store.holds.get(("once", key)) for key in keys}
            confirmed = {
                key: Confirmed(pointer.job_id, pointer.token, pointer.until)
                for key, pointer in pointers.items()
                if pointer is not None and pointer.until is not None
            }
            return Attached(
                confirmed,
                {job.id: notes for job in jobs if (notes := self._notes_of(job.id))},
                {job.id: entries for job in jobs if (entries := self._store.audit.of(job.id))},
            )

    def restore(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[Restored]:
        with self._writing():
            self._check_reserved(transfer, jobs)
            for key, by in attached.confirmed.items():
                there = self._store.holds.get(("once", key))
                if there is None or (there.until is not None and there.until < by.until):
                    self._store.holds["once", key] = Pointer(by.job_id, by.token, by.until)
            answers = [self._restore(job, attached.notes.get(job.id, ())) for job in jobs]
            for answer in answers:
                self._store.audit.add(attached.audit.get(answer.id, ()), () if answer.stored else None)
            return answers

    def remove(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[str]:
        with self._writing():
            self._check_reserved(transfer, jobs)
            return [
                job.id
                for job in jobs
                if list(attached.notes.get(job.id, ())) == self._notes_of(job.id) and self._remove(job)
            ]

    def _notes_of(self, job_id: str) -> list[Note]:
        return [note for _, note in sorted(self._store.notes.get(job_id, {}).items())]

    def _check_reserved(self, transfer: str, jobs: Sequence[StoredJob]) -> None:
        for queue in {job.queue for job in jobs}:
            check_reserved(queue, transfer, self._store.reserved.get(queue))

    def _restore(self, job: StoredJob, notes: Sequence[Note]) -> Restored:
        store = self._store
        if store.find(job.id) is not None:
            return Restored(job.id, stored=False)
        holder = store.unique.get(job.unique_key or "") if job.key_held else None
        if holder is not None:
            return Restored(job.id, stored=False, holder=holder)
        if job.runs:
            store.runs[job.id] = {run.token: run for run in job.runs}
        if job.is_finished:
            store.keep(_row(job))
        else:
            store.add(_row(job), with_key=job.key_held)
        if notes:
            store.notes[job.id] = {note.name: note for note in notes}
        return Restored(job.id)

    def _remove(self, seen: StoredJob) -> bool:
        job = (self._store.finished if seen.is_finished else self._store.live).get(seen.id)
        if (
            job is None
            or job.state not in TRANSFERABLE
            or job.tombstone
            or version_of(job.stored(())) != version_of(seen)
        ):
            return False
        if seen.is_finished:
            self._store.forget(job.id)
        else:
            self._store.remove(job)
        if self._store.find(job.id) is None:
            self._store.runs.pop(job.id, None)
            self._store.notes.pop(job.id, None)
            self._store.audit.forget(job.id)
        return True


def _row(job: StoredJob) -> MemoryJob:
    sealed = Envelope(**{name: getattr(job, name) for name in SEALED})
    return MemoryJob(sealed, **{name: getattr(job, name) for name in KEPT if name != "key_held"})
