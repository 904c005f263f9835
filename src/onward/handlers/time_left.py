"""How long a handler may wait for another program: until its deadline, or until its job is to stop.

An exception raised in a thread from outside waits until the thread runs Python again.  A handler that waits in the kernel
does not run Python, so it waits in short pauses and checks between them.
"""

from __future__ import annotations

import time

from onward.base.clock import to_micros
from onward.job.context import JobContext

__all__ = ["Stopped", "TimeLeft"]

_NAP = 0.25


class Stopped(Exception):
    """The job was cancelled, or its lease is lost: the handler has ended the program or the connection."""


class TimeLeft:
    """The time that is left to one run."""

    def __init__(self, ctx: JobContext, limit: float | None = None) -> None:
        self._ctx = ctx
        left = [] if limit is None else [limit]
        if ctx.deadline is not None:
            left.append(to_micros(ctx.deadline) / 1e6 - time.time())
        self._until = time.monotonic() + min(left) if left else None

    def nap(self) -> float:
        """Return the seconds to wait before the next check.  Raises `TimeoutError` or `Stopped` when the wait is over."""
        if self._ctx.cancelled:
            raise Stopped("the job was cancelled while it ran" if not self._ctx.lost else "the job lost its lease")
        if self._until is None:
            return _NAP
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, _NAP)
