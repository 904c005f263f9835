"""How many jobs a worker claims: beyond those that run, about as many as end in a tenth of a second; never more than a
quota.

The pump claims fast jobs in batches that make the cost of a turn small, and slow jobs one by one, so that none waits behind
another while a second worker is idle.
"""

from __future__ import annotations

from collections.abc import Callable

from onward.base.wording import counted

__all__ = ["Prefetch", "Quota"]

_AHEAD = 0.1  # seconds
_SHORTEST_LOOK = 0.005  # seconds over which a rate means something
_LARGEST_CLAIM = 500
_NO_END = 1 << 62


class Prefetch:
    """Measures how fast jobs end, and says how many to claim."""

    def __init__(self, concurrency: int, *, ahead: bool = True) -> None:
        """Make one.  ``ahead``: False for a store that counts a crash for every job that a dead process had claimed."""
        self._concurrency = concurrency
        self._ahead = _AHEAD if ahead else 0.0
        self._rate = 0.0
        self._since: float | None = None
        self._finished = 0
        self._took = 0.0

    def claimed(self, now: float) -> None:
        """Begin to measure: there is work."""
        if self._since is None:
            self._since = now

    def finished(self, count: int, took: float, now: float) -> None:
        """Count jobs that have ended and took ``took`` seconds together.

        The rate rises at once and falls slowly.  However many jobs end at the same moment, the rate is never more than the
        slots and the time that one job takes allow.
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
        """Forget the rate: the store is empty, or jobs that were claimed ahead waited for too long."""
        self._rate = 0.0
        self._since, self._finished, self._took = None, 0, 0.0

    def wanted(self, inflight: int, now: float) -> int:
        """Return how many jobs to claim now, when ``inflight`` jobs are claimed and have not ended."""
        rate = self._rate
        if self._since is not None and now - self._since > _AHEAD:
            # When no job ends, `finished` is not called and cannot lower the rate.
            rate = min(rate, (self._finished + 1) / (now - self._since))
        return max(0, min(self._concurrency + int(rate * self._ahead) - inflight, _LARGEST_CLAIM))


class Quota:
    """When a worker ends by itself: after a number of jobs, or when there is nothing to do.  By default it does not.

    ``jobs``: how many to run in all.  ``recycle_after``: after how many another process should replace this one.
    """

    def __init__(self, jobs: int | None = None, *, recycle_after: int | None = None, until_empty: bool = False) -> None:
        self._jobs = _NO_END if jobs is None else jobs
        self._at_most = min(self._jobs, _NO_END if recycle_after is None else recycle_after)
        self._until_empty = until_empty
        self._done = 0
        self.recycles = self._at_most < self._jobs
        # The quota calls the first with the reason and whether nothing is left to do, the second with how many were settled.
        self.reached: Callable[[str, bool], None] | None = None
        self.count: Callable[[int], None] | None = None

    def left(self, inflight: int) -> int:
        """Return how many more jobs may be claimed."""
        return self._at_most - self._done - inflight

    def all_begun(self, inflight: int) -> None:
        """Ask for a replacement if no more jobs may be claimed.  The claimed ones still run, however long that takes."""
        if self.recycles and self.left(inflight) <= 0:
            self._reach(f"it has begun {counted(int(self._at_most), 'job')}", False)  # noqa: FBT003

    def ran(self, count: int) -> None:
        """Count jobs that were settled after a run."""
        self._done += count
        if self.count is not None:
            self.count(count)
        if self._done >= self._at_most:
            self._reach(f"it has run {counted(self._done, 'job')}", self._done >= self._jobs)

    def found_nothing(self) -> None:
        """End the worker if it was asked to end here: no job is claimed, and the store is empty."""
        if self._until_empty:
            self._reach("nothing is left to do", True)  # noqa: FBT003

    def _reach(self, reason: str, done: bool) -> None:
        if self.reached is not None:
            self.reached(reason, done)
