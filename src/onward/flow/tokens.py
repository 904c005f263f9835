"""Token buckets by one number (the generic cell rate algorithm): no token is stored, counted up or given back.

A bucket knows when it would be full again, ``full_at``.  What is missing until then is what was taken.  A start needs one
token and takes as many as it costs, into debt if need be: no dear job is overtaken for ever, and none is too dear.  In any
interval of ``t`` microseconds the starts cost at most ``burst + tokens · t / period``, and the last one's cost.

Turns read their time and then wait for a lock, so one may find a bucket that a later one has written.  It counts on from
``full_at`` as it is.  Only a bucket written further ahead than turns overlap was written by a clock that was set back since.
"""

from __future__ import annotations

import msgspec

from onward.base.clock import SECOND
from onward.flow.limits import Rate

__all__ = ["FULL", "Bucket", "charged", "is_set_back", "next_token", "rebased", "tokens_left"]

_OVERLAP = 10 * SECOND


class Bucket(msgspec.Struct, frozen=True):
    """What is stored of a rate: when it is full again, and when that was written."""

    full_at: int
    at: int


FULL = Bucket(0, 0)


def tokens_left(rate: Rate, bucket: Bucket, now: int) -> int:
    """Return how many tokens there are; negative in debt.

    >>> pace = Rate(tokens=10, period=60_000_000, burst=10)
    >>> tokens_left(pace, FULL, 1), tokens_left(pace, charged(pace, FULL, 1, 12), 1)
    (10, -2)
    """
    missing = _full_at(bucket, now) - now
    return rate.burst + -missing // rate.interval


def charged(rate: Rate, bucket: Bucket, now: int, cost: int) -> Bucket:
    """Return the bucket after starts that cost so much."""
    return Bucket(_full_at(bucket, now) + cost * rate.interval, now)


def next_token(rate: Rate, bucket: Bucket, now: int, number: int = 1) -> int:
    """Return when there will be ``number`` tokens; now, if there are.

    >>> pace = Rate(tokens=10, period=60_000_000, burst=10)
    >>> next_token(pace, charged(pace, FULL, 0, 10), 0)
    6000000
    """
    return max(now, _full_at(bucket, now) - (rate.burst - number) * rate.interval)


def is_set_back(bucket: Bucket, now: int) -> bool:
    """Return whether the clock was set back since the bucket was written.

    >>> is_set_back(Bucket(0, at=5_000_000), 0), is_set_back(Bucket(0, at=50_000_000), 0)
    (False, True)
    """
    return bucket.at - now > _OVERLAP


def rebased(bucket: Bucket, now: int) -> Bucket:
    """Return the bucket of a clock that was set back since it was written: moved along, it has neither more nor less."""
    return Bucket(_full_at(bucket, now), now)


def _full_at(bucket: Bucket, now: int) -> int:
    return max(now, bucket.full_at - (bucket.at - now if is_set_back(bucket, now) else 0))
