"""Transfer between stores: jobs in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import msgspec

from onward.backends.memory.store import MemoryJob, MemoryStore, Pointer
from onward.contract.transfer import MOVABLE, Accepted, Confirmed, Parcel
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["MemoryTransfer"]


class MemoryTransfer:
    """The `Movable` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def withhold(self, queue: str, transit: str, *, after: str = "", limit: int = 500) -> Sequence[str]:
        with self._writing():
            if queue not in self._store.paused:
                return []
            page = sorted(job.id for job in self._at_rest(queue) if job.id > after)[:limit]
            self._requeue(queue, transit, page)
            return page

    def export(self, transit: str, ids: Sequence[str]) -> Sequence[Parcel]:
        wanted = set(ids)
        with self._writing():
            jobs = sorted((job for job in self._at_rest(transit) if job.id in wanted), key=lambda job: job.id)
            return [self._parcel(job) for job in jobs]

    def accept(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[Accepted]:
        with self._writing():
            for job in [job for job in self._at_rest(transit) if job.id in {parcel.id for parcel in parcels}]:
                self._remove(job)
            return [self._accept(transit, parcel) for parcel in parcels]

    def forget(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[str]:
        seen = {(each.id, each.is_dead): _identity(each) for each in parcels}
        with self._writing():
            gone = [
                job
                for job in self._at_rest(transit)
                if seen.get((job.id, job.state is State.DISCARDED)) == _identity(self._parcel(job))
            ]
            for job in gone:
                self._remove(job)
            return [job.id for job in gone]

    def admit(self, transit: str, queue: str, ids: Sequence[str]) -> int:
        with self._writing():
            return self._requeue(transit, queue, ids)

    def _at_rest(self, queue: str) -> Iterable[MemoryJob]:
        jobs = (*self._store.live.values(), *self._store.finished.values())
        return [job for job in jobs if job.queue == queue and job.state in MOVABLE and not job.tombstone]

    def _requeue(self, queue: str, onto: str, ids: Iterable[str]) -> int:
        wanted = set(ids)
        moved = [job for job in self._at_rest(queue) if job.id in wanted]
        for job in moved:
            if job.state is State.DISCARDED:
                job.envelope = msgspec.structs.replace(job.envelope, queue=onto)
            else:
                self._store.change_queue(job, onto)
        return len(moved)

    def _accept(self, transit: str, parcel: Parcel) -> Accepted:
        store = self._store
        if store.find(parcel.id) is not None:
            return Accepted(parcel.id, stored=False, there=True)
        holder = store.unique.get(parcel.unique_key or "") if parcel.key_held else None
        if holder is not None:
            return Accepted(parcel.id, stored=False, holder=holder)
        job = _job(transit, parcel)
        if parcel.is_dead:
            store.finished[job.id] = job
        else:
            store.add(job, with_key=parcel.key_held)
        if parcel.runs:
            store.runs[job.id] = {run.token: run for run in parcel.runs}
        if parcel.confirmed is not None and parcel.idempotency_key is not None:
            self._confirm(parcel.idempotency_key, parcel.confirmed)
        return Accepted(parcel.id)

    def _confirm(self, key: str, confirmed: Confirmed) -> None:
        there = self._store.holds.get(("once", key))
        if there is None or (there.until is not None and there.until < confirmed.until):
            self._store.holds["once", key] = Pointer(confirmed.job_id, confirmed.token, confirmed.until)

    def _remove(self, job: MemoryJob) -> None:
        if job.state is State.DISCARDED:
            del self._store.finished[job.id]
        else:
            self._store.remove(job)
        if self._store.find(job.id) is None:
            self._store.runs.pop(job.id, None)

    def _parcel(self, job: MemoryJob) -> Parcel:
        envelope = job.envelope
        pointer = self._store.holds.get(("once", envelope.idempotency_key or ""))
        confirmed = None
        if pointer is not None and pointer.until is not None:
            confirmed = Confirmed(pointer.job_id, pointer.token, pointer.until)
        return Parcel(
            id=job.id,
            job=envelope.job,
            sealed=envelope.data,
            state=job.state,
            priority=envelope.priority,
            available_at=job.available_at,
            expires_at=envelope.expires_at,
            enqueued_at=envelope.enqueued_at,
            started_at=job.started_at,
            max_crashes=envelope.max_crashes,
            delivery=job.delivery,
            attempts=job.attempts,
            crashes=job.crashes,
            interruptions=job.interruptions,
            waits=job.waits,
            parked_since=job.parked_since,
            spent=None if job.state is State.DISCARDED else job.spent,
            unique_key=envelope.unique_key,
            key_held=job.key_held,
            idempotency_key=envelope.idempotency_key,
            idempotency_ttl=envelope.idempotency_ttl,
            single_instance=envelope.single_instance,
            progress=job.progress,
            owner=job.owner,
            finished_at=job.finished_at,
            reason=job.reason,
            result=job.result,
            confirmed=confirmed,
            runs=self._store.runs_of(job.id),
        )


def _identity(parcel: Parcel) -> tuple[object, ...]:
    due = parcel.finished_at if parcel.is_dead else parcel.available_at
    return parcel.state, parcel.delivery, parcel.attempts, parcel.crashes, parcel.interruptions, due


def _job(queue: str, parcel: Parcel) -> MemoryJob:
    envelope = Envelope(
        parcel.id,
        queue,
        parcel.sealed,
        job=parcel.job,
        enqueued_at=parcel.enqueued_at,
        max_crashes=parcel.max_crashes,
        priority=parcel.priority,
        expires_at=parcel.expires_at,
        unique_key=parcel.unique_key,
        idempotency_key=parcel.idempotency_key,
        idempotency_ttl=parcel.idempotency_ttl,
        single_instance=parcel.single_instance,
    )
    return MemoryJob(
        envelope,
        parcel.state,
        parcel.available_at,
        attempts=parcel.attempts,
        delivery=parcel.delivery,
        crashes=parcel.crashes,
        interruptions=parcel.interruptions,
        owner=parcel.owner,
        started_at=parcel.started_at,
        finished_at=parcel.finished_at,
        waits=parcel.waits,
        parked_since=parcel.parked_since,
        spent=parcel.spent,
        result=parcel.result,
        reason=parcel.reason,
        progress=parcel.progress,
    )
