"""What is known of a job when it is explained: values only, so that every rule is a function of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from onward.backend import FlowRow, JobPlace, QueueCounts, SessionState, StoredJob
from onward.base.names import serves
from onward.client.auditing import AuditRecord
from onward.client.record import JobRecord
from onward.contract.description import WorkerDescription
from onward.job.states import State

__all__ = ["Besides", "Case", "DeadGroup", "Described", "KnownSettings"]

_WAITING = frozenset({State.SCHEDULED, State.AVAILABLE, State.RETRYABLE})


class Described(NamedTuple):
    """A session, and what its worker says of itself; None: nothing, or nothing that can be read."""

    session: SessionState
    description: WorkerDescription | None

    @property
    def place(self) -> str:
        return f"{self.session.host or 'an unnamed host'}, process {self.session.pid}"


class KnownSettings(NamedTuple):
    """The settings that decide about jobs."""

    namespace: str = "default"
    store: str = ""
    retention: Mapping[State, float | None] = {}  # seconds
    unknown_grace: float = 0.0
    reaped_every: float = 10.0


class DeadGroup(NamedTuple):
    """The dead jobs that died as this one did."""

    job: str
    fingerprint: str
    number: int = 1
    or_more: bool = False  # whether counting stopped there
    since: int | None = None  # when the one that was enqueued first has died, or the last, if that was before


class Case:
    """One job, and all that may hold it."""

    def __init__(
        self,
        job_id: str,
        now: int,
        place: JobPlace | None,
        record: JobRecord | None,
        *,
        queues: Sequence[QueueCounts] = (),
        sessions: Sequence[Described] = (),
        settings: KnownSettings | None = None,
        besides: Besides | None = None,
    ) -> None:
        """``besides``: what only some jobs need, and another look brings."""
        self.job_id = job_id
        self.now = now
        self.place = place or JobPlace(job=_nothing(job_id))
        self.job = self.place.job
        self.record = record
        self.is_there = place is not None
        self.queues = {queue.name: queue for queue in queues}
        self.sessions = list(sessions)
        self.settings = settings or KnownSettings()
        self.besides = besides or Besides()

    @property
    def name(self) -> str:
        return self.job.job if self.record is None else self.record.name

    @property
    def waits(self) -> bool:
        return self.is_there and self.job.state in _WAITING

    @property
    def is_due(self) -> bool:
        return self.job.state is State.AVAILABLE or self.job.available_at <= self.now

    @property
    def overdue(self) -> float:
        """Seconds since it was due."""
        return max(0, self.now - self.job.available_at) / 1_000_000

    @cached_property
    def alive(self) -> list[Described]:
        """The workers whose sessions have not expired: a dead one's description counts for nothing."""
        return [each for each in self.sessions if each.session.expires_at > self.now]

    @cached_property
    def servers(self) -> list[tuple[Described, WorkerDescription]]:
        """The living workers that serve its queue."""
        return [
            (each, each.description)
            for each in self.alive
            if each.description is not None and serves(each.description.queues, self.job.queue)
        ]

    def known_by(self, described: WorkerDescription) -> bool:
        """Return whether a worker knows the job; one that does not say which it knows may."""
        return described.jobs is None or self.job.job in described.jobs


class Besides(NamedTuple):
    """What only some jobs need."""

    flow: FlowRow | None = None
    sleeps: Sequence[str] = ()  # the names of sleeps that have begun and not ended
    running: Sequence[StoredJob] = ()  # runs under the limit that is reached, or of its queue
    trouble: str = ""  # why its envelope cannot be opened here
    key_id: str = ""  # the key that it is encrypted with
    acts: Sequence[AuditRecord] = ()  # what people did to it, the newest first
    other_acts: Sequence[AuditRecord] = ()  # to its queue if that is paused; or, if it is gone, purges
    ended_per_second: float | None = None  # of its queue, over the last minutes, from at least 20 jobs
    group: DeadGroup | None = None  # of a dead job, where the store groups them
    usual_run: float | None = None  # seconds: 95 of 100 runs of the job took less, from at least 20 runs


def _nothing(job_id: str) -> StoredJob:
    """Return what stands for a job that is not there."""
    return StoredJob(
        id=job_id,
        queue="",
        job="",
        data=b"",
        state=State.COMPLETED,
        priority=0,
        attempts=0,
        delivery=0,
        crashes=0,
        interruptions=0,
        available_at=0,
        enqueued_at=0,
    )
