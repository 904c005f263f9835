"""What a handler's block waits for: calls in a thread of its own, and the fate of a commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.contract.transactions import Transacts
from onward.errors import BackendUnavailable
from onward.job.lease import Lease

__all__ = ["OwnThread", "has_happened"]

T = TypeVar("T")

logger = get_logger("onward.job")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


def has_happened(
    store: Transacts, lease: Lease, *, seconds: float, unanswered: BackendUnavailable | None = None
) -> bool:
    """Ask the store whether a commit happened, for so many seconds until it answers: before that nothing is decided.

    ``unanswered``: what the commit itself raised, if it is ours.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            happened = store.completed(lease)
        except BackendUnavailable:
            if time.monotonic() + pause > deadline:
                raise
        else:
            if unanswered is not None:
                told = "happened" if happened else "did not happen"
                logger.warning("job %s: its commit was not answered (%s); it %s", lease.envelope.id, unanswered, told)
            return happened
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


class OwnThread:
    """The thread in which one block calls the store.

    A thread of its own: those of the event loop are few, and may all wait for the lock that this block has.  And only one:
    no driver takes two calls at once, or a commit in the middle of one.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "onward-transaction")

    async def whole(self, act: Callable[[], T], *, regret: Callable[[T], None] | None = None) -> T:
        """Call a function and wait for its end.  A task cancelled meanwhile ends then; ``regret`` undoes the result."""
        task = self._started(act)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
            except BaseException:  # noqa: BLE001, S110 - raised below
                pass
        if cancelled is None:
            return task.result()
        if task.exception() is None and regret is not None:
            await self._started(partial(regret, task.result()))
        raise cancelled

    def end(self) -> None:
        self._executor.shutdown(wait=False)

    def _started(self, act: Callable[[], T]) -> asyncio.Future[T]:
        # In a copy of the handler's context, as `asyncio.to_thread` does.
        return asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, act)
