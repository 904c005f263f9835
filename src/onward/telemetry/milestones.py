"""What the loops of a worker have done: tests wait for one, never for time to pass."""

from __future__ import annotations

import threading
import time
from collections import Counter

__all__ = ["Milestones"]


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
