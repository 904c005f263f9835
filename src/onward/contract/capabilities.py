"""What a store can do beyond the verbs, and how it says so: code asks for a capability, never for a store by name."""

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
    """What a backend can do.  Code asks for these, never for a backend's name."""

    delays: bool = True
    priorities: bool = True
    deduplicates: bool = True
    wakes: bool = True  # `wait` returns when another process enqueues, long before its timeout
    remote_extend: bool = True  # a session can be renewed by another process than the one that claimed
    fences_expired: bool = True  # a lease that was given back can change nothing, even before the next claim
    durable: bool = True  # an enqueue that returned survives the death of the process and of the machine
    shared: bool = True  # other processes see the same jobs
    # What a broker lacks.
    sessions: bool = True  # the store knows sessions: any client can adopt or reap another's, and they expire
    holds: bool = True  # idempotency keys and single instances
    prefetches: bool = True  # a lease that has not begun can be lost unharmed; else only what begins at once is claimed
    knows_ids: bool = (
        True  # an id is not stored twice, `retried` looks among the finished, and a batch is all or nothing
    )
    promotes: bool = True  # a turn makes due what is due, so a queue is served strictly by priority, due time and id
    remembers: bool = True  # what was settled is known to every client, for as long as the contract says
    lists_queues: bool = True  # it names the queues that have work, so a worker can serve a pattern of names
    keeps_place: bool = True  # what is given back unharmed stands where it stood; else it is as new as its copy
    # What a store adds, each with a protocol of its own.
    notes: bool = False  # steps, sleep and signals (`onward.contract.notes`)
    schedules: bool = False  # schedules, booked ahead (`onward.contract.schedules`)


DURABLE, LOSSY = Capabilities(), Capabilities(durable=False)  # of stores that do all else


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a health report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str


@runtime_checkable
class Emptying(Protocol):
    """A store that can be made as new, for tests."""

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
    """A backend that can say how it is."""

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
    """The tables of a store, for backends that have any: looking at them changes nothing, while opening the store does."""

    def pending(self) -> Sequence[Migration]:
        """Return what this Onward ships and the store lacks.  Changes nothing; a newer store raises `SchemaTooNew`."""
        ...

    def script(self) -> str:
        """Return the same as one script, for a person who has the rights to run it."""
        ...

    def migrate(self) -> Sequence[Migration]:
        """Apply what is pending, one process at a time; return what was applied."""
        ...

    def close(self) -> None: ...
