"""A look that costs the same however much waits and however long the history is."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from onward.backend import QUEUES_AT_A_GLANCE, Overview, QueueCounts
from onward.backends.sqlite.transaction import Transaction
from onward.job.states import LIVE, State

__all__ = ["overview"]


def overview(tx: Transaction, at_most: int) -> Overview:
    glance, later = tx.row("glance", (at_most,)), tx.row("glance_later", (at_most,))
    assert glance is not None
    assert later is not None
    available, executing, everything, discarded, cancelled, tombstones, ended = glance
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
    for name, available in tx.rows("glance_due_by_queue", (at_most, QUEUES_AT_A_GLANCE)):
        counts[name][State.AVAILABLE] = available
    for name, later in tx.rows("glance_later_by_queue", (at_most, QUEUES_AT_A_GLANCE)):
        counts[name][State.SCHEDULED], counts[name][State.RETRYABLE] = msgspec.json.decode(later)
    for name, executing in tx.rows("glance_running_by_queue", (at_most,)):
        counts[name][State.EXECUTING] = executing
    paused = {name for (name,) in tx.rows("paused_queues")}
    names = sorted(counts.keys() | paused)[:QUEUES_AT_A_GLANCE]
    return [QueueCounts(name=name, paused=name in paused, counts=counts[name]) for name in names]
