"""The lines above the tables of ``onward top``: throughput, jobs by state, checks, deaths; cut to the width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.cli import deaths
from onward.cli.health import STATUS_STYLES
from onward.cli.output import STATE_STYLES
from onward.cli.queue_rows import number
from onward.cli.table import Span, StyledLine, measure
from onward.job.states import State

if TYPE_CHECKING:
    from onward.operate.watching import WatchedStore

__all__ = ["summary_lines"]

_BARS = "▁▂▃▄▅▆▇█"
_BARS_SHOWN = 40
_GAP = 3
# What a narrow screen has no room for stands last.
_WORDS = {
    State.AVAILABLE: "due",
    State.EXECUTING: "running",
    State.RETRYABLE: "retry",
    State.DISCARDED: "dead",
    State.SCHEDULED: "later",
    State.COMPLETED: "done",
    State.CANCELLED: "cancelled",
}


def summary_lines(look: WatchedStore, *, title: str, width: int | None) -> list[StyledLine]:
    """Return what is said of the store as a whole."""
    return [
        [(f"{look.at:%H:%M:%S}Z  ", "dim"), (title, "bold")],
        [],
        _throughput(look, width),
        _states(look, width),
        _checks(look, width),
        _deaths(look),
    ]


def _throughput(look: WatchedStore, width: int | None) -> StyledLine:
    rate = look.rate
    line = [("throughput  ", "dim"), ("not known yet" if rate is None else f"{rate:,.1f} jobs/s", "bold")]
    left = _BARS_SHOWN if width is None else min(_BARS_SHOWN, width - _width(line) - 2)
    return [*line, (f"  {_bars(look.rates[-left:])}", "green")] if left > 0 else line


def _bars(rates: Sequence[float]) -> str:
    most = max(rates, default=0)
    return "".join(_BARS[round(rate / most * (len(_BARS) - 1))] for rate in rates) if most else ""


def _states(look: WatchedStore, width: int | None) -> StyledLine:
    """Return the counts by state; where there is no room, those of none are left out, and then the last ones."""
    counts = look.overview.counts
    parts = [
        [
            (f"{word} ", "dim"),
            (number(*look.counted(state)), STATE_STYLES[state] if counts[state] else "dim"),
            (" " * _GAP, ""),
        ]
        for state, word in _WORDS.items()
    ]
    if width is not None and _width([span for part in parts for span in part]) - _GAP > width:
        parts = [part for part, state in zip(parts, _WORDS, strict=True) if counts[state]] or parts[:1]
    while width is not None and len(parts) > 1 and _width([span for part in parts for span in part]) - _GAP > width:
        parts.pop()
    return [span for part in parts for span in part][:-1]


def _checks(look: WatchedStore, width: int | None) -> StyledLine:
    """Return a line of the checks that do not pass, the worst first; of a single one with what it says."""
    label = ("health      ", "dim")
    if look.checks is None:
        return [label, ("not checked yet", "dim")]
    wrong = sorted((check for check in look.checks if check.status != "ok"), key=lambda check: check.status != "fail")
    if not wrong:
        return [label, (f"{len(look.checks)} checks, all fine" if look.checks else "this store has no checks", "green")]
    styles = [STATUS_STYLES[check.status] for check in wrong]
    told = [
        f"{check.name} {', '.join(check.about[:2])}{' …' if len(check.about) > 2 else ''}".strip() for check in wrong
    ]
    if len(wrong) == 1:
        return [label, (told[0], styles[0]), (f": {wrong[0].detail}", "")]
    if width is not None and measure(label[0]) + sum(measure(each) + 2 for each in told) > width:
        told = [check.name for check in wrong]
    return [label, *(span for each, style in zip(told, styles, strict=True) for span in ((each, style), ("  ", "")))]


def _deaths(look: WatchedStore) -> StyledLine:
    expired = sum(not worker.alive for worker in look.workers)
    return deaths.summary(look.deaths, dead=number(*look.counted(State.DISCARDED)), expired=expired)


def _width(line: Sequence[Span]) -> int:
    return sum(measure(text) for text, _ in line)
