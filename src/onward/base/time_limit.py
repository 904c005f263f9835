"""Until when the calls of this thread may wait for the store.

A caller sets a deadline around a call, and every place in it that waits asks how long it may:

    with until(deadline):                    left(30.0)  # seconds: at most 30, and no longer than the deadline
        backend.enqueue(envelopes)

Where no deadline is set nothing changes; ``until(None)`` sets none, inside one.  Deadlines are of `time.monotonic`.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from types import TracebackType

__all__ = ["is_over", "left", "milliseconds", "until"]

_SHORTEST = 0.001  # seconds: for a socket, 0 would mean not to wait at all

_deadline: ContextVar[float | None] = ContextVar("onward.base.time_limit", default=None)


class until:  # noqa: N801  it reads as a word
    """``with until(deadline):`` no call in the block waits longer.  A class, not a generator: every enqueue uses it."""

    __slots__ = ("_at", "_token")

    def __init__(self, deadline: float | None) -> None:
        self._at = deadline

    def __enter__(self) -> None:
        self._token: Token[float | None] = _deadline.set(self._at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _deadline.reset(self._token)


def left(longest: float) -> float:
    """Return how many seconds to wait: ``longest``, unless the deadline comes first."""
    deadline = _deadline.get()
    return longest if deadline is None else max(_SHORTEST, min(longest, deadline - time.monotonic()))


def milliseconds() -> int | None:
    """Return the same for `poll`, which without a deadline waits for ever."""
    deadline = _deadline.get()
    return None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)


def is_over() -> bool:
    """Return whether the deadline has passed."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() >= deadline
