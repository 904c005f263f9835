"""How much a limit has left: counted from the leases that there are, never from a number that must be given back."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from onward.base.clock import SECOND
from onward.flow.limits import Bounds, Kind
from onward.flow.tokens import FULL, Bucket, charged, is_set_back, next_token, rebased, tokens_left
from onward.job.settlement import GateChange

__all__ = ["FOREVER", "HORIZON", "Gate", "LimitRoom", "Scope", "is_bounded_by"]

HORIZON = 15 * 60 * SECOND  # microseconds: no job is booked further ahead
FOREVER = 253_402_300_799_999_999  # until it is opened by hand


class Scope(NamedTuple):
    """What a limit counts: a queue, all lanes of a job, or one lane; the latter two over all queues."""

    queue: str
    lane: str

    @classmethod
    def of_queue(cls, queue: str) -> Scope:
        return cls(queue, "")

    @classmethod
    def of_lane(cls, lane: str) -> Scope:
        """Return the scope of one lane, or with a group of all its lanes."""
        return cls("", lane)


def is_bounded_by(scope: Scope, kind: Kind, name: str) -> bool:
    """Return whether a limit bounds this scope.

    >>> [
    ...     is_bounded_by(Scope.of_lane(lane), "key", "render")
    ...     for lane in ("render/822bacme", "render/", "renderer/1234a")
    ... ]
    [True, False, False]
    """
    if kind == "queue":
        return scope == Scope.of_queue(name)
    group = f"{name}/"
    return scope.lane == group if kind == "job" else scope.lane.startswith(group) and scope.lane != group


class Gate(msgspec.Struct, frozen=True):
    """What is stored of a scope that has a rate, or was shut.

    A gate with ``shut_for`` belongs to a breaker: for so long after ``shut_until`` one run at a time probes whether it may
    open.
    """

    bucket: Bucket = FULL
    shut_until: int = 0
    shut_for: int = 0

    def is_shut(self, now: int) -> bool:
        return self.shut_until > now

    def probes(self, now: int) -> bool:
        return self.shut_for > 0 and self.shut_until <= now < self.shut_until + self.shut_for

    def changed(self, change: GateChange, now: int) -> Gate:
        """Return the gate after a settlement has shut or opened it.  Shutting only lengthens; what is shut by hand stays."""
        if self.shut_until == FOREVER:
            return self
        if change.seconds <= 0:
            return Gate(self.bucket)
        length = round(change.seconds * SECOND)
        probes_for = max(length if change.probes else 0, self.shut_for if self.is_shut(now) else 0)
        return Gate(self.bucket, min(max(self.shut_until, now + length), FOREVER - 1), probes_for)

    def is_idle(self, bounds: Bounds, now: int) -> bool:
        """Return whether the row says nothing any more: full, open, and not probing."""
        full = bounds.rate is None or tokens_left(bounds.rate, self.bucket, now) == bounds.rate.burst
        return full and not self.is_shut(now) and not self.probes(now)


class LimitRoom:
    """What one scope has left during one claim."""

    def __init__(self, bounds: Bounds, gate: Gate, now: int, *, running: int, probing: int = 0) -> None:
        """``running``: its valid leases; ``probing``: those that began after its gate was shut."""
        self.rate = bounds.rate
        # A clock that was set back: written even if nothing starts, or the bucket would stand still until it has caught up.
        self.charged = self.rate is not None and is_set_back(gate.bucket, now)
        self.bucket = rebased(gate.bucket, now) if self.charged else gate.bucket
        self.probe = gate.shut_for if gate.probes(now) else 0
        self.shut_until = gate.shut_until if gate.is_shut(now) else 0
        self._now = now
        slots = None if bounds.running is None else bounds.running - running
        if self.probe:
            slots = min(1 - probing, 1 if slots is None else slots)
        self._slots = slots
        self.is_limited = bool(bounds) or self.probe > 0

    @property
    def is_open(self) -> bool:
        """Whether a job may start."""
        if self.shut_until or (self._slots is not None and self._slots <= 0):
            return False
        return self.rate is None or tokens_left(self.rate, self.bucket, self._now) > 0

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits for a lease to end, or to be opened by hand: no instant is known at which it opens."""
        return self.shut_until == FOREVER or (self._slots is not None and self._slots <= 0)

    def take(self, cost: int) -> None:
        """Count a job that starts now."""
        if self._slots is not None:
            self._slots -= 1
        if self.rate is not None:
            self.bucket = charged(self.rate, self.bucket, self._now, cost)
            self.charged = True

    def opens_at(self, tokens: int = 1) -> int:
        """Return when it is open by the clock, or has so many tokens."""
        at = self._now if self.rate is None else next_token(self.rate, self.bucket, self._now, tokens)
        return max(at, self.shut_until)
