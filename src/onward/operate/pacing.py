"""How fast queues are: from what workers have counted in the last full minutes, and from two looks at a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onward.job.states import LIVE, State
from onward.operate.counting import COUNTED, is_cut
from onward.operate.queue_pace import QueuePace
from onward.operate.series.points import ended_per_second, numbers_of

if TYPE_CHECKING:
    from onward.backend import Overview, QueueCounts
    from onward.operate.series.points import TimedMeasures

__all__ = ["live_by_queue", "paces"]

_FEWEST = 20  # runs from which a percentile is told


def paces(
    measures: Sequence[TimedMeasures],
    overview: Overview,
    before: Mapping[str, int],
    seconds: float,
    at_most: int = COUNTED,
) -> dict[str, QueuePace]:
    """Return how fast each queue is.

    ``before``: its live jobs at a look so many seconds ago.  ``at_most``: the looks counted no further, so of a queue that
    holds more it is not known how fast it grows and when it will be empty.
    """
    found = {}
    for queue in overview.queues:
        is_exact = not any(is_cut(queue.counts, state, at_most) for state in LIVE)
        found[queue.name] = _pace(measures, queue, before.get(queue.name) if is_exact else None, seconds, is_exact)
    return found


def live_by_queue(overview: Overview) -> dict[str, int]:
    """Return how many jobs of each queue have not ended."""
    return {queue.name: _live(queue) for queue in overview.queues}


def _pace(
    measures: Sequence[TimedMeasures], queue: QueueCounts, before: int | None, seconds: float, is_exact: bool
) -> QueuePace:
    out = ended_per_second(measures, queue.name)
    grown = None if before is None or seconds <= 0 else (_live(queue) - before) / seconds
    due = queue.counts[State.AVAILABLE]
    return QueuePace(
        out=out,
        enters=None if out is None or grown is None else max(0.0, out + grown),
        p95=_p95(measures, queue.name),
        eta=due / out if out and due and is_exact and not queue.paused else None,
    )


def _p95(measures: Sequence[TimedMeasures], queue: str) -> float | None:
    runs = [numbers_of(each.measured, queue).run for each in measures]
    if sum(run.count for run in runs) < _FEWEST:
        return None
    total = runs[0]
    for run in runs[1:]:
        total = total.added(run)
    found = total.percentile(0.95)
    return None if found is None else found / 1000


def _live(queue: QueueCounts) -> int:
    return sum(queue.counts.values())
