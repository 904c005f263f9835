"""The leases in a worker's hand: which wait, which run, and who may begin the next one.

A lease in hand is a `Work`.  It waits in one of two lines, for the runner threads or for the event loop, until one of them
begins it or the pump takes it back; either happens under one lock, so never both.  Calls and coroutines share the worker's
slots.  The last free slot is for whoever came first: neither line can starve the other, and a line that does not come for
it (a blocked event loop) keeps one slot from the others and no more.

While jobs take microseconds most slots are closed: ten threads that hand the interpreter to each other at every job do less
than one that keeps it.  They are opened again as soon as jobs take longer, or when nothing ends any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from onward.attempt.attempt import Ready
from onward.job.lease import Lease

__all__ = ["Inflight", "Key", "WaitingLine", "Work"]

Key = tuple[str, int]

_SWITCH = 20e-6  # seconds: about what it costs to hand the interpreter to another thread and get it back
_SAMPLE = 8  # of so many jobs, one is timed
_ENOUGH = 16  # that were, to tell how long jobs take
_STRAYS = 1  # of them, the longest: the machine may have been busy elsewhere


class Work(msgspec.Struct, eq=False):
    """One lease in hand that is ready to run."""

    ready: Ready
    key: Key
    order: int  # of the claim
    claimed: float
    begun: float | None = None  # if it is timed
    isolated: bool = False  # whether it runs in a process of its own; a thread waits for that
    deadline: float | None = None  # when to interrupt it, and how
    interruption: type[BaseException] = BaseException
    guard: Any = None  # of the thread that runs it
    task: Any = None  # that runs it
    thread: int | None = None  # that calls it
    lost: bool = False  # whether its lease is known to be lost
    stopped: bool = False  # whether its handler was told that it is cancelled

    @property
    def lease(self) -> Lease:
        return self.ready.lease


class WaitingLine:
    """Works of one kind that wait for a slot, the oldest first; ``call`` tells those who run them that one is free."""

    __slots__ = ("call", "works")

    def __init__(self) -> None:
        self.works: deque[Work] = deque()
        self.call: Callable[[int], None] = _nobody


def _nobody(count: int) -> None:
    """Nobody serves this line yet."""


class Inflight:
    """All that one worker may begin or has begun."""

    def __init__(
        self, concurrency: int, fresh: Callable[[], bool], *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.concurrency = concurrency
        self._clock = clock
        self.calls = WaitingLine()  # for runner threads
        self.coroutines = WaitingLine()  # for the event loop
        self.running: dict[Key, Work] = {}
        self._open = concurrency  # slots
        self._took: list[float] = []  # by those that ended lately
        self._fresh = fresh
        self._closed = False
        self._lock = threading.Lock()

    def add(self, works: Iterable[Work]) -> None:
        with self._lock:
            for work in works:
                line = self.coroutines if work.ready.entry.is_async and not work.isolated else self.calls
                line.works.append(work)
        self.call()

    def call(self) -> None:
        """Tell whoever could begin something."""
        room = self._open - len(self.running)
        for line in (self.calls, self.coroutines):
            if line.works and room > 0:
                line.call(min(room, len(line.works)))

    def begin(self, line: WaitingLine) -> Work | None:
        """The next work of this line, now running; None if it has to wait."""
        with self._lock:
            if self._may_begin(line):
                work = line.works.popleft()
                self.running[work.key] = work
                if work.order % _SAMPLE == 0:
                    work.begun = self._clock()
                return work
            other = self._other(line)
            pass_on = bool(line.works) and self._may_begin(other)
        if pass_on:
            other.call(1)
        return None

    def may_begin(self, line: WaitingLine) -> bool:
        with self._lock:
            return self._may_begin(line)

    def end(self, work: Work, line: WaitingLine) -> None:
        """It has ended and its slot is free.  Whoever ran it looks for the next in its own line."""
        with self._lock:
            del self.running[work.key]
            opened = work.begun is not None and self._tells(self._clock() - work.begun)
            other = self._other(line)
            call_other = bool(other.works) and (
                not line.works or other.works[0].order < line.works[0].order or self._open - len(self.running) > 1
            )
        if opened:
            self.call()
        elif call_other:
            other.call(1)

    @property
    def holds_back(self) -> bool:
        """Whether something waits only because jobs were quick."""
        return self._open < self.concurrency and bool(self.calls.works or self.coroutines.works)

    def open_all(self) -> None:
        """What is known of how long jobs take does not hold any more."""
        with self._lock:
            self._open = self.concurrency
            self._took.clear()
        self.call()

    def withdraw(self, *, older_than: float | None = None) -> list[Work]:
        """Take back what has not begun: all of it, or what has waited since before an instant."""
        chosen: list[Work] = []
        with self._lock:
            for line in (self.calls, self.coroutines):
                while line.works and (older_than is None or line.works[0].claimed <= older_than):
                    chosen.append(line.works.popleft())
        if chosen:
            self.call()  # the first in one line may have kept the last slot from the other
        return chosen

    def drop(self, work: Work) -> bool:
        """Never begin it.  False if it has begun."""
        with self._lock:
            for line in (self.calls, self.coroutines):
                if work in line.works:
                    line.works.remove(work)
                    break
            else:
                return False
        self.call()
        return True

    def close(self) -> None:
        """Begin nothing any more."""
        with self._lock:
            self._closed = True

    def oldest(self) -> float | None:
        """Since when the first in line has waited."""
        heads = [line.works[0].claimed for line in (self.calls, self.coroutines) if line.works]
        return min(heads) if heads else None

    def everything(self) -> list[Work]:
        with self._lock:
            return [*self.calls.works, *self.coroutines.works, *self.running.values()]

    def find(self, key: Key) -> Work | None:
        work = self.running.get(key)
        if work is None:
            work = next((each for each in self.everything() if each.key == key), None)
        return work

    def _tells(self, took: float) -> bool:
        """How long a job took.  Gives whether slots were opened for it."""
        before = self._open
        self._took.append(took)
        if len(self._took) == _ENOUGH:
            usual = sorted(self._took)[:-_STRAYS]
            self._open = min(self.concurrency, 1 + int(sum(usual) / len(usual) / _SWITCH))
            self._took.clear()
        return self._open > before

    def _other(self, line: WaitingLine) -> WaitingLine:
        return self.coroutines if line is self.calls else self.calls

    def _may_begin(self, line: WaitingLine) -> bool:
        free = self._open - len(self.running)
        if not line.works or free <= 0 or self._closed:
            return False
        other = self._other(line).works
        if free == 1 and other and other[0].order < line.works[0].order:
            return False
        return self._fresh()
