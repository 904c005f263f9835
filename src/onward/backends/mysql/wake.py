"""Waking workers: there are no notifications, so who sleeps looks now and then.

At first after 50 ms, then less and less often, down to about twice a second; no two sleepers keep step.  So of many idle
workers one comes for a job, and the others find it gone when they look.  Who enqueues in the same process rings a bell for
its own sleepers.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

from onward.base import forks
from onward.base.backoff import doubling, jittered

__all__ = ["Bell", "Rest", "pauses"]

_FIRST, _LONGEST = 0.05, 0.4  # seconds between two looks
_MOMENT, _LONGEST_REST = 0.001, 0.25


class Bell:
    """Rings for the sleepers of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.rung = 0
        forks.watch(self)

    def ring(self) -> None:
        with self._changed:
            self.rung += 1
            self._changed.notify_all()

    def sleep(self, rung: int, seconds: float) -> None:
        """Until it rings, or has rung since it had ``rung`` so often; at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.rung != rung, max(0.0, seconds))

    def before_fork(self) -> None:
        """Nothing to do: nobody sleeps in a child."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._changed = threading.Condition()


class Rest:
    """How long to wait after being sent for work in vain: perhaps somebody has locked it, and takes his time."""

    def __init__(self) -> None:
        self._in_vain = 0
        self._sent = False

    def sent(self, *, for_work: bool) -> None:
        self._sent = for_work

    def found_work(self) -> None:
        self._in_vain, self._sent = 0, False

    def take(self, at_most: float) -> None:
        if self._sent:
            self._in_vain += 1
            rest = jittered(doubling(2 * _MOMENT, self._in_vain, _LONGEST_REST))
            time.sleep(max(0.0, min(rest, at_most)))


def pauses() -> Iterator[float]:
    """Seconds between looks."""
    pause = _FIRST
    while True:
        yield pause * random.uniform(0.75, 1.25)
        pause = min(1.5 * pause, _LONGEST)
