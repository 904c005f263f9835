"""The leases in a worker's hand: which wait, which run, and who may touch them when.

A lease in hand is a `Work`.  It waits in the inbox until a runner begins it, or until the pump withdraws it to give it
back; only one of the two can happen, because both take it out of the same dictionary.  It leaves the hand when the
store has answered its settlement.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from onward._attempt import Ready
from onward.lease import Lease

__all__ = ["Hand", "Key", "Work"]

Key = tuple[str, int]


class Work:
    """One lease in hand that is ready to run."""

    __slots__ = ("claimed", "interruption", "key", "ready", "started", "task")

    def __init__(self, ready: Ready, claimed: float) -> None:
        self.ready = ready
        self.key: Key = (ready.lease.envelope.id, ready.lease.token)
        self.claimed = claimed
        self.started: float | None = None
        self.interruption: Any = None  # how to stop it, once it runs
        self.task: Any = None

    @property
    def lease(self) -> Lease:
        return self.ready.lease


class Hand:
    """All the work of one worker that the store has not settled yet."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.inbox: deque[Work] = deque()  # for runner threads
        self.waiting: dict[Key, Work] = {}
        self.running: dict[Key, Work] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)

    def add(self, works: Iterable[Work]) -> None:
        for work in works:
            self.waiting[work.key] = work

    def begin(self, work: Work) -> bool | None:
        """Start a work.  False: it was withdrawn.  None: as many run as may."""
        with self._lock:
            if work.key not in self.waiting:
                return False
            if len(self.running) >= self.concurrency:
                return None
            del self.waiting[work.key]
            self.running[work.key] = work
        work.started = time.monotonic()
        return True

    def end(self, work: Work) -> None:
        self.running.pop(work.key, None)

    def withdraw(self, *, older_than: float | None = None) -> list[Work]:
        """Take back what has not begun: all of it, or what has waited since before an instant."""
        with self._lock:
            chosen = [work for work in self.waiting.values() if older_than is None or work.claimed <= older_than]
            for work in chosen:
                del self.waiting[work.key]
        return chosen

    def drop(self, work: Work) -> None:
        """Never start it."""
        with self._lock:
            self.waiting.pop(work.key, None)

    def everything(self) -> list[Work]:
        with self._lock:
            return [*self.waiting.values(), *self.running.values()]

    def find(self, key: Key) -> Work | None:
        # In this order: a work moves from waiting to running, never back.
        return self.waiting.get(key) or self.running.get(key)
