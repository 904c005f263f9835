"""The results of many jobs: each look reads all jobs that are not known to have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from onward.backend import Inspection, StoredJob
from onward.base.lazy import asyncio
from onward.client.bound_job import JobHandle, looks
from onward.errors import NoWorker, OnwardError, OptionError, ResultTimeout

__all__ = ["aresults", "results"]

_BATCH = 500  # jobs that one statement reads


def results(
    inspection: Inspection, handles: Sequence[JobHandle[Any]], timeout: float | None, *, return_exceptions: bool
) -> list[Any]:
    """Wait for the end of all jobs, and return their results in the order of the handles."""
    waiting = _Waiting(handles, return_exceptions=return_exceptions)
    for pause in looks(timeout):
        begun = time.monotonic()
        waiting.accept(waiting.read(inspection))
        if not waiting.left:
            return waiting.answers()
        time.sleep(_longer(pause, begun))
    return waiting.too_late(timeout)


async def aresults(
    inspection: Inspection,
    handles: Sequence[JobHandle[Any]],
    timeout: float | None,  # noqa: ASYNC109  the same words as `results`
    *,
    return_exceptions: bool,
) -> list[Any]:
    """Wait for the results without blocking the event loop."""
    waiting = _Waiting(handles, return_exceptions=return_exceptions)
    for pause in looks(timeout):
        begun = time.monotonic()
        waiting.accept(await asyncio.to_thread(waiting.read, inspection))
        if not waiting.left:
            return waiting.answers()
        await asyncio.sleep(_longer(pause, begun))
    return waiting.too_late(timeout)


def _longer(pause: float, begun: float) -> float:
    """Return a pause at least as long as the look took: many jobs keep the store busy half of the time at most."""
    return 0 if pause == 0 else max(pause, time.monotonic() - begun)


class _Waiting:
    """Handles, and what is known of their jobs so far."""

    def __init__(self, handles: Sequence[JobHandle[Any]], *, return_exceptions: bool) -> None:
        self._handles = list(handles)
        for each in self._handles:
            if not isinstance(each, JobHandle):
                raise OptionError(
                    f"results takes a list of handles, not {type(each).__name__}: jobs.handle(id) makes one of an id"
                )
        self._return_exceptions = return_exceptions
        self._ended: dict[int, Any] = {}  # by the place of the handle: its result, or its error
        self.left = set(range(len(self._handles)))

    def read(self, inspection: Inspection) -> dict[str, StoredJob]:
        ids = list(dict.fromkeys(self._handles[place].id for place in sorted(self.left)))
        found: dict[str, StoredJob] = {}
        for start in range(0, len(ids), _BATCH):
            found |= {stored.id: stored for stored in inspection.get_many(ids[start : start + _BATCH])}
        return found

    def accept(self, found: dict[str, StoredJob]) -> None:
        """Note which jobs have ended; raise the error of the first that failed, unless errors are returned."""
        for place in sorted(self.left):
            handle = self._handles[place]
            try:
                ended = handle.ended(found.get(handle.id))
            except OnwardError as error:
                if not self._return_exceptions or isinstance(error, NoWorker):
                    raise
                ended = (error,)
            if ended is not None:
                (self._ended[place],) = ended
        self.left -= self._ended.keys()

    def answers(self) -> list[Any]:
        return [self._ended[place] for place in range(len(self._handles))]

    def too_late(self, timeout: float | None) -> list[Any]:
        """Return the results so far, with an error in place of each missing one; or raise that error."""
        first = self._handles[min(self.left)].id
        late = ResultTimeout(
            f"{len(self.left):,} of {len(self._handles):,} jobs did not finish within {timeout:g} s, the first of them "
            f"{first}; they go on: ask again, or cancel them"
        )
        if not self._return_exceptions:
            raise late
        self._ended |= dict.fromkeys(self.left, late)
        return self.answers()
