"""Clocks as objects that can be replaced: the system's in production, one that a test moves elsewhere.

Inside Onward an instant is an ``int``, microseconds since the epoch in UTC; people get aware datetimes.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

__all__ = ["EPOCH", "SECOND", "Clock", "JumpingClock", "SystemClock", "boottime", "from_micros", "to_micros"]

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@runtime_checkable
class Clock(Protocol):
    """Tells the time in two forms: for people and for the store."""

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
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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
