"""What was counted of one job in one queue: counters, and how long runs and waits took.

The buckets of a histogram end at powers of two of a millisecond, so numbers of processes, hosts and minutes add up exactly.
A percentile is interpolated inside its bucket: it is off by less than a factor of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from onward.errors import OptionError

__all__ = ["BUCKETS", "NOTHING", "NO_TIMES", "Histogram", "Numbers", "Pair", "added_up", "bucket_of", "differences"]

BUCKETS = 24
"""Bucket k holds lengths from 2^(k-1) ms to below 2^k ms, the first all below 1 ms, the last all from 2^22 ms (70 min)."""

_LAST = BUCKETS - 1


def bucket_of(ms: int) -> int:
    """Return the bucket of a length in whole milliseconds."""
    return min(ms.bit_length(), _LAST)


class Histogram(msgspec.Struct, frozen=True, gc=False):
    """How long something took, each time: the sum in milliseconds, and how many of which length."""

    total_ms: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKETS

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def added(self, other: Histogram) -> Histogram:
        pairs = zip(self.buckets, other.buckets, strict=True)
        return Histogram(self.total_ms + other.total_ms, tuple(one + more for one, more in pairs))

    def since(self, earlier: Histogram) -> Histogram:
        """Return what was added to ``earlier``."""
        pairs = zip(self.buckets, earlier.buckets, strict=True)
        return Histogram(self.total_ms - earlier.total_ms, tuple(now - before for now, before in pairs))

    def percentile(self, share: float) -> float | None:
        """Return the milliseconds that this share took at most: 0.95 of all, say.  None if nothing was counted."""
        if not 0 <= share <= 1:
            raise OptionError(f"the share of a percentile must be from 0 to 1, not {share!r}")
        rank = share * self.count
        below = 0
        for bucket, count in enumerate(self.buckets):
            if count and below + count >= rank:
                return _inside(bucket, (rank - below) / count)
            below += count
        return None


NO_TIMES = Histogram()


class Numbers(msgspec.Struct, frozen=True, gc=False):
    """What was counted of one job in one queue.  ``counters`` has those that moved: `jobs_succeeded`, `jobs_failed`, …"""

    counters: Mapping[str, int] = {}
    run: Histogram = NO_TIMES
    wait: Histogram = NO_TIMES  # from when the job was due until it was first claimed

    def added(self, other: Numbers) -> Numbers:
        counters = dict(self.counters)
        for name, count in other.counters.items():
            counters[name] = counters.get(name, 0) + count
        return Numbers(counters, self.run.added(other.run), self.wait.added(other.wait))

    def since(self, earlier: Numbers) -> Numbers:
        """Return what was added to ``earlier``."""
        grown = {
            name: count - earlier.counters.get(name, 0)
            for name, count in self.counters.items()
            if count != earlier.counters.get(name, 0)
        }
        return Numbers(grown, self.run.since(earlier.run), self.wait.since(earlier.wait))


NOTHING = Numbers()

Pair = tuple[str, str]  # queue and job


def added_up(counted: Iterable[Mapping[Pair, Numbers]]) -> dict[Pair, Numbers]:
    """Return the sums of several processes, hosts or minutes."""
    sums: dict[Pair, Numbers] = {}
    for each in counted:
        for pair, numbers in each.items():
            sums[pair] = sums[pair].added(numbers) if pair in sums else numbers
    return sums


def differences(now: Mapping[Pair, Numbers], earlier: Mapping[Pair, Numbers]) -> dict[Pair, Numbers]:
    """Return what was added to ``earlier``, without those that did not move."""
    grown = {pair: numbers.since(earlier.get(pair, NOTHING)) for pair, numbers in now.items()}
    return {pair: numbers for pair, numbers in grown.items() if numbers != NOTHING}


def _inside(bucket: int, share: float) -> float:
    """Return the length below which this share of a bucket is expected."""
    if bucket == 0:
        return share
    lower = float(2 ** (bucket - 1))
    return lower if bucket == _LAST else lower * 2**share  # the last one has no end
