"""Clocks as objects that can be replaced: the system's in production, one that a test moves elsewhere.

Inside Onward an instant is an ``int``, microseconds since the epoch in UTC; people get aware datetimes.

A caller can set a deadline until which the calls of its thread may wait for the store.  Every place that waits asks how long
it may:

    with until(deadline):                    time_left(30.0)  # seconds: at most 30, and no longer than the deadline
        backend.enqueue(envelopes)

Where no deadline is set nothing changes; ``until(None)`` sets none, inside one.  Deadlines are of `time.monotonic`.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, runtime_checkable

__all__ = [
    "EPOCH", "SECOND", "Clock", "JumpingClock", "SystemClock", "boottime", "deadline_is_over", "from_micros",
    "milliseconds_left", "time_left", "to_micros", "until",
]  # fmt: skip

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Linux stops CLOCK_MONOTONIC while it is suspended and macOS does not; Windows has no clocks to choose from.
_RUNS_ON: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_SHORTEST = 0.001  # seconds: for a socket, 0 would mean not to wait at all

_deadline: ContextVar[float | None] = ContextVar("onward.base.clock", default=None)


@runtime_checkable
class Clock(Protocol):
    """Has the time in two forms: for people and for the store."""

    def now(self) -> datetime: ...

    def micros(self) -> int: ...


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        return from_micros(self.micros())

    def micros(self) -> int:
        return time.time_ns() // 1000


class JumpingClock:
    """A clock that runs, and that can jump ahead to the next job that is due."""

    def __init__(self, base: Clock | None = None) -> None:
        self._base = base or SystemClock()
        self._ahead = 0

    def now(self) -> datetime:
        return from_micros(self.micros())

    def micros(self) -> int:
        return self._base.micros() + self._ahead

    def jump_to(self, instant: int) -> None:
        self._ahead += max(0, instant - self.micros())


def boottime() -> float:
    """Return seconds on a clock that does not stop while the machine is suspended."""
    return time.monotonic() if _RUNS_ON is None else time.clock_gettime(_RUNS_ON)


def from_micros(instant: int) -> datetime:
    """Return an instant as an aware datetime.

    >>> from_micros(1_000_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return EPOCH + timedelta(microseconds=instant)


def to_micros(instant: datetime) -> int:
    """Return a datetime as an instant.  Exact, where ``timestamp() * 1e6`` would round.

    >>> to_micros(from_micros(1_700_000_000_123_457))
    1700000000123457
    """
    return (instant - EPOCH) // _MICROSECOND


class until:  # noqa: N801  it reads as a word
    """``with until(deadline):`` no call in the block waits longer.  A class, not a generator: every enqueue uses it."""

    __slots__ = ("_at", "_token")

    def __init__(self, deadline: float | None) -> None:
        self._at = deadline

    def __enter__(self) -> None:
        self._token: Token[float | None] = _deadline.set(self._at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _deadline.reset(self._token)


def time_left(longest: float) -> float:
    """Return how many seconds to wait: ``longest``, unless the deadline comes first."""
    deadline = _deadline.get()
    return longest if deadline is None else max(_SHORTEST, min(longest, deadline - time.monotonic()))


def milliseconds_left() -> int | None:
    """Return the same for `poll`, which without a deadline waits for ever."""
    deadline = _deadline.get()
    return None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)


def deadline_is_over() -> bool:
    """Return whether the deadline has passed."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() >= deadline
