"""One event loop on a thread of its own, for async handlers called from code that is not async.

Whatever a handler does to the loop, the loop goes on: a handler that stops it, or leaves a callback behind that exits, must
not leave the caller waiting for ever.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from onward.base.failure import kind_of
from onward.base.lazy import asyncio
from onward.base.logs import get_logger

__all__ = ["LoopThread"]

logger = get_logger("onward")

T = TypeVar("T")


class LoopThread:
    """An event loop on a daemon thread that is started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()  # whether that loop was told to end
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.  Ctrl-C cancels the coroutine; this still waits for its end."""
        loop, end = self._running(), Future[None]()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            # Not by the loop's own method: a handler may have given it a factory for tasks.
            tasks.append(asyncio.Task(coroutine, loop=loop))
            tasks[0].add_done_callback(lambda _: end.set_result(None))

        def stop() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it could begin
                coroutine.close()
                end.set_result(None)

        try:
            loop.call_soon_threadsafe(begin)
            end.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(stop)
            end.result()  # the caller gives the job back, and its code must have ended before
            raise
        return tasks[0].result()

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            self._ended.set()
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # a fork has the loop but not its thread
                loop, self._ended = asyncio.new_event_loop(), threading.Event()
                try:
                    threading.Thread(target=_serve, args=(loop, self._ended), name="onward-loop", daemon=True).start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop, self._pid = loop, os.getpid()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not ended.is_set():
        try:
            loop.run_forever()
        except BaseException as error:  # noqa: BLE001  a task that a handler left behind may call exit()
            what = kind_of(error)
            logger.error("a callback or task of a handler raised %s: the event loop goes on", what)  # noqa: TRY400
    loop.close()
