"""One event loop on one thread for all async handlers; work is handed over by the batch."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from onward._attempt import Attempt, Runtime, run_async
from onward.worker.session import WorkerSession
from onward.worker.work import Hand, Work

__all__ = ["Coroutines"]


class Coroutines:
    """Runs async handlers as tasks, as many at once as the hand allows."""

    def __init__(
        self,
        hand: Hand,
        session: WorkerSession,
        runtime: Runtime,
        *,
        started: Callable[[Work], None],
        finished: Callable[[Work, Attempt], None],
        died: Callable[[BaseException], None],
    ) -> None:
        self._hand = hand
        self._session = session
        self._runtime = runtime
        self._started = started
        self._finished = finished
        self._died = died
        self._inbox: deque[Work] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def feed(self, works: Sequence[Work]) -> None:
        self._inbox.extend(works)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._serve, name="onward-loop", daemon=True).start()
        self.nudge()

    def nudge(self) -> None:
        """A slot may be free."""
        if self._loop is not None and self._inbox:
            self._loop.call_soon_threadsafe(self._begin_what_may)

    def cancel(self, work: Work) -> None:
        """Cancel the task of a work that runs here."""
        if self._loop is not None and work.task is not None:
            self._loop.call_soon_threadsafe(work.task.cancel)

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _serve(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)
        finally:
            self._loop.close()

    def _begin_what_may(self) -> None:
        while self._inbox:
            if not self._session.fresh():
                assert self._loop is not None
                self._loop.call_later(0.1, self._begin_what_may)
                return
            work = self._inbox.popleft()
            begun = self._hand.begin(work)
            if begun is None:
                self._inbox.appendleft(work)
                return
            if begun:
                task = asyncio.get_running_loop().create_task(self._run(work))
                work.task = task
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Work) -> None:
        self._started(work)
        attempt = await run_async(work.ready, self._runtime)
        # In this order: at every moment it is known as running or as finished.
        self._finished(work, attempt)
        self._hand.end(work)
        self._begin_what_may()
