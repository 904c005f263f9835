"""Waking workers: the server has no notifications, so an idle worker polls.

The pause between two looks is 6 % of the time for which the worker has been idle, but at least 2 ms and at most about
0.4 s: a job that comes soon after the last one is found within milliseconds, and a worker that has been idle for seconds
looks two or three times a second.  Until then it has looked about a hundred times.  Pauses are random, so of many idle
workers one claims a job, and the others find nothing when they look.  An enqueue wakes the idle workers of its own process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from onward.backends.mysql.connection import Connections
from onward.backends.sql.waiting import Waiting
from onward.base import forks

__all__ = ["MySQLWaiting", "pauses"]

_FIRST, _LONGEST = 0.002, 0.4  # seconds between two looks
_SHARE = 0.06  # of the time for which a worker has been idle


class MySQLWaiting(Waiting):
    """Lets workers of this process sleep until there is work for them."""

    def __init__(self, connections: Connections, look: Callable[[Sequence[str]], float]) -> None:
        """Make one.  ``look`` returns the seconds until one of these queues has work."""
        super().__init__(connections)
        self._look = look
        self._changed = threading.Condition()
        self._wakes = 0  # how often idle workers were woken
        forks.call_in_child(self._begin_anew)

    def wake(self) -> None:
        """Wake the idle workers of this process."""
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def wait(self, queues: Sequence[str], deadline: float) -> None:
        self._rest(deadline)
        for pause in pauses():
            wakes = self._wakes
            due = self._look(queues)
            self._expects_work = due <= 0
            if due <= 0 or self._connections.closed:
                return
            seconds = min(pause, due, deadline - time.monotonic())
            with self._changed:
                self._changed.wait_for(lambda wakes=wakes: self._wakes != wakes, max(0.0, seconds))  # type: ignore[misc]
            if time.monotonic() >= deadline or self._connections.closed:
                return

    def close(self) -> None:
        self.wake()

    def _begin_anew(self) -> None:
        self._changed = threading.Condition()  # no thread sleeps in a child


def pauses() -> Iterator[float]:
    """Yield the seconds between looks."""
    idle = 0.0
    while True:
        pause = min(max(_FIRST, _SHARE * idle), _LONGEST)
        yield pause * random.uniform(0.75, 1.25)
        idle += pause
