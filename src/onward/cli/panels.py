"""What ``onward top`` shows in place of its tables: the stack of a job, why it waits, checks, deaths, the keys."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onward.cli import deaths, health, stacks, why
from onward.cli.exits import CommandError
from onward.cli.ids import find
from onward.cli.picture import Room
from onward.cli.table import StyledLine, Table, clipped
from onward.cli.text import escaped
from onward.errors import BackendError, JobNotFound, OnwardError
from onward.operate.commands import canary

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Check
    from onward.operate.watching import WatchedStore

__all__ = ["KEYS", "Panel", "checks_panel", "deaths_panel", "keys_panel", "stack_panel", "why_panel"]

Lines = Callable[[int], Sequence[StyledLine]]  # of a width

KEYS = (
    ("↑ ↓", "choose", "choose a queue, or a running job"),
    ("tab", "table", "go to the other table: queues, running jobs"),
    ("⏎", "stack", "the Python stack of the running job"),
    ("w", "why", "why the job, or the first job of the queue, is where it is, and what to type"),
    ("h", "health", "all checks, and what to type"),
    ("d", "deaths", "the dead jobs, by what killed them"),
    ("/", "filter", "show only queues and jobs with these characters in their names, or queue:mail, job:send_*"),
    ("p", "pause", "pause the chosen queue, or resume it; asks first"),
    ("?", "keys", "this list"),
    ("q", "quit", "end; so does Ctrl-C"),
)
_LABEL = 9


class Panel:
    """Lines in place of the tables.  They can be longer than the screen."""

    def __init__(self, title: str, lines: Lines, *, from_end: bool = False) -> None:
        self.title = title
        self._lines = lines
        self._first: int | None = None if from_end else 0
        self._last = 0

    def scroll(self, by: int) -> None:
        """Move by so many lines."""
        self._first = max(0, min((self._last if self._first is None else self._first) + by, self._last))

    def take_place_of(self, other: Panel) -> None:
        """Stay where another one of the same thing was scrolled to."""
        self._first = other._first

    def drawn(self, room: Room) -> list[StyledLine]:
        """Return what of it is in sight."""
        lines = [[(self.title, "bold")], [], *self._lines(room.columns)]
        self._last = max(0, len(lines) - room.rows)
        first = self._last if self._first is None else min(self._first, self._last)
        shown = [clipped(line, room.columns) for line in lines[first : first + room.rows]]
        if first < self._last:
            shown[-1] = [(f"{len(lines) - first - room.rows + 1} lines more ↓", "dim")]
        return shown


def stack_panel(app: Onward, job_id: str) -> Panel:
    """Return the stack of a running job, from the process that runs it."""
    try:
        record = find(app, job_id)
        found = list(stacks.lines(record, stacks.ask(app, record)))
    except (CommandError, JobNotFound, BackendError) as error:
        return _told("stack", str(error), "yellow")
    return Panel(f"stack of {job_id}", lambda _: found, from_end=True)


def why_panel(app: Onward, job_id: str) -> Panel:
    """Return why a job is where it is."""
    try:
        reason = app.why(job_id)
    except OnwardError as error:
        return _told(f"why {job_id}", str(error), "yellow")

    def lines(width: int) -> list[StyledLine]:
        told: list[StyledLine] = [[(reason.code, "bold cyan")], []]
        told += [[(part, "")] for part in _wrapped(reason.text, width)]
        for label, value in why.besides(reason):
            first, *more = _wrapped(value, width - _LABEL) or [""]
            style = "bold" if label == "do" else ""
            told += [[], [(label.ljust(_LABEL), "dim"), (first, style)]]
            told += [[(" " * _LABEL + part, style)] for part in more]
        return told

    return Panel(f"why {job_id}", lines)


def checks_panel(checks: Sequence[Check] | None) -> Panel:
    """Return every check with its fix, the worst first."""
    if checks is None:
        return _told("health", "not checked yet", "dim")
    ordered = sorted(checks, key=lambda check: ("fail", "warn", "ok").index(check.status))
    return Panel("health", lambda width: list(health.lines(ordered, width)))


def deaths_panel(app: Onward, look: WatchedStore | None) -> Panel:
    """Return the dead jobs in groups, by what killed them; and those that died last."""
    if look is None or not look.deaths.jobs:
        return _told("deaths", "no job is dead", "green")
    try:
        groups = app.dead_letters.groups() if app.backend.capabilities.groups_deaths else ()
    except OnwardError as error:
        return _told("deaths", str(error), "yellow")

    def lines(width: int) -> list[StyledLine]:
        told = list(Table(deaths.group_columns(look.at), width=width).page(groups))
        if told:
            worst = groups[0]
            told += [
                [],
                [("see      ", "dim"), (f"onward dead show --group {worst.fingerprint}", "bold")],
                [("do       ", "dim"), (f"{canary(worst.job, worst.fingerprint)}  # once the cause is fixed", "bold")],
                [],
            ]
        return [*told, *Table(deaths.columns(look.at), width=width).page(look.deaths.jobs)]

    return Panel("deaths", lines)


def keys_panel() -> Panel:
    """Return what the keys do."""

    def lines(width: int) -> list[StyledLine]:
        told: list[StyledLine] = []
        for key, _, does in KEYS:
            first, *more = _wrapped(does, width - _LABEL) or [""]
            told.append([(key.ljust(_LABEL), "bold cyan"), (first, "")])
            told += [[(" " * _LABEL + part, "")] for part in more]
        return told

    return Panel("keys", lines)


def _told(title: str, text: str, style: str) -> Panel:
    return Panel(title, lambda width: [[(part, style)] for part in _wrapped(text, width)])


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(escaped(text), max(8, width), break_on_hyphens=False)
