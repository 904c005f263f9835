"""Calling sync handlers, in threads of a worker or in that of its caller, and stopping one that runs.

**Threads.**  Handler threads begin works of one line and block when there is none; the thread that adds works or frees a
slot wakes as many as can begin one.  A queue with a future for each job costs more than the store does; this costs a
fraction of a microsecond.

**Stopping.**  At its deadline, or when the job is cancelled, a handler gets an exception at its next byte-code, in a
worker's thread or in that of the caller of `process_once`; `onward.base.interruption` keeps it out of Onward's own code and
of the next job.  A handler that still runs seconds later gets another one: a bare `except`, or a callback of the garbage
collector, may have swallowed the first.  (`onward.worker.handler_tasks` cancels the task of an async handler.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from onward.attempt.attempt import Attempt, Ready, Runtime, run
from onward.backend import Held
from onward.base import forks
from onward.base.interruption import Guard
from onward.base.logs import get_logger
from onward.errors import JobInterrupted, JobTimeout
from onward.worker.events import WorkerEvents
from onward.worker.inflight import Inflight, Work
from onward.worker.isolated import IsolatedProcesses

__all__ = ["Deadlines", "HandlerThreads", "InterruptSlot", "TimedCalls"]

logger = get_logger("onward.worker")

_SOON = 0.001
_AGAIN = 5.0  # seconds in which an interrupted handler may clean up


class HandlerThreads:
    """Starts at most ``concurrency`` threads, each when there is work for it."""

    def __init__(
        self,
        inflight: Inflight,
        runtime: Runtime,
        deadlines: Deadlines,
        events: WorkerEvents,
        *,
        isolated: IsolatedProcesses | None,
    ) -> None:
        self._inflight = inflight
        self._line = inflight.calls
        self._line.wake = self._wake_or_start
        self._runtime = runtime
        self._deadlines = deadlines
        self._isolated = isolated
        self._events = events
        self._parked: deque[threading.Lock] = deque()
        self._threads = 0
        self._idents: set[int] = set()
        self._starting = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """End the threads as they become idle."""
        self._stopping = True
        self._wake(self._threads)

    def __contains__(self, thread: int) -> bool:
        return thread in self._idents

    def _wake_or_start(self, count: int) -> None:
        missing = count - self._wake(count)
        if missing > 0 and self._threads < self._inflight.concurrency:
            self._start(missing)

    def _wake(self, count: int) -> int:
        """Wake ``count`` threads.  Returns how many of them were blocked."""
        for woken in range(count):
            try:
                wakeup = self._parked.pop()
            except IndexError:
                return woken
            wakeup.release()
        return count

    def _start(self, count: int) -> None:
        with self._starting:
            for _ in range(min(count, self._inflight.concurrency - self._threads)):
                try:
                    threading.Thread(target=self._serve, name=f"onward-run-{self._threads}", daemon=True).start()
                except RuntimeError as error:  # a handler may have started too many; the pump gives back what waits
                    logger.error("no thread can be started for another job: %s", error)  # noqa: TRY400
                    return
                self._threads += 1

    def _serve(self) -> None:
        self._idents.add(threading.get_ident())
        wakeup = threading.Lock()
        wakeup.acquire()
        slot = InterruptSlot(self._deadlines)
        try:
            work: Work | None = None
            while work is not None or not self._stopping:
                if work is None:
                    work = self._inflight.begin(self._line)
                if work is None:
                    self._park(wakeup)
                else:
                    self._run(work, slot)
                    work = self._inflight.begin(self._line, ended=work)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._events.on_died(error)
        for leave in self._runtime.registry.at_thread_end:
            try:
                leave()
            except Exception as error:  # noqa: BLE001  an integration's code; the thread ends in any case
                logger.warning("the end of a handler thread could not be told: %s: %s", type(error).__name__, error)

    def _park(self, wakeup: threading.Lock) -> None:
        """Block until woken."""
        self._parked.append(wakeup)
        if self._stopping or self._inflight.may_begin(self._line):  # a work came before this thread was listed
            try:
                self._parked.remove(wakeup)
            except ValueError:
                wakeup.acquire()  # it was woken already
        else:
            wakeup.acquire()

    def _run(self, work: Work, slot: InterruptSlot) -> None:
        """Run a work and pass on its attempt.  Its slot is freed after that, so it is always listed."""
        self._events.on_started(work)
        slot.work = work
        work.thread = slot.thread
        attempt = (
            self._isolated.run(work)
            if work.isolated and self._isolated is not None
            else run(work.ready, self._runtime, slot if work.ready.entry.definition.interrupt else None)
        )
        self._events.on_finished(work, attempt)


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
        forks.call_in_child(self._begin_anew)

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

    __slots__ = ("_deadlines", "_guard", "leave", "thread", "work")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._guard = Guard()
        self.leave = self._guard.leave  # make the thread uninterruptible again; every job passes through it
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

    def remove(self) -> None:
        """Give the thread back to the code that lent it."""
        with suppress(JobInterrupted):
            self._guard.leave()  # Ctrl-C may have come in between
        self._guard.remove()


class TimedCalls:
    """Calls sync handlers, and interrupts them at their time-outs in the thread of the caller.

    If the caller is itself a handler, it cannot be interrupted until this call has ended.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[Held, Work] = {}
        self._deadlines = Deadlines(self._running, died=_no_more_time_outs)
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        self._running.clear()  # what other threads run stays with the parent

    def run(self, ready: Ready) -> Attempt:
        """Call a sync handler."""
        if ready.terms.timeout is None or not ready.entry.definition.interrupt:
            return run(ready, self._runtime)
        key = (ready.lease.envelope.id, ready.lease.token)
        slot = InterruptSlot(self._deadlines)
        try:
            self._running[key] = slot.work = Work(ready, key, order=0, claimed=0.0)
            return run(ready, self._runtime, slot)
        finally:
            slot.remove()
            self._running.pop(key, None)

    def close(self) -> None:
        self._deadlines.close()


def _no_more_time_outs(error: BaseException) -> None:
    logger.critical("the thread that interrupts handlers at their time-outs died: %s", error, exc_info=error)
