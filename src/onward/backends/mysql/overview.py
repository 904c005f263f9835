"""The overview of a database: its cost does not depend on how many jobs wait or have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from onward.backend import OVERVIEW_QUEUES, Overview, QueueCounts, QueuePage
from onward.backends.mysql.transaction import Reply, Transaction
from onward.backends.sql.overview import oldest_of
from onward.backends.sql.rows import before, queue_page
from onward.contract.snapshot import OLDEST_LINES
from onward.job.states import LIVE, State

__all__ = ["overview", "queues_with_work"]

_LOWEST = -(1 << 40)  # below the places of all jobs
_LATER = (State.SCHEDULED, State.RETRYABLE)


def overview(tx: Transaction, at_most: int, now: int) -> Overview:
    live = {state: tx.ask("overview_state", state=str(state), at_most=at_most) for state in LIVE}
    ((completed, discarded, cancelled, ended),) = tx.ask("overview", at_most=at_most).rows()
    finished = {State.COMPLETED: completed, State.DISCARDED: discarded, State.CANCELLED: cancelled}
    counted = {state: reply.value() for state, reply in live.items()}
    # Scheduled and retryable jobs together are counted up to the limit.
    counted[State.RETRYABLE] = min(counted[State.RETRYABLE], at_most - counted[State.SCHEDULED])
    return Overview(counts=counted | finished, queues=_queues(tx, at_most, now), ended=ended)


def _queues(tx: Transaction, at_most: int, now: int) -> list[QueueCounts]:
    stopped = tx.ask("pauses")
    found = _found(tx, LIVE)
    paused: dict[str, int] = dict(stopped.rows())
    names = sorted({name for _, name in found} | paused.keys())[:OVERVIEW_QUEUES]
    lines = {
        (state, name): tx.ask("overview_line", state=str(state), queue=name, at_most=at_most)
        for state, name in found
        if name in set(names)
    }
    counts: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(sorted(LIVE), 0))
    for (state, name), reply in lines.items():
        counts[name][state] = reply.value()
    waits_since = _oldest(tx, [name for state, name in lines if state is State.AVAILABLE])
    for name, since in _first_due(tx, [(state, name) for state, name in lines if state in _LATER]):
        if since <= now:
            waits_since[name].append(since)
    return [
        QueueCounts(
            name=name,
            paused=name in paused,
            counts=counts[name],
            oldest_due=oldest_of(waits_since[name]),
            paused_at=paused.get(name),
        )
        for name in names
    ]


def _first_due(tx: Transaction, lines: Sequence[tuple[State, str]]) -> list[tuple[str, int]]:
    """Return when the first job of each of these lines is due."""
    asked = [(name, tx.ask("first_due", state=str(state), queue=name)) for state, name in lines]
    return [(name, reply.value()) for name, reply in asked if reply.value() is not None]


def _oldest(tx: Transaction, names: Sequence[str]) -> defaultdict[str, list[int | None]]:
    """Return since when the first job of each line of these queues is due, from line to line, all queues at a time.

    Not in one statement, as in `_found`.
    """
    found: defaultdict[str, list[int | None]] = defaultdict(list)
    last: dict[str, tuple[int, bytes | None]] = dict.fromkeys(names, (_LOWEST, None))
    for _ in range(2 * OLDEST_LINES):
        if not last:
            break
        asked = {name: _ask_next(tx, name, *line) for name, line in last.items()}
        rows = {name: next((row for reply in replies for row in reply.rows()), None) for name, replies in asked.items()}
        last = {}
        for name, row in rows.items():
            if row is not None:
                place, line, since = row
                found[name].append(since)
                last[name] = place, line
    return found


def _ask_next(tx: Transaction, queue: str, place: int, line: bytes | None) -> list[Reply]:
    """Ask for the line behind this one: a lane of the same place comes first."""
    lanes = [] if line is None else [tx.ask("next_lane", queue=queue, place=place, line=line)]
    return [*lanes, tx.ask("next_line", queue=queue, place=place)]


def queues_with_work(tx: Transaction, prefix: str, after: str, limit: int) -> QueuePage:
    found = _found(tx, LIVE - {State.EXECUTING}, prefix, after, min(limit, OVERVIEW_QUEUES))
    looks = {name: tx.ask("next_due", queue=name) for _, name in found}
    has_work = {name for name, look in looks.items() if _has_work(*look.rows()[0])}
    return queue_page([(state, name, name in has_work) for state, name in found], min(limit, OVERVIEW_QUEUES))


def _has_work(paused: int, last: int | None, _limited: int, *instants: int | None) -> bool:
    """Return whether a job waits or is due, from a row of `next_due`; not whether limits leave room for it."""
    *due, now = instants
    return not paused and (last is not None or any(at is not None and now is not None and at <= now for at in due))


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
