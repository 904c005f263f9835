"""Looking at the memory backend: the overview, and the place of one job."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice

from onward.backend import OVERVIEW_QUEUES, JobPlace, KeyHolder, Look, Overview, QueueCounts, Snapshot
from onward.backends.memory.lanes import MemoryView
from onward.backends.memory.samples import series_between
from onward.backends.memory.settling import holder_of
from onward.backends.memory.store import MemoryJob, MemoryStore
from onward.contract.limits import states_over
from onward.job.states import LIVE, State

__all__ = ["MemoryOverview"]

_LATER = (State.SCHEDULED, State.RETRYABLE)


class MemoryOverview:
    """The `look` of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def look(self, look: Look) -> Snapshot:
        with self._writing() as now:
            job = None if look.place_of is None else self._store.find(look.place_of)
            return Snapshot(
                now=now,
                overview=_overview(self._store, look.at_most, now) if look.counts else None,
                place=None if job is None else _place(self._store, job, look.at_most, now),
                deaths=self._store.deaths.look(look.at_most, self._died_at) if look.deaths else [],
                audit=() if look.audit is None else self._store.audit.page(look.audit),
                series=series_between(self._store, look.series, look.at_most),
            )

    def _died_at(self, job_id: str) -> int:
        return self._store.finished[job_id].finished_at or 0


def _overview(store: MemoryStore, at_most: int, now: int) -> Overview:
    jobs = (*store.live.values(), *store.finished.values())
    names = sorted({job.queue for job in store.live.values()} | store.paused.keys())[:OVERVIEW_QUEUES]
    return Overview(
        counts=_at_most(at_most, Counter(job.state for job in jobs if not job.tombstone), State),
        queues=[_queue_counts(store, name, at_most, now) for name in names],
        ended=store.ended,
    )


def _queue_counts(store: MemoryStore, name: str, at_most: int, now: int) -> QueueCounts:
    jobs = [job for job in store.live.values() if job.queue == name]
    return QueueCounts(
        name=name,
        paused=name in store.paused,
        counts=_at_most(at_most, Counter(job.state for job in jobs), LIVE),
        oldest_due=min((job.available_at for job in jobs if _is_due(job, now)), default=None),
        paused_at=store.paused.get(name),
    )


def _is_due(job: MemoryJob, now: int) -> bool:
    return job.state is State.AVAILABLE or (job.state in _LATER and job.available_at <= now)


def _at_most(limit: int, seen: Counter[State], states: Iterable[State]) -> dict[State, int]:
    """Return the counts, none beyond the limit; scheduled and retryable jobs together do not exceed it either."""
    counts = {state: min(seen[state], limit) for state in sorted(states)}
    counts[State.RETRYABLE] = min(counts[State.RETRYABLE], limit - counts[State.SCHEDULED])
    return counts


def _place(store: MemoryStore, job: MemoryJob, at_most: int, now: int) -> JobPlace:
    stored = job.stored(store.runs_of(job.id))
    if stored.is_finished:
        return JobPlace(job=stored)
    return JobPlace(
        job=stored,
        ahead=0 if job.state is State.EXECUTING else sum(1 for _ in islice(_before(store, job), at_most)),
        holders=tuple(_holders(store, job, now)),
        limits=states_over(job.queue, job.lane, store.limits, MemoryView(store, now)),
    )


def _before(store: MemoryStore, job: MemoryJob) -> Iterator[object]:
    """Yield the places before a job in its line."""
    if job.lane is None:
        line = store.ready.get(job.queue, [])
        return islice(line, bisect_left(line, job.place))
    rank = store.lanes.lines.get(job.queue, {}).get(-job.envelope.priority, [])
    return islice(rank, bisect_left(rank, (job.lane,)), bisect_left(rank, (job.lane, job.available_at, job.id)))


def _holders(store: MemoryStore, job: MemoryJob, now: int) -> Iterator[KeyHolder]:
    for kind, key in job.hold_keys():
        pointer = holder_of(store, (kind, key), now)
        if pointer is not None and pointer.job_id != job.id:
            yield KeyHolder(key=key, single_instance=kind == "single", job_id=pointer.job_id, done_until=pointer.until)
