"""How long a handler may wait for another program: until its time is over, or its job is to stop.

An exception raised in a thread from outside waits until the thread runs Python again.  A handler that sleeps in the kernel
does not, so it sleeps in short naps and looks around between them.
"""

from __future__ import annotations

import time

from onward.base.clock import to_micros
from onward.job.context import JobContext

__all__ = ["Stopped", "TimeLeft"]

_NAP = 0.25


class Stopped(Exception):
    """The job was cancelled, or its lease is lost: what it had begun was ended."""


class TimeLeft:
    """The time that is left to one run."""

    def __init__(self, ctx: JobContext, limit: float | None = None) -> None:
        self._ctx = ctx
        left = [] if limit is None else [limit]
        if ctx.deadline is not None:
            left.append(to_micros(ctx.deadline) / 1e6 - time.time())
        self._until = time.monotonic() + min(left) if left else None

    def nap(self) -> float:
        """How long to wait before asking again.  Raises `TimeoutError` or `Stopped` when there is no point in waiting."""
        if self._ctx.cancelled:
            raise Stopped("it was stopped: the job was cancelled" if not self._ctx.lost else "it lost its lease")
        if self._until is None:
            return _NAP
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, _NAP)
