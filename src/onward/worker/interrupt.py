"""Stopping a handler that runs: at its deadline, or because somebody cancelled the job.

An async handler's task is cancelled.  A sync handler gets an exception at its next byte-code.  Both the sender of such
an exception and the runner that leaves the handler take the same lock: once the handler was left, nothing can be sent,
and what was sent but not yet raised is taken back.  So it can never hit our own code or the next job.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import threading
import time
from collections.abc import Callable

__all__ = ["Deadlines", "JobStopped", "JobTimeout", "ThreadGuard"]


class JobTimeout(TimeoutError):
    """The job ran past its time-out."""


class JobStopped(Exception):
    """The job was cancelled while it ran."""


class ThreadGuard:
    """The right to raise an exception in one thread, while one handler runs there."""

    __slots__ = ("_lock", "_open", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._open = True

    def interrupt(self, kind: type[BaseException]) -> bool:
        """Raise ``kind`` in the handler, if it still runs."""
        with self._lock:
            if self._open:
                _raise_in(self._thread, kind)
            return self._open

    def close(self) -> None:
        """The handler was left.  An exception on its way may be raised in here: then we start over."""
        while self._open:
            try:
                with self._lock:
                    self._open = False
                    _raise_in(self._thread, None)
            except (JobTimeout, JobStopped):
                continue


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind))


class Deadlines:
    """Calls back at an instant, on a thread of its own that starts with the first deadline."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, seconds: float, callback: Callable[[], object]) -> None:
        with self._changed:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._order), callback))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="onward-deadlines", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._heap or self._heap[0][0] > time.monotonic()):
                    self._changed.wait(self._heap[0][0] - time.monotonic() if self._heap else None)
                if self._closed:
                    return
                _, _, callback = heapq.heappop(self._heap)
            callback()
