"""What a walk over the lanes of a queue (`onward.flow.walk`) asks a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from onward.flow.limits import Bounds, Kind
from onward.flow.room import Gate, Scope

__all__ = ["PLAIN", "J", "LaneView", "LanedJob"]

PLAIN = ""  # the group, and the lane, of jobs that have none


class LanedJob(Protocol):
    """A job that waits in a lane."""

    @property
    def id(self) -> str: ...
    @property
    def crashes(self) -> int: ...
    @property
    def cost(self) -> int | None: ...


J = TypeVar("J", bound=LanedJob)
J_co = TypeVar("J_co", bound=LanedJob, covariant=True)


class LaneView(Protocol[J_co]):
    """What a walk asks a store.  Plain jobs are in the lane ``PLAIN``."""

    now: int

    @property
    def any_gates(self) -> bool:
        """Whether any lane that this has named may have a gate."""
        ...

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        """Return the next lower priority that has available jobs; the highest, after None."""
        ...

    def lane_after(self, queue: str, rank: int, after: str, before: str) -> str | None:
        """Return the first lane behind ``after`` that has available jobs; None if there is none below ``before``."""
        ...

    def heads(self, queue: str, rank: int, lane: str, skip: int, count: int) -> Sequence[J_co]:
        """Return the next jobs of a lane that have not expired, by due time and id: some of them, and none at the end."""
        ...

    def bounds(self, kind: Kind, name: str) -> Bounds:
        """Return the limit of a ``queue``, of a ``job``, or of each ``key`` of a job."""
        ...

    def gate(self, scope: Scope) -> Gate: ...

    def running(self, scope: Scope, since: int = 0) -> int:
        """Return how many leases a scope has; with ``since``, of those that began then or later."""
        ...
