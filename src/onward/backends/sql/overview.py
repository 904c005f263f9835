"""The overview of a database: its cost does not depend on how many jobs wait or have ended."""

from __future__ import annotations

from collections import defaultdict

from onward.backend import OVERVIEW_QUEUES, Overview, QueueCounts
from onward.backends.sql.statements import SqlTransaction
from onward.job.states import LIVE, State

__all__ = ["overview"]


def overview(tx: SqlTransaction, at_most: int) -> Overview:
    overview, later = tx.ask("overview", at_most=at_most), tx.ask("overview_later", at_most=at_most)
    queues = _queues(tx, at_most)
    ((available, executing, everything, tombstones, discarded, cancelled, ended),) = overview.rows()
    ((scheduled, retryable),) = later.rows()
    # Completed jobs have no index of their own: they are all the others, as long as all were counted.
    completed = at_most if everything == at_most else everything - discarded - cancelled - tombstones
    counts = {
        State.SCHEDULED: scheduled,
        State.AVAILABLE: available,
        State.EXECUTING: executing,
        State.RETRYABLE: retryable,
        State.COMPLETED: completed,
        State.DISCARDED: discarded,
        State.CANCELLED: cancelled,
    }
    return Overview(counts=counts, queues=queues, ended=ended)


def _queues(tx: SqlTransaction, at_most: int) -> list[QueueCounts]:
    due = tx.ask("overview_due_by_queue", at_most=at_most, queues=OVERVIEW_QUEUES)
    later = tx.ask("overview_later_by_queue", at_most=at_most, queues=OVERVIEW_QUEUES)
    running = tx.ask("overview_running_by_queue", at_most=at_most)
    stopped = tx.ask("paused_queues")
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    for name, available in due.rows():  # jobs with lanes may be counted apart
        counts[name][State.AVAILABLE] = min(at_most, counts[name][State.AVAILABLE] + available)
    for name, scheduled, retryable in later.rows():
        counts[name][State.SCHEDULED], counts[name][State.RETRYABLE] = scheduled, retryable
    for name, executing in running.rows():
        counts[name][State.EXECUTING] = executing
    paused = {name for (name,) in stopped.rows()}
    names = sorted(counts.keys() | paused)[:OVERVIEW_QUEUES]
    return [QueueCounts(name=name, paused=name in paused, counts=counts[name]) for name in names]
