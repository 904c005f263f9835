"""Comparing two ways by turns: what else happens on the machine meets both, and how far off the mean may be is told."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Compared", "compared"]

# How many standard errors the mean of so many pairs may be off: 19 of 20 times it is less (Student's t).
_SURE = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 8: 2.36, 10: 2.26, 20: 2.09}


class Compared(NamedTuple):
    """The mean of the ratios of pairs, and how far it may be off."""

    ratio: float
    error: float

    def is_surely_below(self, least: float) -> bool:
        return self.ratio + self.error < least


def compared(ratios: Sequence[float]) -> Compared:
    """Compare two pairs or more."""
    sure = _SURE[max(pairs for pairs in _SURE if pairs <= len(ratios))]
    return Compared(statistics.mean(ratios), sure * statistics.stdev(ratios) / math.sqrt(len(ratios)))
