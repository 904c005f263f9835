"""Threads that call sync handlers.

They take from one line and park when there is nothing to begin; whoever adds work or frees a slot calls as many as can
begin.  A queue with a future per job costs more than the store does; this costs a fraction of a microsecond.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from onward.attempt.attempt import Attempt, Runtime, run
from onward.base.logs import get_logger
from onward.worker.inflight import Inflight, Work
from onward.worker.interrupt import Deadlines, Slot
from onward.worker.isolated import IsolatedProcesses

__all__ = ["HandlerThreads"]

logger = get_logger("onward.worker")


class HandlerThreads:
    """At most ``concurrency`` threads, started when there is work for them."""

    def __init__(
        self,
        inflight: Inflight,
        runtime: Runtime,
        deadlines: Deadlines,
        *,
        isolated: IsolatedProcesses | None,
        started: Callable[[Work], None],
        left: Callable[[Work], None],
        finished: Callable[[Attempt], None],
        died: Callable[[BaseException], None],
    ) -> None:
        self._inflight = inflight
        self._line = inflight.calls
        self._line.call = self._call
        self._runtime = runtime
        self._deadlines = deadlines
        self._isolated = isolated
        self._started = started
        self._left = left
        self._finished = finished
        self._died = died
        self._parked: deque[threading.Lock] = deque()
        self._threads = 0
        self._idents: set[int] = set()
        self._starting = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Let threads go as they become idle."""
        self._stopping = True
        self._wake(self._threads)

    def __contains__(self, thread: int) -> bool:
        return thread in self._idents

    def _call(self, count: int) -> None:
        missing = count - self._wake(count)
        if missing > 0 and self._threads < self._inflight.concurrency:
            self._start(missing)

    def _wake(self, count: int) -> int:
        """How many were there to be woken."""
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
                except RuntimeError as error:  # a handler may have started too many; what waits is given back
                    logger.error("no thread can be started for another job: %s", error)  # noqa: TRY400
                    return
                self._threads += 1

    def _serve(self) -> None:
        self._idents.add(threading.get_ident())
        wakeup = threading.Lock()
        wakeup.acquire()
        slot = Slot(self._deadlines)
        try:
            while not self._stopping:
                work = self._inflight.begin(self._line)
                if work is not None:
                    self._run(work, slot)
                else:
                    self._park(wakeup)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)

    def _park(self, wakeup: threading.Lock) -> None:
        """Sit down until somebody calls."""
        self._parked.append(wakeup)
        if self._stopping or self._inflight.may_begin(self._line):  # it came between the look and sitting down
            try:
                self._parked.remove(wakeup)
            except ValueError:
                wakeup.acquire()  # called already: take the call
        else:
            wakeup.acquire()

    def _run(self, work: Work, slot: Slot) -> None:
        self._started(work)
        slot.work = work
        work.thread = slot.thread
        attempt = (
            self._isolated.run(work)
            if work.isolated and self._isolated is not None
            else run(work.ready, self._runtime, slot if work.ready.entry.definition.interrupt else None)
        )
        if work.ready.terms.timeout is not None:
            self._left(work)
        # In this order: at every moment it is known as running or as finished.
        self._finished(attempt)
        self._inflight.end(work, self._line)
