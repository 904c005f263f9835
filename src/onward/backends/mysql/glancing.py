"""A look that costs the same however much waits and however long the history is."""

from __future__ import annotations

from collections import defaultdict

from onward.backend import QUEUES_AT_A_GLANCE, Overview, QueueCounts
from onward.backends.mysql.transaction import Transaction
from onward.states import LIVE, State

__all__ = ["overview"]


def overview(tx: Transaction, at_most: int) -> Overview:
    live = {state: tx.ask("glance_state", state=str(state), at_most=at_most) for state in LIVE}
    ((completed, discarded, cancelled, ended),) = tx.ask("glance", at_most=at_most).rows()
    finished = {State.COMPLETED: completed, State.DISCARDED: discarded, State.CANCELLED: cancelled}
    counted = {state: reply.value() for state, reply in live.items()}
    # Of what comes later, no more than the limit is counted even together.
    counted[State.RETRYABLE] = min(counted[State.RETRYABLE], at_most - counted[State.SCHEDULED])
    return Overview(counts=counted | finished, queues=_queues(tx, at_most), ended=ended)


def _queues(tx: Transaction, at_most: int) -> list[QueueCounts]:
    stopped = tx.ask("paused_queues")
    found = _found(tx)
    paused = {name for (name,) in stopped.rows()}
    names = sorted({name for _, name in found} | paused)[:QUEUES_AT_A_GLANCE]
    lines = {
        (state, name): tx.ask("glance_line", state=str(state), queue=name, at_most=at_most)
        for state, name in found
        if name in set(names)
    }
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    for (state, name), reply in lines.items():
        counts[name][state] = reply.value()
    return [QueueCounts(name=name, paused=name in paused, counts=counts[name]) for name in names]


def _found(tx: Transaction) -> list[tuple[State, str]]:
    """The first names in each state, one after the other; all states at a time."""
    found: list[tuple[State, str]] = []
    after = dict.fromkeys(LIVE, "")
    for _ in range(QUEUES_AT_A_GLANCE):
        asked = {state: tx.ask("glance_queue", state=str(state), after=name) for state, name in after.items()}
        after = {state: reply.value() for state, reply in asked.items() if reply.value() is not None}
        if not after:
            break
        found += after.items()
    return found
