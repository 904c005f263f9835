"""Looking at a store: one read of what it holds now, each part only if it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.contract.audit import AuditEntry, AuditQuery
from onward.contract.deaths import DeathGroup
from onward.contract.limits import LimitState
from onward.contract.samples import SeriesRow
from onward.contract.values import StoredJob
from onward.job.states import State

__all__ = ["OVERVIEW_QUEUES", "JobPlace", "KeyHolder", "Look", "Overview", "QueueCounts", "Snapshot"]

OVERVIEW_QUEUES = 100
OLDEST_LINES = 16  # of each queue, by priority and lane, in which a look searches for the job that is due for longest
LOOK_SECONDS = 2.0  # the longest that a look may take


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The live jobs of a queue, by state."""

    name: str
    paused: bool
    counts: dict[State, int]
    oldest_due: int | None = None  # since when the job that waits for longest could run; None: none is due
    paused_at: int | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of a store.  Nothing was counted beyond a limit: a number that reaches it means "or more"."""

    counts: dict[State, int]
    queues: list[QueueCounts]
    ended: (
        int  # grows by one with every job that ends: the difference between two summaries is how many ended in between
    )


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.  A part that is not asked for costs nothing; nothing is counted beyond ``at_most``."""

    counts: bool = False  # the overview
    place_of: str | None = None  # one job, by id, and what stands before it
    deaths: bool = False  # the dead jobs in groups, where the store can group them
    audit: AuditQuery | None = None  # a page of the audit trail
    series: tuple[int, int] | None = None  # the rows that began from one instant until before another
    at_most: int = 10_000


class KeyHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The job that holds an idempotency key or a single instance which another job carries."""

    key: str
    single_instance: bool  # else it is an idempotency key
    job_id: str
    done_until: int | None = None  # set: a success is remembered until then; else the job runs


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and what stands before it."""

    job: StoredJob
    ahead: int = 0  # available jobs that come before it in its line: that of its lane and priority, or the plain line
    holders: tuple[KeyHolder, ...] = ()  # of its keys, other jobs only
    limits: tuple[LimitState, ...] = ()  # of its queue, its job and its key: those that are bounded or were shut


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a look has seen, all of it at one moment by the store's clock."""

    now: int
    overview: Overview | None = None
    place: JobPlace | None = None  # None also if there is no such job
    deaths: list[DeathGroup] = []  # by job and fingerprint, `DEATH_GROUPS` at most
    audit: Sequence[AuditEntry] = ()
    series: tuple[SeriesRow, ...] = ()
