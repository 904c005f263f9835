"""What became of a job that was completed in a transaction of its handler's own connection.

Whether that was committed is known when the handler and its hooks have ended, by the store alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onward.errors import TransactionError
from onward.job.context import Completed, JobContext

__all__ = ["afound_out", "found_out"]


def found_out(
    context: JobContext, find_out: Callable[[], Completed | None], error: BaseException | None
) -> BaseException | None:
    """Mark the job as completed if it is, and return the run's error: also that it was not committed.  Never raises."""
    try:
        return _told(context, find_out(), error)
    except BaseException as unknown:  # noqa: BLE001  the store does not answer: then the lease decides
        return error or unknown


async def afound_out(
    context: JobContext, find_out: Callable[[], Awaitable[Completed | None]], error: BaseException | None
) -> BaseException | None:
    """The same for a connection that is awaited."""
    try:
        return _told(context, await find_out(), error)
    except BaseException as unknown:  # noqa: BLE001  see above; or the task was cancelled meanwhile
        return error or unknown


def _told(context: JobContext, completed: Completed | None, error: BaseException | None) -> BaseException | None:
    if completed is not None:
        context.complete(completed)
        return error
    return error or TransactionError(
        "the handler has ended and the transaction of ctx.transaction(connection) was not committed, so the job is not "
        "completed and nothing of it happened: commit it after the block, in the handler or in a hook around it"
    )
