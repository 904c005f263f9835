"""Threads that call sync handlers.

They take from one inbox and park when it is empty; feeding wakes as many as there is work for.  A queue with a future
per job costs more than the store does; this costs a fraction of a microsecond.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from onward._attempt import Attempt, Runtime, run
from onward.worker.interrupt import Deadlines, JobTimeout, ThreadGuard
from onward.worker.session import WorkerSession
from onward.worker.work import Hand, Work

__all__ = ["Runners"]


class Runners:
    """``concurrency`` threads, started when there is work for them."""

    def __init__(
        self,
        hand: Hand,
        session: WorkerSession,
        runtime: Runtime,
        deadlines: Deadlines,
        *,
        started: Callable[[Work], None],
        finished: Callable[[Work, Attempt], None],
        died: Callable[[BaseException], None],
    ) -> None:
        self._hand = hand
        self._session = session
        self._runtime = runtime
        self._deadlines = deadlines
        self._started = started
        self._finished = finished
        self._died = died
        self._parked: deque[threading.Lock] = deque()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def feed(self, works: Sequence[Work]) -> None:
        """Give work to the threads, and wake as many as it takes."""
        self._hand.inbox.extend(works)
        missing = min(len(works) - len(self._parked), self._hand.concurrency - len(self._threads))
        for _ in range(missing):
            thread = threading.Thread(target=self._serve, name=f"onward-run-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self.nudge(len(works))

    def nudge(self, count: int = 1) -> None:
        for _ in range(min(count, len(self._parked))):
            try:
                self._parked.pop().release()
            except IndexError:
                return

    def stop(self) -> None:
        """Let threads go as they become idle."""
        self._stopping = True
        self.nudge(len(self._threads))

    def _serve(self) -> None:
        bench = threading.Lock()
        bench.acquire()
        inbox = self._hand.inbox
        try:
            while True:
                try:
                    work = inbox.popleft()
                except IndexError:
                    if not self._park(bench):
                        return
                    continue
                self._take(work, bench)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)

    def _park(self, bench: threading.Lock) -> bool:
        """Sit down until somebody feeds.  False when the worker stops."""
        self._parked.append(bench)
        if self._stopping or self._hand.inbox:  # it came between the look and sitting down
            try:
                self._parked.remove(bench)
            except ValueError:
                bench.acquire()  # already called: take the call
            return not (self._stopping and not self._hand.inbox)
        bench.acquire()
        return not (self._stopping and not self._hand.inbox)

    def _take(self, work: Work, bench: threading.Lock) -> None:
        while not self._session.fresh():
            if work.key not in self._hand.waiting or self._stopping:
                return
            self._session.wait_fresh(1.0)
        begun = self._hand.begin(work)
        if begun is None:  # async jobs fill the worker: whoever ends one calls us
            self._hand.inbox.appendleft(work)
            self._parked.append(bench)
            bench.acquire()
        elif begun:
            self._run(work)

    def _run(self, work: Work) -> None:
        guard = ThreadGuard()
        work.interruption = guard
        timeout = work.ready.terms.timeout
        if timeout is not None and work.ready.entry.definition.interrupt:
            self._deadlines.add(timeout, lambda: guard.interrupt(JobTimeout))
        self._started(work)
        attempt = run(work.ready, self._runtime, leave=guard.close)
        # In this order: at every moment it is known as running or as finished.
        self._finished(work, attempt)
        self._hand.end(work)
