"""An overview of a store as lines of text, cut to the size of the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from onward.cli import deaths, limits, workers
from onward.cli.output import STATE_STYLES
from onward.cli.table import Column, StyledLine, Table, cut, measure
from onward.cli.text import escaped
from onward.cli.times import ago, length
from onward.cli.watching import COUNTED, WatchedStore
from onward.job.states import LIVE, State

if TYPE_CHECKING:
    from onward.backend import QueueCounts
    from onward.client.record import JobRecord, SessionRecord

__all__ = ["Room", "clipped", "picture"]

Row = TypeVar("Row")

_BARS = "▁▂▃▄▅▆▇█"
_BARS_SHOWN = 40
_DEATHS = 10  # how many are shown where there is no screen
_WORDS = {
    State.AVAILABLE: "due",
    State.SCHEDULED: "later",
    State.RETRYABLE: "retry",
    State.EXECUTING: "running",
    State.COMPLETED: "done",
    State.DISCARDED: "dead",
    State.CANCELLED: "cancelled",
}


class Room(NamedTuple):
    """The size of a screen."""

    columns: int
    rows: int


class WorkerRow(NamedTuple):
    """A worker that runs, or has ended."""

    worker: SessionRecord
    state: str
    style: str


def picture(
    look: WatchedStore, *, title: str, room: Room | None = None, width: int | None = None, chosen: str | None = None
) -> list[StyledLine]:
    """Yield the lines of numbers, queues, limits, workers, dead and running jobs.  Without a room or a width nothing is cut.

    ``chosen`` is the id of a running job.  Where nothing died there is no table of deaths; so with limits.
    """
    lines: list[StyledLine] = [
        [(title, "bold"), (f"  {look.at:%H:%M:%S}Z", "dim")],
        [],
        _throughput(look),
        _states(look),
        _deaths(look),
    ]
    queues, running, dead, limited = look.overview.queues, look.running, look.deaths.jobs, look.limits
    width = width if room is None else room.columns
    # A small screen has no room for a fourth or fifth table: a line above counts the dead.
    if not _fits(room, lines, 3 + bool(dead) + bool(limited)):
        dead = ()
    if not _fits(room, lines, 3 + bool(limited)):
        limited = ()
    tables = 3 + bool(dead) + bool(limited)
    left = None if room is None else max(0, room.rows - len(lines) - 2 * tables)
    share = None if left is None else max(2, left // max(4, tables))
    lines += _section(queues, _QUEUES, width, share)
    if limited:
        lines += _section(limited, limits.COLUMNS, width, share)
    lines += _section(_workers(look), _WORKERS, width, share)
    if dead:
        lines += _section(dead, deaths.columns(look.at), width, share or _DEATHS)
    if room is not None:
        left = max(1, room.rows - len(lines) - 2)
    lines += _section(running, _running_columns(look), width, left, _place(running, chosen))
    shown = lines if room is None else lines[: room.rows]
    return shown if width is None else [clipped(line, width) for line in shown]


def _fits(room: Room | None, above: Sequence[StyledLine], tables: int) -> bool:
    """Return whether so many tables have room below: each has an empty line, a heading and two lines at least."""
    return tables == 3 or room is None or room.rows >= len(above) + 4 * tables


def clipped(line: StyledLine, columns: int) -> StyledLine:
    """Return a line, cut to the width."""
    spans, left = [], columns
    for text, style in line:
        shown = cut(escaped(text), left) if left > 0 else ""
        spans.append((shown, style))
        left -= measure(shown)
    return spans


def _throughput(look: WatchedStore) -> StyledLine:
    rate = look.rate
    told = "not known yet" if rate is None else f"{rate:,.1f} jobs/s"
    return [("throughput  ", "dim"), (told, "bold"), (f"  {_bars(look.rates[-_BARS_SHOWN:])}", "green")]


def _deaths(look: WatchedStore) -> StyledLine:
    expired = sum(not worker.alive for worker in look.workers)
    return deaths.summary(look.deaths, dead=_number(look.overview.counts, State.DISCARDED), expired=expired)


def _workers(look: WatchedStore) -> list[WorkerRow]:
    """Return the workers that have gone since the first look, then the expired, then the others."""
    gone = [
        WorkerRow(worker, f"gone {ago(at)}", "dim")
        if cause is None
        else WorkerRow(worker, f"died {ago(at)}: {cause}", "bold red")
        for worker, at, cause in look.deaths.gone
    ]
    expired = [WorkerRow(worker, "expired", "bold red") for worker in look.workers if not worker.alive]
    return [*gone, *expired, *(WorkerRow(worker, "alive", "green") for worker in look.workers if worker.alive)]


def _bars(rates: Sequence[float]) -> str:
    most = max(rates, default=0)
    return "".join(_BARS[round(rate / most * (len(_BARS) - 1))] for rate in rates) if most else ""


def _states(look: WatchedStore) -> StyledLine:
    counts = look.overview.counts
    line: list[tuple[str, str]] = []
    for state, word in _WORDS.items():
        line += [(f"{word} ", "dim"), (f"{_number(counts, state)}   ", STATE_STYLES[state] if counts[state] else "dim")]
    return line


def _number(counts: dict[State, int], state: State) -> str:
    """Return a count; with a + where counting stopped."""
    later = state in (State.SCHEDULED, State.RETRYABLE)
    reached = counts[State.SCHEDULED] + counts[State.RETRYABLE] if later else counts[state]
    return f"{counts[state]:,}{'+' if reached >= COUNTED else ''}"


def _section(
    rows: Sequence[Row], columns: Sequence[Column[Row]], width: int | None, room: int | None, chosen: int | None = None
) -> Iterator[StyledLine]:
    """Yield an empty line and a table, of which the rows around the chosen one are shown."""
    first, shown = 0, rows
    room = None if room is None else max(2, room)  # a row, and that there are more
    if room is not None and len(rows) > room:
        first = max(0, min((chosen or 0) - room // 2, len(rows) - room + 1))
        shown = rows[first : first + room - 1]
    yield []
    if not rows:
        yield [(columns[0].heading, "bold"), ("  none", "dim")]
        return
    heading, *lines = Table(columns, width=width).page(shown)
    yield heading
    for number, line in enumerate(lines, start=first):
        yield [(text, f"{style} reverse") for text, style in line] if number == chosen else line
    if len(shown) < len(rows):
        yield [(f"{len(rows) - len(shown):,} more", "dim")]


def _place(running: Sequence[JobRecord], chosen: str | None) -> int | None:
    return next((number for number, record in enumerate(running) if record.id == chosen), None)


def _count(state: State) -> Column[QueueCounts]:
    def style(queue: QueueCounts) -> str:
        return STATE_STYLES[state] if queue.counts[state] else "dim"

    return Column(_WORDS[state].upper(), lambda queue: _number(queue.counts, state), style=style, right=True)


_QUEUES: tuple[Column[QueueCounts], ...] = (
    Column("QUEUE", lambda queue: queue.name, flexible=True),
    *(_count(state) for state in _WORDS if state in LIVE),
    Column("", lambda queue: "paused" if queue.paused else "", style="bold yellow"),
)


_WORKERS: tuple[Column[WorkerRow], ...] = (
    Column("WORKER", lambda row: workers.short(row.worker.owner)),
    Column("HOST", lambda row: row.worker.host, flexible=True),
    Column("PID", lambda row: str(row.worker.pid), right=True),
    Column("JOBS", lambda row: str(row.worker.leases), right=True),
    Column("RENEWED", lambda row: ago(row.worker.renewed_at), useful=True),
    Column("STATE", lambda row: row.state, style=lambda row: row.style, flexible=True),
)


def _running_columns(look: WatchedStore) -> Sequence[Column[JobRecord]]:
    def age(record: JobRecord) -> str:
        return "" if record.started_at is None else length(max(0.0, (look.at - record.started_at).total_seconds()))

    pids = {worker.owner: worker.pid for worker in look.workers}

    def worker(record: JobRecord) -> str:
        return f"{workers.short(record.owner)} {pids.get(record.owner or '', '')}".rstrip()

    return (
        Column("RUNNING", lambda record: record.name, style="bold", flexible=True),
        Column("QUEUE", lambda record: record.queue, flexible=True),
        Column("AGE", age, right=True),
        Column("RUN", lambda record: str(record.attempts + 1), right=True),
        Column("CRASHES", lambda record: str(record.crashes or ""), style="red", right=True, useful=True),
        Column("WORKER", worker, useful=True),
        Column("PROGRESS", _progress, flexible=True),
        Column("ID", lambda record: record.id, style="dim", useful=True),
    )


def _progress(record: JobRecord) -> str:
    if record.progress is None:
        return ""
    note = f" {record.progress.note}" if record.progress.note else ""
    return f"{record.progress.fraction:.0%}{note}"
