"""Recording a time-out or a cancellation that a handler ignored.

A handler can catch the exception that interrupts it, block the event loop so that it cannot be cancelled, or be defined with
``interrupt=False``.  Its outcome counts all the same, and the record says that it was told to end.
"""

from __future__ import annotations

from onward.base.failure import Failure, name_of, stated
from onward.base.lazy import asyncio
from onward.errors import JobInterrupted, JobStopped, JobTimeout

__all__ = ["swallowed", "told_to_a_task"]

_LATE = 0.1  # seconds past its time-out after which a run is late, whether it was interrupted or not


def told_to_a_task(deadline: asyncio.Timeout) -> type[BaseException] | None:
    """Return the interruption that cancelled this task, after its handler has ended."""
    if deadline.expired():
        return JobTimeout
    task = asyncio.current_task()
    return JobStopped if task is not None and task.cancelling() else None


def swallowed(
    error: BaseException | None,
    told: type[BaseException] | None,
    *,
    timeout: float | None,
    duration_ms: int,
    is_async: bool,
) -> Failure | None:
    """Return the failure to record if a run ignored that it was ``told`` to end, or ran past its time-out."""
    if error is not None and isinstance(error, JobInterrupted | asyncio.CancelledError):
        return None
    if timeout is not None and (told is JobTimeout or duration_ms > (timeout + _LATE) * 1000):
        message = f"the job ran past its time-out of {timeout:g} s and ended after {duration_ms / 1000:.1f} s"
        if told is JobTimeout:
            message += f": its handler caught {'asyncio.CancelledError' if is_async else 'JobTimeout'} and went on"
        return stated(name_of(JobTimeout), message)
    if told is JobStopped:
        message = "the job was cancelled while it ran: its handler was told to stop, and went on"
        return stated(name_of(JobStopped), message)
    return None
