"""How much work to hold beyond what runs: about as much as is finished in a tenth of a second.

Fast jobs are claimed in batches that hide the cost of a turn; slow ones one by one, so that none waits behind another
while a second worker is idle.
"""

from __future__ import annotations

__all__ = ["Prefetch"]

_AHEAD = 0.1  # seconds
_LARGEST_CLAIM = 500


class Prefetch:
    """Watches how fast jobs are finished."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._since: float | None = None
        self._finished = 0

    def finished(self, count: int, now: float) -> None:
        """Jobs were finished.  The rate follows quickly when it rises and slowly when it falls."""
        if self._since is None:
            self._since = now
        self._finished += count
        span = now - self._since
        if span >= 0.02:
            rate = self._finished / span
            self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
            self._since, self._finished = now, 0

    def idle(self) -> None:
        """Nothing is there: what the rate was says nothing about what comes next."""
        self._since, self._finished = None, 0

    def wanted(self, concurrency: int, in_hand: int) -> int:
        """How many jobs to claim now."""
        ahead = int(self._rate * _AHEAD)
        return max(0, min(concurrency + ahead - in_hand, _LARGEST_CLAIM))
