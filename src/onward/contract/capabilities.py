"""The capabilities that a backend declares, and the small protocols that some backends implement besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

__all__ = [
    "DURABLE",
    "LOSSY",
    "Advising",
    "Capabilities",
    "Check",
    "Emptying",
    "Health",
    "Inline",
    "Migration",
    "Tables",
]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do.  Code and tests ask for a capability, never for a backend's name."""

    delays: bool = True
    """It holds a job back until its time."""
    priorities: bool = True
    """It hands out jobs by priority; else first in, first out."""
    deduplicates: bool = True
    """It has unique keys."""
    wakes: bool = True
    """`wait` returns when another process enqueues, long before its timeout."""
    remote_extend: bool = True
    """Another process than the one that claimed can renew a session."""
    fences_expired: bool = True
    """A lease that was given back can change nothing; else it can still end its job until the next claim."""
    durable: bool = True
    """A job whose enqueue has returned survives the end of the process and of the machine."""
    shared: bool = True
    """Other processes see the same jobs."""
    sessions: bool = True
    """It knows sessions: any client can adopt or reap another's, and they expire.  Else leases end in the broker's way."""
    holds: bool = True
    """It has idempotency keys and single instances."""
    prefetches: bool = True
    """A lease that has not begun can be lost without a crash; else a worker claims only what can begin at once."""
    knows_ids: bool = True
    """It stores no id twice, searches the finished with `retried`, and stores batches whole.  Else none is repeated."""
    promotes: bool = True
    """A turn makes due what is due, so a queue is served strictly by priority, due time and id."""
    remembers: bool = True
    """Every client learns what was settled, for as long as the contract says; else at most the process that settled it."""
    lists_queues: bool = True
    """It names the queues that have work, so a worker can serve a pattern of names."""
    keeps_place: bool = True
    """A job that is given back keeps its place in its queue; else it goes behind the others."""
    notes: bool = False
    """It keeps notes of jobs: steps, sleep and signals (`onward.contract.notes`)."""
    schedules: bool = False
    """It keeps schedules, whose jobs are booked ahead (`onward.contract.schedules`)."""
    lanes: bool = False
    """It claims by lanes: limits, rates, fairness between keys (`onward.contract.limits`)."""
    flows: bool = False
    """It keeps flows: workflows, chains, batches (`onward.contract.flows`)."""
    groups_deaths: bool = False
    """It keeps dead jobs in groups, by their fingerprints (`onward.contract.deaths`)."""
    audit: bool = False
    """It stores who did what by hand, in the transaction of the act (`onward.contract.audit`)."""


# Of stores that have all other capabilities.
DURABLE = Capabilities(notes=True, schedules=True, lanes=True, flows=True, groups_deaths=True, audit=True)
LOSSY = msgspec.structs.replace(DURABLE, durable=False)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a health report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""  # what to type, of one that is not ok
    about: tuple[str, ...] = ()  # the queues, jobs, hosts or schedules that it speaks of


@runtime_checkable
class Emptying(Protocol):
    """A store that can be emptied, for tests."""

    def empty(self) -> None:
        """Remove every job, record, key, session and pause of this namespace."""
        ...


@runtime_checkable
class Inline(Protocol):
    """A backend whose jobs run in the thread that enqueues them."""

    def jump(self) -> bool:
        """Move the clock to the next due job.  False if nothing waits."""
        ...


@runtime_checkable
class Health(Protocol):
    """A backend that can check its store, for `jobs.health()`."""

    def health(self) -> list[Check]: ...


@runtime_checkable
class Advising(Protocol):
    """A backend with advice for a person who starts workers on it."""

    def advice(self) -> Sequence[str]: ...


class Migration(NamedTuple):
    """A numbered change of a store's tables."""

    version: int
    name: str
    sql: str


class Tables(Protocol):
    """A backend whose store has tables.  `onward migrate` looks at them without opening the store."""

    def pending(self) -> Sequence[Migration]:
        """Return the migrations that the store lacks.  Changes nothing; a newer store raises `SchemaTooNew`."""
        ...

    def script(self) -> str:
        """Return these migrations as one script, for a person who has the rights to run it."""
        ...

    def migrate(self) -> Sequence[Migration]:
        """Apply the pending migrations, one process at a time; return what was applied."""
        ...

    def close(self) -> None: ...
