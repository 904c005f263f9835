"""Where a handler runs, and what its stack is at this moment."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import msgspec

from onward.attempt.attempt import run_async
from onward.base.lazy import asyncio
from onward.job.registry import FunctionEntry, HandlerEntry

__all__ = ["AsTask", "Frame", "InProcess", "InThread", "Whereabouts", "stack_of"]

# Frames above these are Onward's, frames below are the handler's.
_ENTRANCES = {FunctionEntry.invoke.__code__, HandlerEntry.invoke.__code__, run_async.__code__}


class InThread(NamedTuple):
    """A sync handler runs in this thread."""

    ident: int


class AsTask(NamedTuple):
    """An async handler is this task, of an event loop in this thread."""

    task: asyncio.Task[Any]
    thread: int


class InProcess(NamedTuple):
    """The handler has a process of its own."""

    pid: int


Whereabouts = InThread | AsTask | InProcess


class Frame(msgspec.Struct, frozen=True):
    file: str
    line: int
    function: str
    code: str


def stack_of(place: InThread | AsTask) -> tuple[str, list[Frame]]:
    """Return the place in words, and the frames of the handler, the outermost first.

    Frames have no values of variables: these may be secrets.
    """
    where, frames = _thread(place.ident) if isinstance(place, InThread) else _task(place.task, place.thread)
    summaries = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in _of_handler(frames))
    return where, [Frame(each.filename, each.lineno or 0, each.name, each.line or "") for each in summaries]


def _thread(ident: int) -> tuple[str, list[FrameType]]:
    name = next((each.name for each in threading.enumerate() if each.ident == ident), "unnamed")
    return f"thread {name}", _frames_of_thread(ident)


def _task(task: asyncio.Task[Any], thread: int) -> tuple[str, list[FrameType]]:
    coroutine = task.get_coro()
    if getattr(coroutine, "cr_running", False):
        return "event loop, which it keeps busy", _frames_of_thread(thread)
    return "event loop, where it waits", list(_awaited(coroutine))


def _frames_of_thread(ident: int) -> list[FrameType]:
    frames: list[FrameType] = []
    frame = sys._current_frames().get(ident)  # noqa: SLF001  the one way to another thread's stack
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _awaited(coroutine: object) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine, which has no stack: each awaits the next."""
    while coroutine is not None:
        frame = _first(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            yield frame
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")


def _first(coroutine: object, *names: str) -> Any:
    """Return the first attribute there is: coroutines, generators and async generators name the same differently."""
    return next((found for name in names if (found := getattr(coroutine, name, None)) is not None), None)


def _of_handler(frames: list[FrameType]) -> list[FrameType]:
    entrance = next((at for at, frame in enumerate(frames) if frame.f_code in _ENTRANCES), -1)
    return frames[entrance + 1 :]
