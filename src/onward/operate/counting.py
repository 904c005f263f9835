"""How far a look counts, and how to tell that it went no further."""

from __future__ import annotations

from collections.abc import Mapping

from onward.job.states import State

__all__ = ["COUNTED", "is_cut"]

COUNTED = 100_000  # of one state in one queue

_LATER = (State.SCHEDULED, State.RETRYABLE)  # a store counts them together


def is_cut(counts: Mapping[State, int], state: State, at_most: int) -> bool:
    """Return whether counting stopped at this number: there may be more."""
    states = _LATER if state in _LATER else (state,)
    return sum(counts.get(each, 0) for each in states) >= at_most
