"""Milestones that a worker's loops have reached, and its end: tests wait for a milestone, never for time to pass."""

from __future__ import annotations

import threading
import time
from collections import Counter

__all__ = ["Milestones", "OneTimeEvent"]


class Milestones:
    """Counts what has happened, by name: `turn`, `claimed`, `settled`, `idle`, `renewed`, `adopted`, `swept`, …"""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition()

    def note(self, name: str, count: int = 1) -> None:
        with self._changed:
            self._counts[name] += count
            self._changed.notify_all()

    def count(self, name: str) -> int:
        with self._changed:
            return self._counts[name]

    def wait_for(self, name: str, count: int = 1, *, timeout: float = 10.0) -> int:
        """Wait until a milestone was reached ``count`` times.  Raises `TimeoutError`, which names all that were reached."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while self._counts[name] < count:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(
                        f"{name} was reached {self._counts[name]} times, not {count}: {dict(self._counts)}"
                    )
                self._changed.wait(left)
            return self._counts[name]


class OneTimeEvent:
    """An event that happens once.

    An `Event` is not enough: a signal handler that waits on it may have interrupted a thread that was about to wait on it
    too, and then waits for a lock that its own thread holds.
    """

    def __init__(self) -> None:
        self._turnstile = threading.Lock()  # held until it has happened
        self._turnstile.acquire()
        self._setting = threading.Lock()
        self._happened = False

    def is_set(self) -> bool:
        return self._happened

    def set(self) -> None:
        with self._setting:
            if not self._happened:
                self._happened = True
                self._turnstile.release()

    def wait(self, timeout: float) -> bool:
        """Wait until the event has happened, at most ``timeout`` seconds."""
        if not self._happened and self._turnstile.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX))):
            self._turnstile.release()
        return self._happened
