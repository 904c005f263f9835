"""One event loop on one thread for all async handlers; a call for the whole batch, not for each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from onward._attempt import Attempt, Runtime, run_async
from onward.logs import get_logger
from onward.worker.loop_watch import LoopWatch
from onward.worker.work import Hand, Work

__all__ = ["Coroutines"]

logger = get_logger("onward.worker")

_LAST_BREATH = 1.0


class Coroutines:
    """Runs async handlers as tasks, as many at once as the hand allows."""

    def __init__(
        self,
        hand: Hand,
        runtime: Runtime,
        *,
        blocked_loop_after: float,
        started: Callable[[Work], None],
        left: Callable[[Work], None],
        finished: Callable[[Attempt], None],
        died: Callable[[BaseException], None],
    ) -> None:
        self._hand = hand
        self._line = hand.coroutines
        self._line.call = self._call
        self._runtime = runtime
        self._started = started
        self._ran = left
        self._finished = finished
        self._died = died
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._watch = LoopWatch(blocked_loop_after, self._tasks)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._starting = threading.Lock()
        self._called = False  # and it has not looked since
        self._stopping = False

    def cancel(self, work: Work) -> bool:
        """Cancel the task of a work that runs here."""
        if work.task is None:
            return False
        self._soon(work.task.cancel)
        return True

    def stop(self) -> None:
        with self._starting:
            self._stopping = True
        if self._loop is not None:
            self._soon(self._loop.stop)
        self._watch.close()

    @property
    def thread(self) -> int | None:
        """Of the event loop."""
        return self._thread

    def __contains__(self, thread: int) -> bool:
        return thread == self._thread

    def _call(self, count: int) -> None:
        if self._called:
            return  # it will see this too
        self._called = True
        if self._loop is None:
            self._start()
        self._soon(self._begin_what_may)

    def _start(self) -> None:
        with self._starting:
            if self._loop is None and not self._stopping:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._serve, args=(self._loop,), name="onward-loop", daemon=True).start()

    def _soon(self, callback: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing runs there any more
                self._loop.call_soon_threadsafe(callback)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = threading.get_ident()
        asyncio.set_event_loop(loop)
        self._watch.start(loop)
        try:
            while not self._stopping:
                try:
                    loop.run_forever()
                except BaseException as error:  # noqa: BLE001  a task that a handler left behind may exit, but not take us along
                    logger.error("a callback or task of a handler raised %s: the event loop goes on", error)  # noqa: TRY400
            self._close(loop)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what handlers left behind, and give it a moment."""
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        try:
            with contextlib.suppress(BaseException):
                if left:
                    loop.run_until_complete(asyncio.wait(left, timeout=_LAST_BREATH))
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _begin_what_may(self) -> None:
        self._called = False
        try:
            while (work := self._hand.begin(self._line)) is not None:
                task = asyncio.get_running_loop().create_task(self._run(work))
                work.task = task
                self._tasks[task] = work
                self._watch.begin()
                task.add_done_callback(self._left)
        except BaseException as error:  # noqa: BLE001  the loop would only log it
            self._died(error)

    async def _run(self, work: Work) -> None:
        self._started(work)
        attempt = await run_async(work.ready, self._runtime)
        if work.ready.terms.timeout is not None:
            self._ran(work)
        # In this order: at every moment it is known as running or as finished.
        self._finished(attempt)
        self._hand.end(work, self._line)
        self._begin_what_may()

    def _left(self, task: asyncio.Task[None]) -> None:
        work = self._tasks.pop(task)
        if work.key in self._hand.running and not self._stopping:
            error = None if task.cancelled() else task.exception()
            self._died(error or RuntimeError(f"the task of job {work.key[0]} ended without an outcome"))
