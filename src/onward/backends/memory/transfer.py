"""Transfer between stores: jobs in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from onward.backend import StoredJob
from onward.backends.memory.store import KEPT, SEALED, MemoryJob, MemoryStore, Pointer
from onward.contract.transfer import TRANSFERABLE, Confirmed, Restored, check_reserved, version_of
from onward.job.envelope import Envelope

__all__ = ["MemoryTransfer"]


class MemoryTransfer:
    """The `Transferable` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def reserve(self, queue: str, transfer: str | None, *, was: str | None = None) -> bool:
        with self._writing():
            reserved = self._store.reserved
            if reserved.get(queue) != was:
                return False
            reserved.pop(queue, None)
            if transfer is not None:
                reserved[queue] = transfer
                self._store.paused.add(queue)
            return True

    def confirmed_keys(self, keys: Sequence[str]) -> Mapping[str, Confirmed]:
        with self._writing():
            found = {key: self._store.holds.get(("once", key)) for key in keys}
            return {
                key: Confirmed(pointer.job_id, pointer.token, pointer.until)
                for key, pointer in found.items()
                if pointer is not None and pointer.until is not None
            }

    def restore(
        self, transfer: str, jobs: Sequence[StoredJob], confirmed: Mapping[str, Confirmed]
    ) -> Sequence[Restored]:
        with self._writing():
            self._check_reserved(transfer, jobs)
            for key, by in confirmed.items():
                there = self._store.holds.get(("once", key))
                if there is None or (there.until is not None and there.until < by.until):
                    self._store.holds["once", key] = Pointer(by.job_id, by.token, by.until)
            return [self._restore(job) for job in jobs]

    def remove(self, transfer: str, jobs: Sequence[StoredJob]) -> Sequence[str]:
        with self._writing():
            self._check_reserved(transfer, jobs)
            return [job.id for job in jobs if self._remove(job)]

    def _check_reserved(self, transfer: str, jobs: Sequence[StoredJob]) -> None:
        for queue in {job.queue for job in jobs}:
            check_reserved(queue, transfer, self._store.reserved.get(queue))

    def _restore(self, job: StoredJob) -> Restored:
        store = self._store
        if store.find(job.id) is not None:
            return Restored(job.id, stored=False)
        holder = store.unique.get(job.unique_key or "") if job.key_held else None
        if holder is not None:
            return Restored(job.id, stored=False, holder=holder)
        if job.is_finished:
            store.finished[job.id] = _row(job)
        else:
            store.add(_row(job), with_key=job.key_held)
        if job.runs:
            store.runs[job.id] = {run.token: run for run in job.runs}
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
            del self._store.finished[job.id]
        else:
            self._store.remove(job)
        if self._store.find(job.id) is None:
            self._store.runs.pop(job.id, None)
        return True


def _row(job: StoredJob) -> MemoryJob:
    sealed = Envelope(**{name: getattr(job, name) for name in SEALED})
    return MemoryJob(sealed, **{name: getattr(job, name) for name in KEPT if name != "key_held"})
