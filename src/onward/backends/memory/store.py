"""The tables of the memory backend: live and finished jobs, the records of runs, sessions, holds, pauses.

Only `place` changes a live job's state and due time, and the sorted lists with them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from onward.backend import AWAITS_NODE, NEVER, Kind, LimitRow, Note, Run, ScheduleRow, SeriesRow, Session, StoredJob
from onward.backends.memory.audit import AuditTable
from onward.backends.memory.deaths import MemoryDeaths
from onward.backends.memory.flow_tables import FlowTables
from onward.contract.deaths import fingerprint_of
from onward.contract.values import CONTINUATION
from onward.flow.room import Gate, Scope
from onward.job.envelope import Envelope
from onward.job.states import FINISHED, State

__all__ = ["KEPT", "SEALED", "HoldKey", "MemoryJob", "MemoryStore", "OpenSession", "Pointer"]

HoldKey = tuple[Literal["once", "single"], str]
Place = tuple[int, int, str]  # rank, due time, id: the order of claims
LanePlace = tuple[str, int, str]  # lane, due time, id


@dataclass(slots=True)
class MemoryJob:
    """One row."""

    envelope: Envelope
    state: State
    available_at: int
    attempts: int = 0
    delivery: int = 0
    crashes: int = 0
    interruptions: int = 0
    owner: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    cancel_reason: str | None = None
    key_held: bool = False
    waits: int = 0
    parked_since: int | None = None
    awaits: str | None = None  # counts while it is scheduled
    spent: str | None = None
    result: bytes | None = None
    reason: str | None = None
    progress: bytes | None = None
    tombstone: bool = False
    booked: bool = False  # scheduled for a token of its lane

    @property
    def id(self) -> str:
        return self.envelope.id

    @property
    def queue(self) -> str:
        return self.envelope.queue

    @property
    def cost(self) -> int | None:
        return self.envelope.cost

    @property
    def lane(self) -> str | None:
        return self.envelope.lane

    @property
    def awaits_node(self) -> bool:
        return self.awaits == AWAITS_NODE and self.state is State.SCHEDULED

    @property
    def place(self) -> Place:
        return (-self.envelope.priority, self.available_at, self.envelope.id)

    def expired(self, now: int) -> bool:
        return self.envelope.expires_at is not None and self.envelope.expires_at <= now

    def hold_keys(self) -> Iterator[HoldKey]:
        if self.envelope.idempotency_key is not None:
            yield ("once", self.envelope.idempotency_key)
        if self.envelope.single_instance is not None:
            yield ("single", self.envelope.single_instance)

    def stored(self, runs: tuple[Run, ...]) -> StoredJob:
        values: dict[str, Any] = {name: getattr(self.envelope, name) for name in SEALED}
        values |= {name: getattr(self, name) for name in KEPT}
        values["idempotency_ttl"] = 0 if self.envelope.idempotency_key is None else self.envelope.idempotency_ttl
        values["awaits"] = self.awaits if self.state is State.SCHEDULED else None
        if self.state in FINISHED:
            values["spent"] = None
        if self.tombstone:
            values = {name: value for name, value in values.items() if name not in CONTINUATION} | {"data": b""}
        return StoredJob(**values, runs=runs)


# The fields of a stored job that are those of its envelope, and those of the row around it.
SEALED = [name for name in Envelope.__struct_fields__ if name in StoredJob.__struct_fields__]
KEPT = [each.name for each in fields(MemoryJob) if each.name in StoredJob.__struct_fields__]


@dataclass(slots=True)
class OpenSession:
    session: Session
    expires_at: int


@dataclass(slots=True)
class Pointer:
    """The lease that holds a key; ``until`` is set once a success confirmed it."""

    job_id: str
    token: int
    until: int | None = None


class LaneIndex:
    """The available jobs that have a lane, by queue, priority and lane."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, list[LanePlace]]] = {}

    def add(self, job: MemoryJob) -> None:
        insort(self.lines.setdefault(job.queue, {}).setdefault(-job.envelope.priority, []), _lane_place(job))

    def remove(self, job: MemoryJob) -> None:
        ranks = self.lines[job.queue]
        line = ranks[-job.envelope.priority]
        _discard(line, _lane_place(job))
        if not line:
            del ranks[-job.envelope.priority]
        if not ranks:
            del self.lines[job.queue]


def _lane_place(job: MemoryJob) -> LanePlace:
    return (job.lane or "", job.available_at, job.id)


