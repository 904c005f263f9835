"""One event loop on a thread of its own, for async handlers called from code that is not async."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """Started when first needed.  A daemon: it keeps no program alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.  Interrupted, cancel it and wait for its end all the same."""
        loop, end = self._running(), Future[None]()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(loop.create_task(coroutine))
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
            end.result()  # whoever gives the job back must know that its code has ended
            raise
        return tasks[0].result()

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # a fork has the loop but not its thread
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                threading.Thread(target=_serve, args=(self._loop,), name="onward-loop", daemon=True).start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
