"""The overview of a file: its cost does not depend on how many jobs wait or have ended."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from onward.backend import OVERVIEW_QUEUES, Overview, QueueCounts
from onward.backends.sqlite.transaction import Transaction
from onward.job.states import LIVE, State

__all__ = ["overview"]


def overview(tx: Transaction, at_most: int) -> Overview:
    overview, later = tx.row("overview", (at_most,)), tx.row("overview_later", (at_most,))
    assert overview is not None
    assert later is not None
    available, executing, everything, discarded, cancelled, tombstones, ended = overview
    scheduled, retryable = later
    # Completed jobs have no index of their own: they are all the others, as long as all were counted.
    completed = at_most if everything == at_most else everything - discarded - cancelled - tombstones
    return Overview(
        counts={
            State.SCHEDULED: scheduled,
            State.AVAILABLE: available,
            State.EXECUTING: executing,
            State.RETRYABLE: retryable,
            State.COMPLETED: completed,
            State.DISCARDED: discarded,
            State.CANCELLED: cancelled,
        },
        queues=_queues(tx, at_most),
        ended=ended,
    )


def _queues(tx: Transaction, at_most: int) -> list[QueueCounts]:
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    for name, available in tx.rows("overview_due_by_queue", (at_most, OVERVIEW_QUEUES)):
        counts[name][State.AVAILABLE] = available
    for name, later in tx.rows("overview_later_by_queue", (at_most, OVERVIEW_QUEUES)):
        counts[name][State.SCHEDULED], counts[name][State.RETRYABLE] = msgspec.json.decode(later)
    for name, executing in tx.rows("overview_running_by_queue", (at_most,)):
        counts[name][State.EXECUTING] = executing
    paused = {name for (name,) in tx.rows("paused_queues")}
    names = sorted(counts.keys() | paused)[:OVERVIEW_QUEUES]
    return [QueueCounts(name=name, paused=name in paused, counts=counts[name]) for name in names]
