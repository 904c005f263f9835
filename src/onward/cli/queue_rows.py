"""Queues as rows of ``onward top``: how long each lets jobs wait, how fast it is, what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.cli.output import STATE_STYLES
from onward.cli.table import Column
from onward.cli.times import length
from onward.job.states import State
from onward.operate.watching import COUNTED

if TYPE_CHECKING:
    from onward.backend import QueueCounts
    from onward.operate.queue_pace import QueuePace
    from onward.operate.watching import WatchedStore

__all__ = ["COLUMNS", "QueueRow", "number", "rows"]


class QueueRow(NamedTuple):
    """A queue, and what is known of it besides its counts."""

    queue: QueueCounts
    pace: QueuePace
    oldest: float | None  # seconds for which its oldest due job has waited
    trouble: str  # the check that it fails, in a word

    @property
    def name(self) -> str:
        return self.queue.name


def rows(look: WatchedStore) -> list[QueueRow]:
    """Return the queues, those in trouble first, by how long jobs wait in them."""
    troubled = {
        about: _TROUBLES[check.name]
        for check in reversed(look.checks or ())
        if check.name in _TROUBLES and check.status != "ok"
        for about in check.about
    }
    found = [
        QueueRow(queue, look.pace(queue.name), look.age(queue.oldest_due), troubled.get(queue.name, ""))
        for queue in look.overview.queues
    ]
    return sorted(found, key=lambda row: (not row.trouble, -(row.oldest or 0) if row.trouble else 0, row.name))


_TROUBLES = {"served": "no worker", "late": "late", "paused": "paused"}


def number(counts: dict[State, int], state: State) -> str:
    """Return a count; with a + where counting stopped."""
    later = state in (State.SCHEDULED, State.RETRYABLE)
    reached = counts[State.SCHEDULED] + counts[State.RETRYABLE] if later else counts[state]
    return f"{counts[state]:,}{'+' if reached >= COUNTED else ''}"


def _count(heading: str, state: State, *, useful: bool = False) -> Column[QueueRow]:
    def style(row: QueueRow) -> str:
        return STATE_STYLES[state] if row.queue.counts[state] else "dim"

    return Column(heading, lambda row: number(row.queue.counts, state), style=style, right=True, useful=useful)


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _length(seconds: float | None) -> str:
    return "" if seconds is None else length(seconds)


def _condition(row: QueueRow) -> str:
    return "paused" if row.queue.paused else row.trouble


COLUMNS: Sequence[Column[QueueRow]] = (
    Column("QUEUE", lambda row: row.name, flexible=True),
    Column("WAITS", lambda row: _length(row.oldest), style=lambda row: "bold red" if row.trouble else "", right=True),
    _count("DUE", State.AVAILABLE),
    _count("RUN", State.EXECUTING),
    Column("", _condition, style=lambda row: "bold yellow" if row.queue.paused else "bold red"),
    Column("OUT/s", lambda row: _rate(row.pace.out), right=True, useful=True),
    Column("IN/s", lambda row: _rate(row.pace.enters), right=True, useful=True),
    Column("ETA", lambda row: _length(row.pace.eta), right=True, useful=True),
    Column("P95", lambda row: _length(row.pace.p95), right=True, useful=True),
    _count("RETRY", State.RETRYABLE, useful=True),
    _count("LATER", State.SCHEDULED, useful=True),
)
