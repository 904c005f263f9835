"""How much work to hold beyond what runs: about as much as is finished in a tenth of a second.

Fast jobs are claimed in batches that hide the cost of a turn; slow ones one by one, so that none waits behind another
while a second worker is idle.
"""

from __future__ import annotations

__all__ = ["Prefetch"]

_AHEAD = 0.1  # seconds
_SHORTEST_LOOK = 0.005  # seconds over which a rate means something
_LARGEST_CLAIM = 500


class Prefetch:
    """Watches how fast jobs are finished."""

    def __init__(self, concurrency: int, *, ahead: bool = True) -> None:
        """``ahead``: False for a store that counts a crash for whatever was claimed by a process that died."""
        self._concurrency = concurrency
        self._ahead = _AHEAD if ahead else 0.0
        self._rate = 0.0
        self._since: float | None = None
        self._finished = 0
        self._took = 0.0

    def claimed(self, now: float) -> None:
        """There is work: from now on finishing it is watched."""
        if self._since is None:
            self._since = now

    def finished(self, count: int, took: float, now: float) -> None:
        """Jobs were finished, which took so many seconds in all.

        The rate follows at once when it rises and slowly when it falls.  However many happen to end at the same moment, no
        more are finished in a second than slots and the time that one takes allow.
        """
        if self._since is None:
            self._since = now
        self._finished += count
        self._took += took
        span = now - self._since
        if span >= _SHORTEST_LOOK:
            rate = self._finished / span
            if self._took > 0:
                rate = min(rate, self._concurrency * self._finished / self._took)
            self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
            self._since, self._finished, self._took = now, 0, 0.0

    def forget(self) -> None:
        """Nothing is there, or what was claimed ahead waited for too long: what the rate was says nothing any more."""
        self._rate = 0.0
        self._since, self._finished, self._took = None, 0, 0.0

    def wanted(self, inflight: int, now: float) -> int:
        """How many jobs to claim now."""
        rate = self._rate
        if self._since is not None and now - self._since > _AHEAD:
            # Nothing tells that it fell when nothing is finished at all.
            rate = min(rate, (self._finished + 1) / (now - self._since))
        return max(0, min(self._concurrency + int(rate * self._ahead) - inflight, _LARGEST_CLAIM))
