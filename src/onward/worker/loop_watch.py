"""Logging the name of an async handler that blocks the event loop, so that all other async handlers wait.

While coroutines run, a thread asks the loop a few times a second whether it still turns; the thread parks when none runs.  A
loop that has not answered in four parts of one limit is blocked.  Four parts, so that the thread does not take a process
which was paused as a whole for one whose loop is blocked.  Code that holds the interpreter's lock stops this thread, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from onward.base.lazy import asyncio
from onward.base.logs import Once, get_logger
from onward.worker.diagnostics.frames import AsTask, Frame, InThread, stack_of
from onward.worker.inflight import Work

__all__ = ["LoopWatch"]

logger = get_logger("onward.worker")

_PARTS = 4


class LoopWatch:
    """Watches one event loop.  A limit of 0 seconds turns it off."""

    def __init__(self, limit: float, tasks: Mapping[asyncio.Task[None], Work]) -> None:
        self._part = limit / _PARTS
        self._tasks = tasks
        self._once = Once()
        self._busy = threading.Event()
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch this loop.  Called by its thread."""
        self._loop, self._thread = loop, threading.get_ident()
        if self._part > 0:
            threading.Thread(target=self._serve, name="onward-loop-watch", daemon=True).start()

    def begin(self) -> None:
        """Wake the watching thread: a coroutine begins."""
        if not self._busy.is_set():
            self._busy.set()

    def close(self) -> None:
        self._ended.set()
        self._busy.set()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._busy.wait()
            if self._tasks:
                self._look()
                continue
            self._busy.clear()
            if self._tasks or self._ended.is_set():  # a coroutine began in between
                self._busy.set()

    def _look(self) -> None:
        turned, asked = threading.Event(), time.monotonic()
        if not self._ask(turned.set):
            return
        if any(turned.wait(self._part) for _ in range(_PARTS)):
            self._ended.wait(self._part)
            return
        try:
            self._tell(time.monotonic() - asked, turned)
        except Exception:
            logger.exception("an async job blocks the event loop; the search for that job failed")
        while not turned.wait(self._part) and not self._ended.is_set():
            pass

    def _ask(self, answer: Callable[[], object]) -> bool:
        try:
            self._loop.call_soon_threadsafe(answer)
        except RuntimeError:  # the loop is closed
            self._ended.set()
            return False
        return True

    def _tell(self, seconds: float, turned: threading.Event) -> None:
        task = asyncio.current_task(self._loop)
        work = None if task is None else self._tasks.get(task)
        _, frames = stack_of(InThread(self._thread) if work is None else AsTask(work.task, self._thread))
        frames = _below_the_loop(frames)
        if turned.is_set() or not frames:  # these may be the frames of another task by now
            return
        if work is not None:
            name, culprit = work.ready.letter.job, f"job {work.ready.letter.job} {work.key[0]}"
        else:  # a task or a callback that a handler has started
            name = ", ".join(sorted({each.ready.letter.job for each in list(self._tasks.values())}))
            culprit = f"a task or callback of one of these jobs: {name}"
        if self._once(name):
            logger.warning(
                "the event loop has not turned for %.1f s: %s blocks it at %s; all async jobs of this worker wait. Await "
                "what takes long, call it by `await asyncio.to_thread(...)`, or define the job without `async`",
                seconds,
                culprit,
                _place(frames),
                extra=_event_fields(work),
            )


def _event_fields(work: Work | None) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "worker.loop_blocked"}
    if work is not None:
        event |= {"job_id": work.key[0], "job": work.ready.letter.job, "queue": work.lease.envelope.queue}
    return event


def _below_the_loop(frames: list[Frame]) -> list[Frame]:
    """Leave out the frames of the event loop, which are above the code of a task that is not a handler's own."""
    calls = [
        at for at, frame in enumerate(frames) if frame.file == asyncio.events.__file__ and frame.function == "_run"
    ]
    return frames[calls[0] + 1 :] if calls else frames


def _place(frames: list[Frame]) -> str:
    """Return the innermost line in the file of the handler, and the line that it has called."""
    own = next(frame for frame in reversed(frames) if frame.file == frames[0].file)
    place = f"{own.file}, line {own.line}, in {own.function}: {own.code}"
    inner = frames[-1]
    return place if inner is own else f"{place} (which is at {inner.file}, line {inner.line}, in {inner.function})"
