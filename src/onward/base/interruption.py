"""Raising an exception in a thread from outside, and keeping our own code out of its way.

A handler that runs past its time-out gets an exception at its next byte-code.  That may be anywhere: after the handler was
left, or in the middle of an enqueue that it calls, where it would tear a lock or a store apart.  So there are two rules.

A `Guard` is entered when its thread calls a handler, and left with it.  Sending and leaving take the same lock: once the
handler was left nothing can be sent.  Whoever is hit while leaving leaves again, undisturbed: senders let seconds pass
before they send another.  A guard remembers what it has sent: a handler that returns all the same has swallowed it.

Code that must not be torn apart runs under ``with uninterrupted():``.  What is sent meanwhile is kept, and raised when the block
ends.  Where no handler runs, that costs a look at a thread's own variable.

A handler may run another job in its own thread (``jobs.drain()``).  That run has a guard of its own, which stands in front
of the handler's until it is removed, and all of it is an uninterrupted block of the handler's.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from contextlib import AbstractContextManager
from types import TracebackType

__all__ = ["Guard", "uninterrupted"]


class Guard:
    """The right to raise an exception in one thread, while one handler runs there.  Made by that thread."""

    __slots__ = ("_depth", "_kept", "_lock", "_outer", "_run", "_sent", "_thread")

    def __init__(self) -> None:
        # In the main thread a signal's handler may come in between, and enqueue.
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        self._run: object = None
        self._sent: type[BaseException] | None = None
        self._kept: type[BaseException] | None = None
        self._depth = 0
        self._outer = _own.guard
        _own.guard = self

    def enter(self, run: object) -> None:
        """A handler is about to be called."""
        self._run = run

    def leave(self) -> type[BaseException] | None:
        """The handler was left.  What was on its way is raised in here: then this must be called again, and only then.

        Gives what was sent to the handler.
        """
        with self._lock:
            self._run = self._kept = None
            self._depth = 0
            sent = self._sent
            if sent is not None:
                _raise_what_is_on_its_way()
                self._sent = None
            return sent

    def remove(self) -> None:
        """Let the guard that stood here before be the thread's again."""
        _own.guard = self._outer

    def interrupt(self, run: object, kind: type[BaseException]) -> bool:
        """Raise ``kind`` in the handler.  False if it was left, or not entered yet."""
        with self._lock:
            if self._run is not run:
                return False
            self._sent = kind
            if self._depth:
                self._kept = kind
            else:
                _raise_in(self._thread, kind)
            return True

    # The block that must not be torn apart; in the guard's own thread

    def __enter__(self) -> None:
        with self._lock:
            _raise_what_is_on_its_way()
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


_own = _Own()
_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


def uninterrupted() -> AbstractContextManager[None]:
    """``with uninterrupted():`` nothing that is sent to this thread is raised in the block."""
    return _own.guard or _NOTHING


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _raise_what_is_on_its_way() -> None:
    """Python looks for it whenever a function is entered, so here at the latest."""
