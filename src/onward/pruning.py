"""Forgetting finished jobs that are past their retention, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onward.backend import Inspection
from onward.clock import SECOND
from onward.states import State

__all__ = ["cutoffs", "prune"]

_BATCH = 500


def cutoffs(retention: Mapping[State, float | None], now: int) -> dict[State, int]:
    """For each state that is not kept for ever, the instant before which its jobs are forgotten."""
    return {state: now - round(kept * SECOND) for state, kept in retention.items() if kept is not None}


def prune(inspection: Inspection, before: Mapping[State, int]) -> Iterator[int]:
    """How many each batch removed.  Between batches others get their turn."""
    after: str | None = ""
    while after is not None:
        batch = inspection.prune(before, after=after, limit=_BATCH)
        yield sum(batch.removed.values())
        after = batch.next
