"""Raising an exception in a handler's thread from outside, and never in Onward's own code.

A handler that runs past its time-out gets an exception at its next byte-code.  That may be anywhere: after the handler has
returned, or in the middle of an enqueue that it calls, where a lock or a store would be left half changed.  So there are
two rules.

A thread enters its `Guard` when it calls a handler, and leaves it when the handler returns.  Sending and leaving take the
same lock: after leaving, nothing can be sent.  A thread that gets the exception while it leaves must leave again; seconds
pass before the next one is sent.  A guard remembers what it has sent: a handler that returns all the same has ignored it.

Code that must not be interrupted runs under ``with uninterrupted():``.  The guard keeps an exception that is sent meanwhile,
and raises it when the block ends.  Where no handler runs, that costs reading one thread-local variable.

A handler may run another job in its own thread (``jobs.drain()``).  That run has a guard of its own, which replaces
the handler's until it is removed, and all of it is an uninterrupted block of the handler's.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import AbstractContextManager
from types import NoneType, TracebackType
from typing import Any

__all__ = ["Guard", "uninterrupted"]


class Guard:
    """The right to raise an exception in one thread, while one handler runs there.  Made by that thread."""

    __slots__ = ("_depth", "_kept", "_lock", "_outer", "_run", "_sent", "_thread")

    def __init__(self) -> None:
        # Reentrant: in the main thread a signal handler may run in between, and enqueue.
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        self._run: object = None
        self._sent: type[BaseException] | None = None
        self._kept: type[BaseException] | None = None
        self._depth = 0
        self._outer = _own.guard
        _own.guard = self

    def enter(self, run: object) -> None:
        """Allow interruptions: a handler is about to be called."""
        self._run = run

    def leave(self) -> type[BaseException] | None:
        """Allow no more interruptions.  Returns what was sent to the handler.

        One that was sent before is raised in here: then, and only then, call this again.
        """
        with self._lock:
            self._run = self._kept = None
            self._depth = 0
            sent = self._sent
            if sent is not None:
                _raise_pending()
                self._sent = None
            return sent

    def remove(self) -> None:
        """Make the guard that this one replaced the thread's own again."""
        _own.guard = self._outer

    def interrupt(self, run: object, kind: type[BaseException]) -> bool:
        """Raise ``kind`` in the handler.  False if it has returned, or was not called yet."""
        with self._lock:
            if self._run is not run:
                return False
            self._sent = kind
            if self._depth:
                self._kept = kind
            else:
                _raise_in(self._thread, kind)
            return True

    # The uninterrupted block; in the guard's own thread

    def __enter__(self) -> None:
        with self._lock:
            _raise_pending()
            self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            kept = None
            if self._depth == 0:
                kept, self._kept = self._kept, None
        if kept is not None:
            raise kept


class _Own(threading.local):
    guard: Guard | None = None


class _Nothing:
    """A block that does nothing, as `contextlib.nullcontext` does, by functions in C: every enqueue enters three."""

    __slots__ = ()

    __enter__: Any = staticmethod(NoneType)
    __exit__: Any = staticmethod("".format)  # whatever it is given, its answer is false: no exception is swallowed


_own = _Own()
_NOTHING: AbstractContextManager[None] = _Nothing()


def uninterrupted() -> AbstractContextManager[None]:
    """Return a block in which no interruption is raised: ``with uninterrupted(): ...``."""
    return _own.guard or _NOTHING


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _raise_pending() -> None:
    """Do nothing: Python raises a pending exception whenever a function is entered, so here at the latest."""
