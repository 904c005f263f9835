"""Claims by lanes, limits and gates, in memory."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice

import msgspec

from onward.backend import Audit, Claim, Kind, LimitRow, LimitState
from onward.backends.memory.store import MemoryJob, MemoryStore
from onward.contract.limits import state_of
from onward.flow.lanes import group_of
from onward.flow.limits import Bounds
from onward.flow.room import FOREVER, Gate, Scope, is_bounded_by
from onward.flow.tokens import FULL
from onward.flow.walk import MOST_BOOKED, PLAIN, Cursors, Walk, Walked
from onward.job.settlement import GateChange
from onward.job.states import State

__all__ = ["MemoryLanes", "MemoryView", "change_gate", "declare", "promote_booked", "walk_lanes"]

_NO_BOUNDS = Bounds()
_OPEN = Gate()


class MemoryView:
    """What a walk asks of the store."""

    def __init__(self, store: MemoryStore, now: int) -> None:
        self.now = now
        self._store = store

    @property
    def any_gates(self) -> bool:
        return bool(self._store.gates)

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        above = float("-inf") if rank is None else rank
        ready = self._store.ready.get(queue, [])
        first = bisect_left(ready, (above + 1,)) if rank is not None else 0  # ranks are whole numbers
        ranks = [place[0] for place in ready[first : first + 1]]
        ranks += [each for each in self._store.lanes.lines.get(queue, {}) if each > above]
        return min(ranks, default=None)

    def lane_after(self, queue: str, rank: int, after: str, before: str) -> str | None:
        line = self._store.lanes.lines.get(queue, {}).get(rank, [])
        place = bisect_left(line, (after + "\0",))
        return line[place][0] if place < len(line) and line[place][0] < before else None

    def heads(self, queue: str, rank: int, lane: str, skip: int, count: int) -> Sequence[MemoryJob]:
        jobs = (job for job in self._line(queue, rank, lane) if not job.expired(self.now))
        return list(islice(jobs, skip, skip + count))

    def bounds(self, kind: Kind, name: str) -> Bounds:
        row = self._store.limits.get((kind, name))
        return _NO_BOUNDS if row is None else row.bounds

    def gate(self, scope: Scope) -> Gate:
        return self._store.gates.get(scope, _OPEN)

    def running(self, scope: Scope, since: int = 0) -> int:
        leased = (self._store.live[job_id] for ids in self._store.leased.values() for job_id in ids)
        return sum((job.started_at or 0) >= since and _is_in(job, scope) for job in leased)

    def _line(self, queue: str, rank: int, lane: str) -> Iterator[MemoryJob]:
        if lane == PLAIN:
            ready = self._store.ready.get(queue, [])
            for at in range(bisect_left(ready, (rank,)), bisect_left(ready, (rank + 1,))):
                yield self._store.live[ready[at][2]]
            return
        line = self._store.lanes.lines.get(queue, {}).get(rank, [])
        for at in range(bisect_left(line, (lane,)), bisect_left(line, (lane + "\0",))):
            yield self._store.live[line[at][2]]


def _is_in(job: MemoryJob, scope: Scope) -> bool:
    if scope.lane == PLAIN:
        return job.queue == scope.queue
    if job.lane is None:
        return False
    return group_of(job.lane) == scope.lane or job.lane == scope.lane


def has_lanes(store: MemoryStore, queue: str) -> bool:
    """Return whether a claim of this queue has to walk."""
    return queue in store.lanes.lines or ("queue", queue) in store.limits


def walk_lanes(store: MemoryStore, cursors: Cursors, claim: Claim, released: set[str], now: int) -> Walked[MemoryJob]:
    """Choose what to claim, charge its tokens, and book what has none."""
    walk = Walk(MemoryView(store, now), cursors, limit=claim.limit, begins=claim.begins, released=released)
    for queue in dict.fromkeys(claim.queues):
        if queue not in store.paused:
            walk.queue(queue, claim.at_most.get(queue, claim.limit))
    found = walk.result()
    for scope, bucket in found.charges.items():
        gate = store.gates.get(scope, _OPEN)
        store.gates[scope] = msgspec.structs.replace(gate, bucket=bucket)
    for job, due in found.booked:
        store.place(job, State.SCHEDULED, available_at=due, booked=True)
    return found


def promote_booked(store: MemoryStore, queue: str, now: int) -> int:
    """Make available what was booked and is due."""
    due = [job_id for at, job_id in islice(store.booked.get(queue, ()), MOST_BOOKED) if at <= now]
    for job_id in due:
        store.place(store.live[job_id], State.AVAILABLE)
    return len(due)


def opens_at(store: MemoryStore, queue: str, now: int) -> int | None:
    """Return when a claim of this queue finds a job that is available: 0 if it would now, None if no instant is known."""
    walk = Walk(MemoryView(store, now), Cursors(), limit=1, bounded=False)
    walk.queue(queue, 1)
    found = walk.result()
    return 0 if found.picks else found.opens_at


def declare(store: MemoryStore, rows: Sequence[LimitRow]) -> None:
    """Keep what the code of a session declares, unless a later deployment has declared it."""
    for row in rows:
        there = store.limits.get((row.kind, row.name))
        if not row.only_ends if there is None else there.declared_at <= row.declared_at:
            chosen = Bounds() if there is None else there.chosen
            _keep(store, msgspec.structs.replace(row, chosen=chosen, only_ends=False))


def _keep(store: MemoryStore, row: LimitRow) -> None:
    """Keep a limit.  If its rate is another one than before, its buckets are full: what was taken says nothing about it."""
    before = store.limits.get((row.kind, row.name))
    store.limits[row.kind, row.name] = row
    if before is not None and before.bounds.rate not in (None, row.bounds.rate):
        for scope, gate in store.gates.items():
            if is_bounded_by(scope, row.kind, row.name):
                store.gates[scope] = msgspec.structs.replace(gate, bucket=FULL)


def change_gate(store: MemoryStore, change: GateChange, now: int) -> None:
    """Shut or open a lane.  One that was shut by hand stays so."""
    scope = Scope.of_lane(change.lane)
    store.gates[scope] = store.gates.get(scope, _OPEN).changed(change, now)


class MemoryLanes:
    """The `Limits` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    def limits(self, *, at_most: int | None = None) -> Sequence[LimitState]:
        with self._writing() as now:
            view = MemoryView(self._store, now)
            return [state_of(self._store.limits[key], view) for key in sorted(self._store.limits)[:at_most]]

    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        with self._writing():
            there = self._store.limits.get((kind, name))
            if there is None and (not new or chosen is None):
                return False
            row = LimitRow(kind=kind, name=name)
            if chosen is not None:
                row = msgspec.structs.replace(there or row, chosen=chosen)
            _keep(self._store, row)
            if chosen is None or (kind == "queue" and not row.bounds):
                del self._store.limits[kind, name]
            self._store.audit.add(audit, ())
            return True

    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        with self._writing():
            before = dict(self._store.gates)
            self._shut(lane, opened=opened)
            changed = self._store.gates != before
            self._store.audit.add(audit, () if changed else None)
            return changed

    def _shut(self, lane: str, *, opened: bool) -> None:
        gates, scope = self._store.gates, Scope.of_lane(lane)
        if not opened:
            gates[scope] = msgspec.structs.replace(gates.get(scope, _OPEN), shut_until=FOREVER, shut_for=0)
            return
        is_job = lane == group_of(lane)
        for each, gate in gates.items():
            if each == scope or (is_job and is_bounded_by(each, "key", lane[:-1])):
                gates[each] = Gate(gate.bucket)
