"""How much a worker is to do before it ends by itself."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Quota"]

_NO_END = 1 << 62


class Quota:
    """So many jobs and no more, or until there is nothing to do.  By default there is no end."""

    def __init__(self, jobs: int | None = None, *, until_empty: bool = False) -> None:
        self._jobs = _NO_END if jobs is None else jobs
        self._until_empty = until_empty
        self._done = 0
        self.reached: Callable[[str], None] = _nobody_asks

    def left(self, in_hand: int) -> int:
        """How many more may be claimed."""
        return self._jobs - self._done - in_hand

    def ran(self, count: int) -> None:
        """So many jobs were settled; what was given back without a run does not count."""
        self._done += count
        if self._done >= self._jobs:
            self.reached(f"it has run {self._done:,} jobs")

    def found_nothing(self) -> None:
        """There is nothing in hand and nothing in the store."""
        if self._until_empty:
            self.reached("nothing is left to do")


def _nobody_asks(reason: str) -> None:
    """The worker has no end."""
