"""``onward dead``: jobs that were given up, and what becomes of them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.cli import jobs, output, timeline, values
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.deaths import last_error
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find_dead
from onward.cli.table import Column
from onward.cli.times import ago
from onward.errors import JobNotFound
from onward.states import State
from onward.wording import counted

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.record import JobRecord

__all__ = ["GROUP"]

_BATCH = 500
_TOLD = 20


def list_dead(app: Onward, args: Namespace) -> int:
    """A page, or with ``--all`` every page."""

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.dead_letters.list(args.queue, job=args.job, limit=limit, after=after)

    return jobs.list_pages(args, page, _COLUMNS)


def show(app: Onward, args: Namespace) -> int:
    """Everything known about one dead job."""
    record = find_dead(app, args.id)
    if record.state is not State.DISCARDED:
        raise JobNotFound(f"job {record.id} is {record.state}, not dead: see `onward job show {record.id}`")
    timeline.show(args, record)
    return Exit.OK


def replay(app: Onward, args: Namespace) -> int:
    """Put dead jobs back in their queue with their budget whole."""
    chosen = _chosen(app, args)
    replayed, skipped = 0, dict(chosen.skipped)
    with output.progress(args, "replaying", len(chosen.ids)) as advance:
        for batch in _batches(chosen.ids):
            answer = app.dead_letters.replay(batch)
            replayed, skipped = replayed + answer, skipped | answer.skipped
            advance(len(batch))
    _report(args, "replayed", replayed, skipped)
    return _verdict(replayed, skipped)


def purge(app: Onward, args: Namespace) -> int:
    """Remove dead jobs for good."""
    chosen = _chosen(app, args)
    if chosen.ids and not args.yes:
        _confirm(len(chosen.ids))
    purged = 0
    with output.progress(args, "purging", len(chosen.ids)) as advance:
        for batch in _batches(chosen.ids):
            purged += app.dead_letters.purge(batch)
            advance(len(batch))
    _report(args, "purged", purged, chosen.skipped)
    return _verdict(purged, chosen.skipped)


class Chosen(NamedTuple):
    """The dead jobs that are meant, and why others that were named are not."""

    ids: list[str]
    skipped: dict[str, str]


def _chosen(app: Onward, args: Namespace) -> Chosen:
    filters = [args.queue, args.job, args.limit]
    if args.ids and (args.all or any(filters)):
        raise CommandError("give ids, or filters, not both", Exit.USAGE)
    if args.ids:
        return _named(app, args.ids)
    if not args.all and not any(filters):
        raise CommandError("say which: ids, --queue, --job, --limit, or --all", Exit.USAGE)
    return Chosen(_matching(app, args), {})


def _named(app: Onward, given: Sequence[str]) -> Chosen:
    chosen = Chosen([], {})
    for each in dict.fromkeys(given):
        try:
            record = find_dead(app, each)
        except JobNotFound:
            chosen.skipped[each] = "no such job"
            continue
        if record.state is State.DISCARDED:
            chosen.ids.append(record.id)
        else:
            chosen.skipped[record.id] = f"not dead: {record.state}"
    return chosen


def _matching(app: Onward, args: Namespace) -> list[str]:
    """The ids first, so that what dies meanwhile is not swept along unseen."""

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.dead_letters.list(args.queue, job=args.job, limit=limit, after=after)

    found: list[str] = []
    with output.progress(args, "looking", None) as advance:
        for records in jobs.pages(page, limit=args.limit):
            found += [record.id for record in records]
            advance(len(records))
    return found


def _batches(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH)]


def _confirm(number: int) -> None:
    """Purging cannot be undone: the number has to be typed, or said with ``--yes``."""
    if not sys.stdin.isatty():
        raise CommandError(
            f"purging removes {counted(number, 'dead job')} for good: add --yes if that is meant", Exit.USAGE
        )
    sys.stderr.write(f"This removes {counted(number, 'dead job')} for good.  Type {number} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != str(number):
        raise CommandError("nothing was purged", Exit.FAILURE)


def _report(args: Namespace, verb: str, done: int, skipped: dict[str, str]) -> None:
    if args.json:
        output.json_line({verb: int(done), "skipped": skipped})
        return
    if done or not skipped:
        output.write(f"{verb} {counted(done, 'dead job')}")
    for job_id, reason in list(skipped.items())[:_TOLD]:
        output.fail(f"{job_id} was skipped: {reason}")
    if len(skipped) > _TOLD:
        output.fail(f"{len(skipped) - _TOLD:,} more skipped: --json names them all")


def _verdict(done: int, skipped: dict[str, str]) -> int:
    if not done:
        return Exit.NOTHING
    return Exit.FAILURE if skipped else Exit.OK


_COLUMNS: tuple[Column[JobRecord], ...] = (
    Column("ID", lambda record: record.id),
    Column("JOB", lambda record: record.name, flexible=True),
    Column("QUEUE", lambda record: record.queue, flexible=True),
    Column("DIED", lambda record: ago(record.finished_at or record.enqueued_at)),
    Column("TRIES", lambda record: str(record.attempts), right=True, useful=True),
    Column("LAST ERROR", last_error, style="red", flexible=True),
)

_FILTERS = (
    argument("--queue", "only of this queue", metavar="NAME"),
    argument("--job", "only with this job name", metavar="NAME"),
)
_WHICH = (
    argument("ids", "an id, or 8 or more of its first characters", metavar="ID", nargs="*"),
    *_FILTERS,
    argument("--limit", "at most so many, the oldest first", metavar="N", type=values.count),
    argument("--all", "all of them", action="store_true"),
)

GROUP = Group(
    "dead",
    "look at jobs that were given up, replay or purge them",
    (
        Command(
            "list",
            "list dead jobs, the oldest first",
            on_store(list_dead),
            (
                *_FILTERS,
                argument("--limit", "at most so many (50)", metavar="N", type=values.count, default=50),
                argument("--after", "begin after this id, the last of the page before", metavar="ID"),
                argument("--all", "every page", action="store_true"),
            ),
        ),
        Command(
            "show",
            "show one dead job: its payload, its runs with their errors",
            on_store(show),
            (argument("id", "an id, or 8 or more of its first characters", metavar="ID"),),
        ),
        Command(
            "replay",
            "put dead jobs back in their queue, with their budget whole",
            on_store(replay),
            _WHICH,
        ),
        Command(
            "purge",
            "remove dead jobs for good",
            on_store(purge),
            (*_WHICH, argument("--yes", "do not ask", action="store_true")),
            about="On a terminal the number of jobs has to be typed first; elsewhere --yes is needed.",
        ),
    ),
)
