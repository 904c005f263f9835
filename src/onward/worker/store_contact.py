"""Who may judge that others are dead: only somebody who has been in contact with the store for one whole lease.

After an outage, or when a machine was suspended, or when the clock was set, everybody's session has expired by the store's
clock, and whoever came back first would give back the jobs of the living.  So a failed call, a pause of our own and a step
of the clock each start the lease anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Contact", "boottime"]


def boottime() -> float:
    """Seconds on a clock that does not stop while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Contact:
    """Since when the store has been in reach without a gap."""

    def __init__(
        self, length: float, *, clock: Callable[[], float] = boottime, wall: Callable[[], float] = time.time
    ) -> None:
        self.length = length
        self.margin = min(5.0, length / 6)
        self._clock = clock
        self._wall = wall
        self._since: float | None = None
        self._last = 0.0
        self._ahead = wall() - clock()  # how far the wall clock is ahead: a jump is a step of it

    def made(self, asked: float) -> None:
        """A call was answered that was asked then: the answer may have been long on its way."""
        ahead = self._wall() - self._clock()
        paused = asked - self._last > self.length
        if self._since is None or paused or abs(ahead - self._ahead) > self.margin:
            self._since = asked
        self._ahead, self._last = ahead, asked

    def broken(self) -> None:
        """A call has failed."""
        self._since = None

    def may_judge(self) -> bool:
        """Whether whoever is expired now is dead."""
        now = self._clock()
        return self._since is not None and now - self._last <= self.length and now - self._since >= self.length
