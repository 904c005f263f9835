"""How much a worker is to do before it ends by itself."""

from __future__ import annotations

from collections.abc import Callable

from onward.base.wording import counted

__all__ = ["Quota"]

_NO_END = 1 << 62


class Quota:
    """So many jobs and no more, or until there is nothing to do.  By default there is no end.

    ``jobs``: how many there are to be run.  ``recycle_after``: after so many somebody else should go on.
    """

    def __init__(self, jobs: int | None = None, *, recycle_after: int | None = None, until_empty: bool = False) -> None:
        self._jobs = _NO_END if jobs is None else jobs
        self._at_most = min(self._jobs, _NO_END if recycle_after is None else recycle_after)
        self._until_empty = until_empty
        self._done = 0
        self.reached: Callable[[str, bool], None] = _nobody_asks  # told why, and whether nothing is left to do
        self.count: Callable[[int], None] = _nobody_counts

    def left(self, inflight: int) -> int:
        """How many more may be claimed."""
        return self._at_most - self._done - inflight

    def all_begun(self, inflight: int) -> None:
        """All that is in hand runs.  If nothing more may be claimed, somebody else should go on, however long that takes."""
        if self._at_most < self._jobs and self.left(inflight) <= 0:
            self.reached(f"it has begun {counted(int(self._at_most), 'job')}", False)  # noqa: FBT003

    def ran(self, count: int) -> None:
        """So many jobs were settled; what was given back without a run does not count."""
        self._done += count
        self.count(count)
        if self._done >= self._at_most:
            self.reached(f"it has run {counted(self._done, 'job')}", self._done >= self._jobs)

    def found_nothing(self) -> None:
        """There is nothing in hand and nothing in the store."""
        if self._until_empty:
            self.reached("nothing is left to do", True)  # noqa: FBT003


def _nobody_asks(reason: str, done: bool) -> None:
    """The worker has no end."""


def _nobody_counts(count: int) -> None:
    """Nobody wants to know."""
