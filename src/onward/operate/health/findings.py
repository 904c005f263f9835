"""What is known of a fleet when it is checked: values only, so that every check is a function of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from onward.backend import DeathGroup, Origin, QueueCounts, SessionState, StoredJob
from onward.base.clock import SECOND
from onward.base.names import serves
from onward.client.auditing import AuditRecord
from onward.contract.description import WorkerDescription
from onward.operate.why.case import Described
from onward.operate.why.reason import Reason
from onward.version import __version__

__all__ = ["DyingGroup", "Findings", "HealthSettings", "ScheduleFinding", "renewed_at", "seconds_since"]


class HealthSettings(NamedTuple):
    """From when on each check speaks.  Lengths of time are seconds."""

    late_after: float = 300.0
    queue_late_after: Mapping[str, float] = {}
    unserved_for: float = 300.0  # then a queue without a worker is a failure
    paused_for: float = 86_400.0
    ran_for: float = 3600.0  # without a time-out
    stuck_after: float = 600.0  # and ten times as long as 99 of 100 runs
    overran_for: float = 60.0  # past its time-out
    mixed_for: float = 1800.0  # two builds, or two releases
    clocks_apart: float = 2.0
    sampled_within: float = 120.0
    tick_late_for: float = 120.0
    died_within: float = 3600.0
    signing_key: str = ""  # the id of the key that signs here; empty: none
    release: str = __version__

    def late_in(self, queue: str) -> float:
        return self.queue_late_after.get(queue, self.late_after)


class ScheduleFinding(NamedTuple):
    """A schedule that is not paused."""

    name: str
    origin: Origin
    seen_at: int  # when a running process declared or changed it last
    unbooked: int | None = None  # the first tick for which no job is booked
    problem: str = ""  # why it cannot be read here


_DEFAULTS = HealthSettings()


class DyingGroup(NamedTuple):
    """A group of dead jobs to which one was added lately."""

    group: DeathGroup
    lately: int  # how many of those that were enqueued last died lately
    looked_at: int  # among how many
    kind: str = ""  # of the last failure
    build: str = ""  # of the worker that ran the first of them


class Findings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A fleet and its store at one moment."""

    now: int  # by the store's clock
    here: int  # by the clock of this host
    asked_for: int = 0  # how long the answer took, in microseconds: the two clocks were not read at once
    host: str = ""
    queues: Sequence[QueueCounts] = ()
    sessions: Sequence[Described] = ()
    running: Sequence[StoredJob] = ()  # at most 500
    timeouts: Mapping[str, float] = msgspec.field(default_factory=dict)  # of running jobs, by id
    p99: Mapping[str, float] = msgspec.field(default_factory=dict)  # seconds that 99 of 100 runs took at most, by job
    waiting: Sequence[StoredJob] = ()  # the live jobs that were enqueued first, and those that were enqueued last
    explained: Mapping[str, Reason] = msgspec.field(default_factory=dict)  # of some jobs among them, by id
    schedules: Sequence[ScheduleFinding] = ()
    dying: Sequence[DyingGroup] = ()  # the largest groups of deaths to which one was added within the hour
    pauses: Mapping[str, AuditRecord] = msgspec.field(default_factory=dict)  # who paused a queue, of some that are
    sampled_at: int | None = None  # the last minute of which there are samples, in the last half-hour
    unverified: int = 0  # jobs that ran in the last half-hour although their signature is missing or wrong
    events_dropped: int = 0  # that subscribers of workers did not get, in the last half-hour
    settings: HealthSettings = _DEFAULTS

    @cached_property
    def alive(self) -> list[Described]:
        """The workers whose sessions have not expired."""
        return [each for each in self.sessions if each.session.expires_at > self.now]

    @cached_property
    def described(self) -> list[tuple[SessionState, WorkerDescription]]:
        """The living workers that say something of themselves."""
        return [(each.session, each.description) for each in self.alive if each.description is not None]

    def servers(self, queue: str) -> list[tuple[SessionState, WorkerDescription]]:
        """Return the living workers that serve a queue."""
        return [each for each in self.described if serves(each[1].queues, queue)]

    def age(self, instant: int) -> float:
        """Return the seconds since an instant of the store."""
        return seconds_since(instant, self.now)


def seconds_since(instant: int, now: int) -> float:
    """Return the seconds between two instants; none if the first is the later one."""
    return max(0, now - instant) / SECOND


def renewed_at(session: SessionState) -> int:
    """Return when a session was renewed last."""
    return session.expires_at - round(session.lease_for.total_seconds() * SECOND)
