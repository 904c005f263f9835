"""Removing finished jobs: those past their retention, or those of an age, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Self

from onward.backend import Inspection, Pruned
from onward.base.clock import SECOND, Clock
from onward.base.durations import Duration, instant, seconds
from onward.job.states import State

__all__ = ["Age", "Removed", "cutoff", "cutoffs", "prune", "total"]

_BATCH = 500

Age = Duration | datetime  # older than so long, or than an instant


class Removed(int):
    """How many jobs were removed, or would be; ``by_queue`` counts them by queue and state."""

    by_queue: dict[tuple[str, State], int]

    def __new__(cls, by_queue: Mapping[tuple[str, State], int]) -> Self:
        removed = super().__new__(cls, sum(by_queue.values()))
        removed.by_queue = dict(sorted(by_queue.items()))
        return removed


def cutoffs(retention: Mapping[State, float | None], now: int) -> dict[State, int]:
    """Return for each state that is not kept for ever the instant before which its jobs are removed."""
    return {state: now - round(kept * SECOND) for state, kept in retention.items() if kept is not None}


def cutoff(older_than: Age, clock: Clock) -> int:
    """Return the instant before which a job must have finished."""
    if isinstance(older_than, datetime):
        return instant(older_than, "older_than")
    return clock.micros() - round(seconds(older_than, "older_than") * SECOND)


def prune(
    inspection: Inspection, before: Mapping[State, int], *, queue: str | None = None, dry_run: bool = False
) -> Iterator[Pruned]:
    """Remove batch by batch; yield what each removed.  Between batches other clients can write."""
    after: str | None = ""
    while after is not None:
        batch = inspection.prune(before, queue=queue, dry_run=dry_run, after=after, limit=_BATCH)
        yield batch
        after = batch.next


def total(batches: Iterator[Pruned]) -> Removed:
    removed: Counter[tuple[str, State]] = Counter()
    for batch in batches:
        removed.update(batch.removed)
    return Removed(removed)
