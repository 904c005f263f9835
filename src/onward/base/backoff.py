"""The one back-off: each failure in a row doubles the pause, up to a limit; jitter makes the pauses of processes differ."""

from __future__ import annotations

from random import uniform

__all__ = ["doubling", "jittered"]


def doubling(first: float, failures: int, longest: float) -> float:
    """Return the pause after ``failures`` in a row; after the first it is ``first``.

    >>> [doubling(0.25, failures, 30.0) for failures in (1, 2, 3, 9, 10_000)]
    [0.25, 0.5, 1.0, 30.0, 30.0]
    """
    # The exponent is bounded before the power: 2.0 ** 1024 overflows, and a job may be retried for years.
    return min(first * 2.0 ** min(failures - 1, 62), longest)


def jittered(longest: float) -> float:
    """Return a random pause between half and all of ``longest``: processes that fail together must not retry together."""
    return uniform(longest / 2, longest)
