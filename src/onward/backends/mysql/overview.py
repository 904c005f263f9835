"""The overview of a database: its cost does not depend on how many jobs wait or have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from onward.backend import OVERVIEW_QUEUES, Overview, QueueCounts, QueuePage
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.rows import before, queue_page
from onward.job.states import LIVE, State

__all__ = ["overview", "queues_with_work"]


def overview(tx: Transaction, at_most: int) -> Overview:
    live = {state: tx.ask("overview_state", state=str(state), at_most=at_most) for state in LIVE}
    ((completed, discarded, cancelled, ended),) = tx.ask("overview", at_most=at_most).rows()
    finished = {State.COMPLETED: completed, State.DISCARDED: discarded, State.CANCELLED: cancelled}
    counted = {state: reply.value() for state, reply in live.items()}
    # Scheduled and retryable jobs together are counted up to the limit.
    counted[State.RETRYABLE] = min(counted[State.RETRYABLE], at_most - counted[State.SCHEDULED])
    return Overview(counts=counted | finished, queues=_queues(tx, at_most), ended=ended)


def _queues(tx: Transaction, at_most: int) -> list[QueueCounts]:
    stopped = tx.ask("paused_queues")
    found = _found(tx, LIVE)
    paused = {name for (name,) in stopped.rows()}
    names = sorted({name for _, name in found} | paused)[:OVERVIEW_QUEUES]
    lines = {
        (state, name): tx.ask("overview_line", state=str(state), queue=name, at_most=at_most)
        for state, name in found
        if name in set(names)
    }
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    for (state, name), reply in lines.items():
        counts[name][state] = reply.value()
    return [QueueCounts(name=name, paused=name in paused, counts=counts[name]) for name in names]


def queues_with_work(tx: Transaction, prefix: str, after: str, limit: int) -> QueuePage:
    found = _found(tx, LIVE - {State.EXECUTING}, prefix, after, min(limit, OVERVIEW_QUEUES))
    looks = {name: tx.ask("next_due", queue=name) for _, name in found}
    has_work = {name for name, look in looks.items() if _has_work(*look.rows()[0])}
    return queue_page([(state, name, name in has_work) for state, name in found], min(limit, OVERVIEW_QUEUES))


def _has_work(paused: int, available: int, _laned: int, *instants: int | None) -> bool:
    """Return whether a job waits or is due, from a row of `next_due`; not whether limits leave room for it."""
    *due, now = instants
    return not paused and bool(available or any(at is not None and now is not None and at <= now for at in due))


def _found(
    tx: Transaction, states: Iterable[State], prefix: str = "", after: str = "", limit: int = OVERVIEW_QUEUES
) -> list[tuple[State, str]]:
    """Return the first names of queues in each state, one after the other; all states at a time.

    Not in one statement: MariaDB walks along every job for `DISTINCT`, for `GROUP BY` and in a recursive query.
    """
    found: list[tuple[State, str]] = []
    last = dict.fromkeys(states, max(after, before(prefix)))
    for _ in range(limit):
        asked = {state: tx.ask("next_queue", state=str(state), after=name) for state, name in last.items()}
        names = {state: reply.value() for state, reply in asked.items()}
        last = {state: name for state, name in names.items() if name is not None and name.startswith(prefix)}
        if not last:
            break
        found += last.items()
    return found
