"""The leases of one worker: which wait, which run, and which thread may begin the next one.

A lease that can run is a `Work`.  It waits in one of two lines, for the handler threads or for the event loop, until one of
them begins it or the pump takes it back; either happens under one lock, so never both.  Calls and coroutines share the
worker's slots.  The last free slot goes to the oldest work: neither line can starve the other, and a line that does not use
it (a blocked event loop) keeps one slot from the other line and no more.

While jobs take microseconds `Inflight` closes most slots: ten threads that pass the interpreter to each other at every job
do less than one that keeps it.  It opens them again as soon as jobs take longer, or when no job ends any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from onward.attempt.attempt import Ready
from onward.backend import Held
from onward.job.lease import Lease

__all__ = ["Inflight", "WaitingLine", "Work"]

_SWITCH = 20e-6  # seconds: about what it costs to pass the interpreter to another thread and get it back
_SAMPLE = 8  # one of so many jobs is timed
_ENOUGH = 16  # timed jobs from which the usual time is taken
_STRAYS = 1  # so many of them, the longest, are left out: the machine may have been busy with other work


class Work(msgspec.Struct, eq=False):
    """One lease that waits for a slot or runs."""

    ready: Ready
    key: Held
    order: int  # its number in the order in which leases were claimed
    claimed: float
    begun: float | None = None  # when, if this job is timed
    isolated: bool = False  # whether it runs in a process of its own, for which a thread waits
    deadline: float | None = None  # when to interrupt it, and how
    interruption: type[BaseException] = BaseException
    guard: Any = None  # of the thread that runs the handler
    task: Any = None  # that runs an async handler
    thread: int | None = None  # that calls a sync handler
    lost: bool = False  # whether its lease is known to be lost
    stopped: bool = False  # whether its handler was told of the cancellation

    @property
    def lease(self) -> Lease:
        return self.ready.lease


class WaitingLine:
    """Works of one kind that wait for a slot, the oldest first; ``wake`` wakes so many of the threads that run them."""

    __slots__ = ("other", "wake", "works")

    def __init__(self) -> None:
        self.works: deque[Work] = deque()
        self.other: WaitingLine
        self.wake: Callable[[int], None] = _wake_none


def _wake_none(count: int) -> None:
    """Do nothing: no thread serves this line yet."""


class Inflight:
    """All leases of one worker."""

    def __init__(
        self,
        concurrency: int,
        fresh: Callable[[], bool],
        *,
        isolates: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Make one for a worker.  ``isolates``: whether jobs can be given processes of their own."""
        self.concurrency = concurrency
        self._isolates = isolates
        self.unsettled: dict[
            Held, str
        ] = {}  # every lease and its queue, until it is settled; changed by the pump's thread
        self._clock = clock
        self.calls = WaitingLine()  # for handler threads
        self.coroutines = WaitingLine()  # for the event loop
        self.calls.other, self.coroutines.other = self.coroutines, self.calls
        self.running: dict[Held, Work] = {}
        self._open = concurrency  # slots
        self._took: list[float] = []  # by those that ended lately
        self._fresh = fresh
        self._closed = False
        self._lock = threading.Lock()

    def add(self, works: Iterable[Work]) -> None:
        with self._lock:
            for work in works:
                entry = work.ready.entry
                work.isolated = self._isolates and (work.lease.crashes > 0 or entry.definition.isolation == "process")
                line = self.coroutines if entry.is_async and not work.isolated else self.calls
                line.works.append(work)
        self.wake_idle()

    def wake_idle(self) -> None:
        """Wake idle handler threads."""
        room = self._open - len(self.running)
        for line in (self.calls, self.coroutines):
            if line.works and room > 0:
                line.wake(min(room, len(line.works)))

    def begin(self, line: WaitingLine) -> Work | None:
        """Begin the next work of this line; None if it has to wait."""
        with self._lock:
            if self._may_begin(line):
                work = line.works.popleft()
                self.running[work.key] = work
                if work.order % _SAMPLE == 0:
                    work.begun = self._clock()
                return work
            other = line.other
            pass_on = bool(line.works) and self._may_begin(other)
        if pass_on:
            other.wake(1)
        return None

    def may_begin(self, line: WaitingLine) -> bool:
        with self._lock:
            return self._may_begin(line)

    def end(self, work: Work, line: WaitingLine) -> None:
        """Free the slot of a work.  The thread that ran it begins the next of its own line."""
        with self._lock:
            del self.running[work.key]
            opened = work.begun is not None and self._learn(self._clock() - work.begun)
            other = line.other
            wake_other = bool(other.works) and (
                not line.works or other.works[0].order < line.works[0].order or self._open - len(self.running) > 1
            )
        if opened:
            self.wake_idle()
        elif wake_other:
            other.wake(1)

    @property
    def holds_back(self) -> bool:
        """Whether a work waits only because jobs were quick and slots are closed."""
        return self._open < self.concurrency and bool(self.calls.works or self.coroutines.works)

    def open_all(self) -> None:
        """Open all slots: the measured times of jobs do not hold any more."""
        with self._lock:
            self._open = self.concurrency
            self._took.clear()
        self.wake_idle()

    def withdraw(self, *, older_than: float | None = None) -> list[Work]:
        """Take back works that have not begun: all of them, or those that have waited since before an instant."""
        chosen: list[Work] = []
        with self._lock:
            for line in (self.calls, self.coroutines):
                while line.works and (older_than is None or line.works[0].claimed <= older_than):
                    chosen.append(line.works.popleft())
        if chosen:
            self.wake_idle()  # the first in one line may have kept the last slot from the other
        return chosen

    def drop(self, work: Work) -> bool:
        """Take back a work.  False if it has begun."""
        with self._lock:
            for line in (self.calls, self.coroutines):
                if work in line.works:
                    line.works.remove(work)
                    break
            else:
                return False
        self.wake_idle()
        return True

    def close(self) -> None:
        """Begin no work any more."""
        with self._lock:
            self._closed = True

    def oldest(self) -> float | None:
        """Return since when the oldest work has waited."""
        heads = [line.works[0].claimed for line in (self.calls, self.coroutines) if line.works]
        return min(heads) if heads else None

    def everything(self) -> list[Work]:
        with self._lock:
            return [*self.calls.works, *self.coroutines.works, *self.running.values()]

    def find(self, key: Held) -> Work | None:
        work = self.running.get(key)
        if work is None:
            work = next((each for each in self.everything() if each.key == key), None)
        return work

    def _learn(self, took: float) -> bool:
        """Learn how long a job took.  Returns whether slots were opened."""
        before = self._open
        self._took.append(took)
        if len(self._took) == _ENOUGH:
            usual = sorted(self._took)[:-_STRAYS]
            self._open = min(self.concurrency, 1 + int(sum(usual) / len(usual) / _SWITCH))
            self._took.clear()
        return self._open > before

    def _may_begin(self, line: WaitingLine) -> bool:
        free = self._open - len(self.running)
        if not line.works or free <= 0 or self._closed:
            return False
        other = line.other.works
        if free == 1 and other and other[0].order < line.works[0].order:
            return False
        return self._fresh()
