"""Queues as rows of ``onward top``: how long each lets jobs wait, how fast it is, what is in it."""

from __future__ import annotations

from collections.abc import Sequence

from onward.cli.output import STATE_STYLES
from onward.cli.table import Column
from onward.cli.times import length
from onward.job.states import State
from onward.operate.queue_rows import QueueRow, rows

__all__ = ["COLUMNS", "QueueRow", "number", "rows"]


def number(count: int, or_more: bool) -> str:
    """Return a count; with a + where there may be more."""
    return f"{count:,}{'+' if or_more else ''}"


def _count(heading: str, state: State, *, useful: bool = False) -> Column[QueueRow]:
    def counted(row: QueueRow) -> tuple[int, bool]:
        return row.due if state is State.AVAILABLE else row.in_state(state)

    def style(row: QueueRow) -> str:
        return STATE_STYLES[state] if counted(row)[0] else "dim"

    return Column(heading, lambda row: number(*counted(row)), style=style, right=True, useful=useful)


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
