"""The leases of one worker: which wait, which run, which thread may begin the next one, and how many more to claim.

A lease that can run is a `Work`.  It waits in one of two lines, for the handler threads or for the event loop, until one of
them begins it or the pump takes it back; either happens under one lock, so never both.  Calls and coroutines share the
worker's slots.  The last free slot goes to the oldest work: neither line can starve the other, and a line that does not use
it (a blocked event loop) keeps one slot from the other line and no more.

While jobs take microseconds `Inflight` closes most slots: ten threads that pass the interpreter to each other at every job
do less than one that keeps it.  It opens them again as soon as jobs take longer, or when no job ends any more.

Beyond those that run a worker claims about as many as end in a tenth of a second (`Prefetch`), never more than its quota.
The pump claims fast jobs in batches that make the cost of a turn small, and slow jobs one by one, so that none waits behind
another while a second worker is idle.
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
from onward.base.wording import counted
from onward.job.lease import Lease

__all__ = ["Inflight", "Prefetch", "Quota", "WaitingLine", "Work"]

_SWITCH = 20e-6  # seconds: about what it costs to pass the interpreter to another thread and get it back
_SAMPLE = 8  # one of so many jobs is timed
_ENOUGH = 16  # timed jobs from which the usual time is taken
_STRAYS = 1  # so many of them, the longest, are left out: the machine may have been busy with other work
_AHEAD = 0.1  # seconds
_SHORTEST_LOOK = 0.005  # seconds over which a rate means something
_NO_END = 1 << 62


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

    def begin(self, line: WaitingLine, *, ended: Work | None = None) -> Work | None:
        """Begin the next work of this line; None if it has to wait.  ``ended``: ends this one first, as `end` does.

        A thread that ends one work begins the next under the same lock: taking it twice costs as much as calling a handler.
        """
        work: Work | None = None
        opened = wake_other = False
        with self._lock:
            if ended is not None:
                opened, wake_other = self._end(ended, line)
            if self._may_begin(line):
                work = line.works.popleft()
                self.running[work.key] = work
                if work.order % _SAMPLE == 0:
                    work.begun = self._clock()
            elif line.works and self._may_begin(line.other):
                wake_other = True
        if opened:
            self.wake_idle()
        elif wake_other:
            line.other.wake(1)
        return work

    def may_begin(self, line: WaitingLine) -> bool:
        with self._lock:
            return self._may_begin(line)

    def end(self, work: Work, line: WaitingLine) -> None:
        """Free the slot of a work.  The thread that ran it begins the next of its own line."""
        with self._lock:
            opened, wake_other = self._end(work, line)
        if opened:
            self.wake_idle()
        elif wake_other:
            line.other.wake(1)

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

    def _end(self, work: Work, line: WaitingLine) -> tuple[bool, bool]:
        """Free the slot of a work.  Returns whether slots were opened, and whether the other line may begin a work."""
        del self.running[work.key]
        opened = work.begun is not None and self._learn(self._clock() - work.begun)
        others = line.other.works
        return opened, bool(others) and (
            not line.works or others[0].order < line.works[0].order or self._open - len(self.running) > 1
        )

    def _may_begin(self, line: WaitingLine) -> bool:
        free = self._open - len(self.running)
        if not line.works or free <= 0 or self._closed:
            return False
        other = line.other.works
        if free == 1 and other and other[0].order < line.works[0].order:
            return False
        return self._fresh()


class Prefetch:
    """Measures how fast jobs end, and says how many to claim."""

    def __init__(self, concurrency: int, *, at_once: int, ahead: bool = True) -> None:
        """Make one.  ``ahead``: False for a store that counts a crash for every job that a dead process had claimed."""
        self._concurrency = concurrency
        self._at_once = at_once
        self._ahead = _AHEAD if ahead else 0.0
        self._rate = 0.0
        self._since: float | None = None
        self._finished = 0
        self._took = 0.0

    def claimed(self, now: float) -> None:
        """Begin to measure: there is work."""
        if self._since is None:
            self._since = now

    def finished(self, count: int, took: float, now: float) -> None:
        """Count jobs that have ended and took ``took`` seconds together.

        The rate rises at once and falls slowly.  However many jobs end at the same moment, the rate is never more than the
        slots and the time that one job takes allow.
        """
        if self._since is None:
            self._since = now
        self._finished += count
        self._took += took
        span = now - self._since
        if span >= _SHORTEST_LOOK:
            rate = self._finished / span
            if self._took > 0:
                rate = min(rate, self._concurrency * self._finished / self._took)
            self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
            self._since, self._finished, self._took = now, 0, 0.0

    def forget(self) -> None:
        """Forget the rate: the store is empty, or jobs that were claimed ahead waited for too long."""
        self._rate = 0.0
        self._since, self._finished, self._took = None, 0, 0.0

    def wanted(self, inflight: int, now: float) -> int:
        """Return how many jobs to claim now, when ``inflight`` jobs are claimed and have not ended."""
        rate = self._rate
        if self._since is not None and now - self._since > _AHEAD:
            # When no job ends, `finished` is not called and cannot lower the rate.
            rate = min(rate, (self._finished + 1) / (now - self._since))
        return max(0, min(self._concurrency + int(rate * self._ahead) - inflight, self._at_once))


class Quota:
    """When a worker ends by itself: after a number of jobs, or when there is nothing to do.  By default it does not.

    ``jobs``: how many to run in all.  ``recycle_after``: after how many another process should replace this one.
    """

    def __init__(self, jobs: int | None = None, *, recycle_after: int | None = None, until_empty: bool = False) -> None:
        self._jobs = _NO_END if jobs is None else jobs
        self._at_most = min(self._jobs, _NO_END if recycle_after is None else recycle_after)
        self._until_empty = until_empty
        self._done = 0
        self.recycles = self._at_most < self._jobs
        # The quota calls the first with the reason and whether nothing is left to do, the second with how many were settled.
        self.reached: Callable[[str, bool], None] | None = None
        self.count: Callable[[int], None] | None = None

    def left(self, inflight: int) -> int:
        """Return how many more jobs may be claimed."""
        return self._at_most - self._done - inflight

    def all_begun(self, inflight: int) -> None:
        """Ask for a replacement if no more jobs may be claimed.  The claimed ones still run, however long that takes."""
        if self.recycles and self.left(inflight) <= 0:
            self._reach(f"it has begun {counted(int(self._at_most), 'job')}", False)  # noqa: FBT003

    def ran(self, count: int) -> None:
        """Count jobs that were settled after a run."""
        self._done += count
        if self.count is not None:
            self.count(count)
        if self._done >= self._at_most:
            self._reach(f"it has run {counted(self._done, 'job')}", self._done >= self._jobs)

    def found_nothing(self) -> None:
        """End the worker if it was asked to end here: no job is claimed, and the store is empty."""
        if self._until_empty:
            self._reach("nothing is left to do", True)  # noqa: FBT003

    def _reach(self, reason: str, done: bool) -> None:
        if self.reached is not None:
            self.reached(reason, done)
