"""An overview of a store as lines of text, cut to the size of the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.base.names import like
from onward.cli import deaths, limits, queue_rows, workers
from onward.cli.summary_lines import summary_lines
from onward.cli.table import Column, StyledLine, Table, clipped
from onward.cli.times import ago, length

if TYPE_CHECKING:
    from onward.client.record import JobRecord, SessionRecord
    from onward.operate.watching import WatchedStore

__all__ = ["NO_CHOICE", "Choice", "Room", "picture", "shown_jobs", "shown_queues"]

_DEATHS = 10  # how many are shown where there is no screen


class Room(NamedTuple):
    """The size of a screen."""

    columns: int
    rows: int


class WorkerRow(NamedTuple):
    """A worker that runs, or has ended."""

    worker: SessionRecord
    state: str
    style: str


class Choice(NamedTuple):
    """What is chosen on the screen, and what is left out of the tables."""

    queue: str | None = None
    job: str | None = None  # the id of one that runs
    filter: str = ""  # queues and jobs whose names do not have it are left out


NO_CHOICE = Choice()


def picture(
    look: WatchedStore, *, title: str, room: Room | None = None, width: int | None = None, choice: Choice = NO_CHOICE
) -> list[StyledLine]:
    """Yield the lines of numbers, queues, limits, workers, dead and running jobs.  Without a room or a width nothing is cut.

    Where nothing died there is no table of deaths; so with limits.
    """
    width = width if room is None else room.columns
    lines = summary_lines(look, title=title, width=width)
    queues, running = shown_queues(look, choice), shown_jobs(look, choice)
    tables: list[_Section | None] = [
        _Section(
            queues, queue_rows.COLUMNS, next((n for n, row in enumerate(queues) if row.name == choice.queue), None)
        ),
        _Section(look.limits, limits.COLUMNS) if look.limits else None,
        _Section(_workers(look), _WORKERS, empty="none: `onward worker MODULE:ATTRIBUTE` starts one"),
        _Section(look.deaths.jobs[: None if room else _DEATHS], deaths.columns(look.at)) if look.deaths.jobs else None,
        _Section(
            running, _running_columns(look), next((n for n, job in enumerate(running) if job.id == choice.job), None)
        ),
    ]
    # A small screen has no room for a fourth or fifth table: a line above counts the dead.
    for place in (3, 1):
        if room is not None and _least(lines, tables) > room.rows:
            tables[place] = None
    shown = [table for table in tables if table is not None]
    left = None if room is None else room.rows - len(lines) - 2 * len(shown)
    for table, share in zip(shown, _shares([len(table.rows) for table in shown], left), strict=True):
        lines += table.lines(width, share)
    lines = lines if room is None else lines[: room.rows]
    return lines if width is None else [clipped(line, width) for line in lines]


def _least(above: Sequence[StyledLine], tables: Sequence[_Section | None]) -> int:
    """Return how many lines there are with three rows in each table: each has an empty line and a heading besides."""
    return len(above) + sum(2 + min(3, len(table.rows)) for table in tables if table is not None)


def _shares(wanted: Sequence[int], left: int | None) -> list[int | None]:
    """Return how many lines each table gets: two if it needs them, then one more each as long as there are any."""
    if left is None:
        return [None for _ in wanted]
    shares = [min(2, number) for number in wanted]
    left -= sum(shares)
    while left > 0 and shares != list(wanted):
        for place in sorted(range(len(wanted)), key=lambda place: (place not in (0, len(wanted) - 1), place)):
            if left > 0 and shares[place] < wanted[place]:
                shares[place], left = shares[place] + 1, left - 1
    return [*shares]


class _Section(NamedTuple):
    """A table below an empty line."""

    rows: Sequence[Any]
    columns: Sequence[Column[Any]]
    chosen: int | None = None
    empty: str = "none"

    def lines(self, width: int | None, room: int | None) -> Iterator[StyledLine]:
        """Yield the lines of the rows around the chosen one."""
        first, shown = 0, self.rows
        if room is not None and len(self.rows) > room:
            room = max(2, room)  # a row, and that there are more
            first = max(0, min((self.chosen or 0) - room // 2, len(self.rows) - room + 1))
            shown = self.rows[first : first + room - 1]
        yield []
        if not self.rows:
            yield [(self.columns[0].heading, "bold"), (f"  {self.empty}", "dim")]
            return
        # A column in which nothing stands is left out, if it may be.
        columns = [
            column for column in self.columns if not column.useful or any(column.cell(row).strip() for row in self.rows)
        ]
        heading, *lines = Table(columns, width=width).page(shown)
        yield heading
        for place, line in enumerate(lines, start=first):
            yield [(text, f"{style} reverse") for text, style in line] if place == self.chosen else line
        if len(shown) < len(self.rows):
            yield [(f"{len(self.rows) - len(shown):,} more", "dim")]


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


def shown_queues(look: WatchedStore, choice: Choice) -> list[queue_rows.QueueRow]:
    """Return the queues that the filter leaves in."""
    return [row for row in queue_rows.rows(look) if _is_left_in(choice.filter, queue=row.name)]


def shown_jobs(look: WatchedStore, choice: Choice) -> list[JobRecord]:
    """Return the running jobs that the filter leaves in, by their name or their queue."""
    return [each for each in look.running if _is_left_in(choice.filter, queue=each.queue, job=each.name)]


def _is_left_in(typed: str, *, queue: str, job: str | None = None) -> bool:
    """Return whether a row has all that was typed.  ``queue:`` and ``job:`` are the words of every filter.

    >>> [
    ...     _is_left_in(typed, queue="mail", job="send")
    ...     for typed in ("ai", "queue:m*", "queue:mai", "job:send se", "job:x")
    ... ]
    [True, True, False, True, False]
    """
    names = (queue,) if job is None else (queue, job)
    for part in typed.split():
        word, colon, value = part.partition(":")
        if colon and word == "queue":
            left_in = like(value)(queue)
        elif colon and word == "job":
            left_in = job is None or like(value)(job)
        else:
            left_in = any(part in name for name in names)
        if not left_in:
            return False
    return True


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
