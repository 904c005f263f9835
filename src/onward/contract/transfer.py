"""Transfer between stores: the part of the contract for stores whose jobs can be moved.

A job moves through a *transit queue* of its own name in both stores.  No worker can serve it, for no queue may be called so:
what lies there runs nowhere, whatever is paused or resumed meanwhile.

    store   verb        the job                                     after it the job is
    source  withhold    changes its queue to the transit queue      at the source, at rest
    target  accept      is stored in the transit queue, all of it   in both, at rest
    source  forget      is removed, if it is what was copied        at the target, at rest
    target  admit       changes its queue to its own                at the target, ready to run

Each verb is one transaction and may be repeated.  So a move that ends anywhere is finished by running it again, and at every
instant a job can run in at most one of the stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from onward.contract.values import Run
from onward.job.states import State

__all__ = ["MOVABLE", "Accepted", "Confirmed", "Movable", "Parcel", "Transit"]

MOVABLE = frozenset({State.SCHEDULED, State.AVAILABLE, State.RETRYABLE, State.DISCARDED})

_MARK = ">"  # which no queue's name may hold


class Transit(NamedTuple):
    """The transit queue of one queue of one store; ``tag`` tells it from those of other stores at the same target."""

    tag: str
    queue: str

    @property
    def name(self) -> str:
        """
        >>> Transit("k3f9", "mail").name
        '>k3f9>mail'
        """
        return f"{_MARK}{self.tag}{_MARK}{self.queue}"

    @classmethod
    def parse(cls, name: str) -> Transit | None:
        """
        >>> Transit.parse(">k3f9>mail"), Transit.parse("mail")
        (Transit(tag='k3f9', queue='mail'), None)
        """
        if not name.startswith(_MARK):
            return None
        tag, _, queue = name[1:].partition(_MARK)
        return cls(tag, queue)


class Confirmed(msgspec.Struct, frozen=True):
    """An idempotency key that a success has confirmed: by which lease, and until when it counts."""

    job_id: str
    token: int
    until: int


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """All that is stored of a job, but for its queue.  The sealed bytes are never touched."""

    id: str
    job: str
    sealed: bytes
    state: State
    priority: int
    available_at: int
    expires_at: int | None
    enqueued_at: int
    started_at: int | None
    max_crashes: int
    delivery: int
    attempts: int
    crashes: int
    interruptions: int
    waits: int
    parked_since: int | None
    spent: str | None
    unique_key: str | None
    key_held: bool
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None
    progress: bytes | None
    owner: str | None = None  # of its last run, if it is dead
    finished_at: int | None = None
    reason: str | None = None
    result: bytes | None = None
    confirmed: Confirmed | None = None  # its idempotency key, by another job
    runs: tuple[Run, ...] = ()

    @property
    def is_dead(self) -> bool:
        return self.state is State.DISCARDED


class Accepted(msgspec.Struct, frozen=True):
    """Whether a parcel was stored, or why not.  A job that is ``there`` already needs no second copy."""

    id: str
    stored: bool = True
    there: bool = False
    holder: str | None = None  # the live job that has its unique key


@runtime_checkable
class Movable(Protocol):
    """A store whose jobs can be moved to another one, and that takes in theirs."""

    def withhold(self, queue: str, transit: str, *, after: str = "", limit: int = 500) -> Sequence[str]:
        """Put a page of a paused queue's waiting and dead jobs, by id, at rest.

        Returns the ids it looked at, in their order; none if it is through, or if the queue is not paused.
        """
        ...

    def export(self, transit: str, ids: Sequence[str]) -> Sequence[Parcel]:
        """Return those of them that are at rest there."""
        ...

    def accept(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[Accepted]:
        """Store them at rest: one answer for each, in their order.

        A copy that lies in this transit queue is replaced.  A job that is known elsewhere in this store, live or
        finished, if only as a tombstone, is left alone; so is a unique key that another live job holds.
        """
        ...

    def forget(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[str]:
        """Remove those that are at rest there and still are what these parcels say; returns their ids.

        Compared are state, delivery, attempts, crashes, interruptions and the due time, or the time of death.
        """
        ...

    def admit(self, transit: str, queue: str, ids: Sequence[str]) -> int:
        """Put those that are at rest there into the queue; returns how many."""
        ...
