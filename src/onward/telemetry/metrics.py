"""The counters of an application.  They move once per settlement, when the store has applied it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping

from onward.base import forks

__all__ = ["Metrics"]


class Metrics:
    """Counters of this process, by name and queue."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._lock = threading.Lock()
        forks.watch(self)

    def add(self, name: str, queue: str, count: int = 1) -> None:
        if self.enabled:
            with self._lock:
                self._counts[name, queue] += count

    def add_all(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add a batch at once: one lock, however many jobs."""
        if self.enabled and counts:
            with self._lock:
                for key, count in counts.items():
                    self._counts[key] += count

    def count(self, name: str, queue: str | None = None) -> int:
        """Return one counter, for one queue or for all of them."""
        with self._lock:
            if queue is not None:
                return self._counts.get((name, queue), 0)
            return sum(count for (each, _), count in self._counts.items() if each == name)

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Return every counter that has moved: name, then queue."""
        with self._lock:
            counts = dict(self._counts)
        tree: dict[str, dict[str, int]] = {}
        for (name, queue_name), count in sorted(counts.items()):
            tree.setdefault(name, {})[queue_name] = count
        return tree

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        self._lock.release()
