"""Stopping a handler that runs: at its deadline, or because the job was cancelled.

`Deadlines` cancels the task of an async handler.  A sync handler gets an exception at its next byte-code, in a worker's
thread or in that of the caller of `process_once`; `onward.base.interruption` keeps it out of Onward's own code and of the
next job.  A handler that still runs seconds later gets another one: a bare `except`, or a callback of the garbage collector,
may have swallowed the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from onward.backend import Held
from onward.base import forks
from onward.base.interruption import Guard
from onward.errors import JobInterrupted, JobTimeout
from onward.worker.inflight import Work

__all__ = ["Deadlines", "InterruptSlot"]

_SOON = 0.001
_AGAIN = 5.0  # seconds in which an interrupted handler may clean up


class Deadlines:
    """Interrupts handlers that run past their deadline, from a thread that starts with the first deadline.

    There is no list of deadlines: the thread searches the running jobs whenever the earliest known deadline has come.  So a
    job that ends in time leaves nothing behind, and costs nothing more.
    """

    def __init__(self, running: Mapping[Held, Work], *, died: Callable[[BaseException], None]) -> None:
        self._running = running
        self._died = died
        self._closed = False
        self._begin_anew()
        forks.watch(self)

    def before_fork(self) -> None:
        """Do nothing: the child begins anew."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._next = float("inf")
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, work: Work, deadline: float, kind: type[BaseException]) -> None:
        """Interrupt a handler at its deadline if it still runs, unless it has an earlier one."""
        with self._changed:
            if work.deadline is None or deadline < work.deadline:
                work.deadline, work.interruption = deadline, kind
            if deadline < self._next:
                self._next = deadline
                self._changed.notify()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._serve, name="onward-deadlines", daemon=True)
                self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _serve(self) -> None:
        try:
            with self._changed:
                while not self._closed:
                    self._next = self._interrupt_what_is_due()
                    pause = self._next - time.monotonic()
                    self._changed.wait(None if pause == float("inf") else max(0.0, pause))
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)

    def _interrupt_what_is_due(self) -> float:
        """Interrupt the handlers whose deadline has come.  Returns the next deadline."""
        now, after = time.monotonic(), float("inf")
        for work in list(self._running.values()):
            if work.deadline is None:
                continue
            if work.deadline <= now:
                sent = work.guard is not None and work.guard.interrupt(work, work.interruption)
                work.deadline = now + (
                    _AGAIN if sent else _SOON
                )  # else the handler is about to be called, or returning
            after = min(after, work.deadline)
        return after


class InterruptSlot:
    """Makes the handlers of one thread interruptible."""

    __slots__ = ("_deadlines", "_guard", "thread", "work")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._guard = Guard()
        self.thread = threading.get_ident()
        self.work: Work

    def enter(self) -> None:
        """Make the handler interruptible; it is called next."""
        work = self.work
        work.guard = self._guard
        timeout = work.ready.terms.timeout
        if timeout is not None:
            self._deadlines.watch(work, time.monotonic() + timeout, JobTimeout)
        self._guard.enter(work)

    def leave(self) -> type[BaseException] | None:
        """Make the thread uninterruptible again.  See `Guard.leave`."""
        return self._guard.leave()

    def remove(self) -> None:
        """Give the thread back to the code that lent it."""
        with suppress(JobInterrupted):
            self._guard.leave()  # Ctrl-C may have come in between
        self._guard.remove()