@dataclass
class MemoryStore:
    live: dict[str, MemoryJob] = field(default_factory=dict)
    finished: dict[str, MemoryJob] = field(default_factory=dict)
    runs: dict[str, dict[int, Run]] = field(default_factory=lambda: defaultdict(dict))
    notes: dict[str, dict[str, Note]] = field(default_factory=dict)
    sessions: dict[str, OpenSession] = field(default_factory=dict)
    holds: dict[HoldKey, Pointer] = field(default_factory=dict)
    unique: dict[str, str] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)  # queue -> since when
    reserved: dict[str, str] = field(default_factory=dict)  # queue -> the transfer
    schedules: dict[str, ScheduleRow] = field(default_factory=dict)
    ready: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    later: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    expiring: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    booked: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    lanes: LaneIndex = field(default_factory=LaneIndex)
    limits: dict[tuple[Kind, str], LimitRow] = field(default_factory=dict)
    gates: dict[Scope, Gate] = field(default_factory=dict)
    flows: FlowTables = field(default_factory=FlowTables)
    deaths: MemoryDeaths = field(default_factory=MemoryDeaths)
    audit: AuditTable = field(default_factory=AuditTable)
    series: dict[tuple[int, str], SeriesRow] = field(default_factory=dict)  # by minute and reporter
    leased: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # owner -> ids
    ended: int = 0  # how many jobs, in all

    def add(self, job: MemoryJob, *, with_key: bool = True) -> None:
        """Add a live job, with its unique key if it has one."""
        self.live[job.id] = job
        if with_key and job.envelope.unique_key is not None:
            self.unique[job.envelope.unique_key] = job.id
            job.key_held = True
        if job.envelope.flow is not None:
            self.flows.begun(job.envelope, job.id)
        self._index(job)

    def place(
        self,
        job: MemoryJob,
        state: State,
        *,
        available_at: int | None = None,
        owner: str | None = None,
        booked: bool = False,
    ) -> None:
        """Move a live job to another live state."""
        self._unindex(job)
        job.state, job.booked = state, booked
        job.owner = owner
        if available_at is not None:
            job.available_at = available_at
        self._index(job)

    def open_member(self, job: MemoryJob, due: int, now: int) -> None:
        """Let a job whose node has waited be claimed when it is due."""
        self._unindex(job)
        job.awaits, job.available_at = None, due
        job.state = State.AVAILABLE if due <= now else State.SCHEDULED
        self._index(job)

    def finish(self, job: MemoryJob, state: State, now: int, reason: str | None) -> None:
        """Move a live job to the finished, and free its unique key.  Every end of a job goes through here, so that the
        flow of each is looked at.
        """
        self.remove(job)
        job.state, job.finished_at, job.reason = state, now, reason
        job.cancel_reason = None
        self.keep(job)
        self.ended += 1
        if job.envelope.flow is not None:
            self.flows.ended(job.envelope, job.id, succeeded=state is State.COMPLETED)

    def revive(self, job: MemoryJob, now: int) -> None:
        """Give a finished job another life; one of a flow waits until its node opens."""
        self.forget(job.id)
        again = MemoryJob(job.envelope, State.AVAILABLE, now, delivery=job.delivery)
        if self.flows.revived(job.envelope, job.id):
            again.state, again.available_at, again.awaits = State.SCHEDULED, NEVER, AWAITS_NODE
        self.add(again)

    def keep(self, job: MemoryJob) -> None:
        """Keep a finished job; a dead one in its group."""
        self.finished[job.id] = job
        if job.state is State.DISCARDED:
            self.deaths.add(job.id, job.envelope.job, fingerprint_of(self.runs_of(job.id)))
        else:
            self.deaths.remove(job.id)

    def forget(self, job_id: str) -> None:
        """Drop a finished job; the records of its runs stay."""
        del self.finished[job_id]
        self.deaths.remove(job_id)

    def remove(self, job: MemoryJob) -> None:
        self._unindex(job)
        self.free_key(job)
        del self.live[job.id]
        if job.envelope.flow is not None:
            self.flows.left(job.envelope, job.id)

    def free_key(self, job: MemoryJob) -> None:
        if job.key_held and job.envelope.unique_key is not None:
            del self.unique[job.envelope.unique_key]
            job.key_held = False

    def find(self, job_id: str) -> MemoryJob | None:
        return self.live.get(job_id) or self.finished.get(job_id)

    def runs_of(self, job_id: str) -> tuple[Run, ...]:
        return tuple(sorted(self.runs.get(job_id, {}).values(), key=lambda run: run.token))

    def waits_until(self, queue: str) -> int | None:
        """Return when the first job of a queue that is not due yet is."""
        return min((line[queue][0][0] for line in (self.later, self.booked) if line.get(queue)), default=None)

    def _index(self, job: MemoryJob) -> None:
        if job.state is State.AVAILABLE and job.lane is not None:
            self.lanes.add(job)
        elif job.state is State.AVAILABLE:
            insort(self.ready[job.queue], job.place)
        elif job.state is State.EXECUTING:
            self.leased[job.owner or ""].add(job.id)
        elif job.awaits_node:
            self.flows.waits(job.envelope, job.id)
        else:
            insort(self._later(job), (job.available_at, job.id))
        if job.envelope.expires_at is not None and job.state is not State.EXECUTING:
            insort(self.expiring[job.queue], (job.envelope.expires_at, job.id))

    def _unindex(self, job: MemoryJob) -> None:
        if job.state is State.AVAILABLE and job.lane is not None:
            self.lanes.remove(job)
        elif job.state is State.AVAILABLE:
            _discard(self.ready[job.queue], job.place)
        elif job.state is State.EXECUTING:
            leased = self.leased[job.owner or ""]
            leased.discard(job.id)
            if not leased:
                del self.leased[job.owner or ""]
        elif job.awaits_node:
            self.flows.waits_no_more(job.envelope, job.id)
        else:
            _discard(self._later(job), (job.available_at, job.id))
        if job.envelope.expires_at is not None and job.state is not State.EXECUTING:
            _discard(self.expiring[job.queue], (job.envelope.expires_at, job.id))

    def _later(self, job: MemoryJob) -> list[tuple[int, str]]:
        return (self.booked if job.booked else self.later)[job.queue]


def _discard(line: list[Any], place: tuple[Any, ...]) -> None:
    del line[bisect_left(line, place)]
