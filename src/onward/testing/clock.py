"""A clock that a test moves."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from onward.base.clock import SECOND, from_micros, to_micros

__all__ = ["FakeClock"]

START = datetime(2030, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class FakeClock:
    """Starts at a fixed instant, so that two runs of a test see the same times.  Safe to share between threads.

    >>> clock = FakeClock()
    >>> clock.now().isoformat()
    '2030-01-01T00:00:00+00:00'
    >>> clock.advance(1.5)
    >>> clock.now().isoformat()
    '2030-01-01T00:00:01.500000+00:00'
    """

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._micros = _instant(start)

    def now(self) -> datetime:
        return from_micros(self.micros())

    def micros(self) -> int:
        with self._lock:
            return self._micros

    def advance(self, by: float | timedelta) -> None:
        """Move the clock by seconds or a timedelta; by a negative step back, as a host's clock may go."""
        step = by // _MICROSECOND if isinstance(by, timedelta) else round(by * SECOND)
        with self._lock:
            self._micros += step

    def set(self, instant: datetime) -> None:
        """Set the clock to an instant."""
        micros = _instant(instant)
        with self._lock:
            self._micros = micros


def _instant(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} is naive: give it a time zone, such as datetime.UTC")
    return to_micros(moment)
