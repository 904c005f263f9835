"""Threads that call sync handlers.

Handler threads begin works of one line and block when there is none; the thread that adds works or frees a slot wakes as
many as can begin one.  A queue with a future for each job costs more than the store does; this costs a fraction of a
microsecond.
"""

from __future__ import annotations

import threading
from collections import deque

from onward.attempt.attempt import Runtime, run
from onward.base.logs import get_logger
from onward.worker.events import WorkerEvents
from onward.worker.inflight import Inflight, Work
from onward.worker.interrupt import Deadlines, InterruptSlot
from onward.worker.isolated import IsolatedProcesses

__all__ = ["HandlerThreads"]

logger = get_logger("onward.worker")


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
            while not self._stopping:
                work = self._inflight.begin(self._line)
                if work is not None:
                    self._run(work, slot)
                else:
                    self._park(wakeup)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._events.on_died(error)

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
        self._events.on_started(work)
        slot.work = work
        work.thread = slot.thread
        attempt = (
            self._isolated.run(work)
            if work.isolated and self._isolated is not None
            else run(work.ready, self._runtime, slot if work.ready.entry.definition.interrupt else None)
        )
        # In this order: at every moment the job is listed as running or as ended.
        self._events.on_finished(work, attempt)
        self._inflight.end(work, self._line)
