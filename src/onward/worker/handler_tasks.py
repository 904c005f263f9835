"""One event loop on one thread for all async handlers.  The pump wakes it once for a batch of works, not for each."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable

from onward.attempt.attempt import Runtime, conclude, run_async
from onward.base.failure import kind_of
from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.worker.events import WorkerEvents
from onward.worker.inflight import Inflight, Work
from onward.worker.loop_watch import LoopWatch

__all__ = ["HandlerTasks"]

logger = get_logger("onward.worker")

_TASKS_END_WITHIN = 1.0  # seconds


class HandlerTasks:
    """Runs async handlers as tasks, as many at once as there are slots."""

    def __init__(
        self,
        inflight: Inflight,
        runtime: Runtime,
        events: WorkerEvents,
        *,
        blocked_loop_after: float,
    ) -> None:
        self._inflight = inflight
        self._line = inflight.coroutines
        self._line.wake = self._wake
        self._runtime = runtime
        self._events = events
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._watch = LoopWatch(blocked_loop_after, self._tasks)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._starting = threading.Lock()
        self._context = contextvars.copy_context()  # copied for every task: the next handler does not see what one sets
        self._woken = False  # since the loop last looked for works
        self._stopping = False

    def cancel(self, work: Work) -> bool:
        """Cancel the task of a work.  False if it has none yet."""
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
        """The thread of the event loop."""
        return self._thread

    def __contains__(self, thread: int) -> bool:
        return thread == self._thread

    def _wake(self, count: int) -> None:
        if self._woken:
            return  # the loop will see this work too
        self._woken = True
        try:
            if self._loop is None:
                self._start()
        except RuntimeError as error:  # a handler may have started too many threads; the pump gives back what waits
            self._woken = False
            logger.error("no thread can be started for async jobs: %s", error)  # noqa: TRY400
        self._soon(self._begin_what_may)

    def _start(self) -> None:
        with self._starting:
            if self._loop is None and not self._stopping:
                loop = asyncio.new_event_loop()
                try:
                    threading.Thread(target=self._serve, args=(loop,), name="onward-loop", daemon=True).start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop = loop

    def _soon(self, callback: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task runs there any more
                self._loop.call_soon_threadsafe(callback)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = threading.get_ident()
        asyncio.set_event_loop(loop)
        self._watch.start(loop)
        try:
            while not self._stopping:
                try:
                    loop.run_forever()
                except BaseException as error:  # noqa: BLE001  a task that a handler left behind may call exit()
                    what = kind_of(error)  # without its text, which may quote a secret of any job
                    logger.error("a callback or task of a handler raised %s: the event loop goes on", what)  # noqa: TRY400
            self._close(loop)
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._events.on_died(error)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks that handlers left behind, and wait a moment for their end."""
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        try:
            with contextlib.suppress(BaseException):
                if left:
                    loop.run_until_complete(asyncio.wait(left, timeout=_TASKS_END_WITHIN))
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _begin_what_may(self) -> None:
        self._woken = False
        try:
            while (work := self._inflight.begin(self._line)) is not None:
                # Not by the loop's own method: a handler may have given it a factory for tasks.
                loop = asyncio.get_running_loop()
                task = asyncio.Task(self._run(work), loop=loop, context=self._context.copy())
                work.task = task
                self._tasks[task] = work
                self._watch.begin()
                task.add_done_callback(self._left)
        except BaseException as error:  # noqa: BLE001  the loop would only log it
            self._events.on_died(error)

    async def _run(self, work: Work) -> None:
        self._events.on_started(work)
        attempt = await run_async(work.ready, self._runtime)
        # In this order: at every moment the job is listed as running or as ended.
        self._events.on_finished(work, attempt)
        self._inflight.end(work, self._line)
        self._begin_what_may()

    def _left(self, task: asyncio.Task[None]) -> None:
        work = self._tasks.pop(task)
        if work.key not in self._inflight.running or self._stopping:
            return
        if not task.cancelled():
            self._events.on_died(
                task.exception() or RuntimeError(f"the task of job {work.key[0]} ended without an outcome")
            )
            return
        # A handler cancelled every task that it found on the loop, before this one could begin.
        error = asyncio.CancelledError("its task was cancelled before it began")
        self._events.on_finished(work, conclude(work.ready, self._runtime, None, error, 0))
        self._inflight.end(work, self._line)
        self._begin_what_may()
