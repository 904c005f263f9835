"""The one back-off: each failure in a row doubles the pause, up to a limit, and jitter spreads processes that wait."""

from __future__ import annotations

from random import uniform

__all__ = ["doubling", "jittered"]


def doubling(first: float, failures: int, longest: float) -> float:
    """Return the pause after so many failures in a row, of which the first costs ``first``.

    >>> [doubling(0.25, failures, 30.0) for failures in (1, 2, 3, 9, 10_000)]
    [0.25, 0.5, 1.0, 30.0, 30.0]
    """
    # The exponent is bounded before the power: 2.0 ** 1024 overflows, and a job may be retried for years.
    return min(first * 2.0 ** min(failures - 1, 62), longest)


def jittered(longest: float) -> float:
    """Return between half of a pause and all of it: processes that fail together must not come back in step."""
    return uniform(longest / 2, longest)
