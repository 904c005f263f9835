"""``onward dead``: listing, replaying and removing dead jobs."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from onward.base.wording import counted
from onward.cli import jobs, output, removing, timeline, values
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.deaths import last_error
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find_dead
from onward.cli.table import Column
from onward.cli.times import ago
from onward.errors import JobNotFound
from onward.job.states import State

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord

__all__ = ["GROUP"]

_BATCH = 500
_TOLD = 20


def list_dead(app: Onward, args: Namespace) -> int:
    """Print a page, or with ``--all`` every page."""

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.dead_letters.list(args.queue, job=args.job, limit=limit, after=after)

    return jobs.list_pages(args, page, _COLUMNS)


def show(app: Onward, args: Namespace) -> int:
    """Print everything known about one dead job."""
    record = find_dead(app, args.id)
    if record.state is not State.DISCARDED:
        raise JobNotFound(f"job {record.id} is {record.state}, not dead: see `onward job show {record.id}`")
    timeline.show(args, record, jobs.notes_of(app, record), jobs.entries_of(app, record))
    return Exit.OK


def replay(app: Onward, args: Namespace) -> int:
    """Put dead jobs back in their queue, with all their attempts again."""
    chosen = _chosen(app, args)
    replayed, skipped = 0, dict(chosen.skipped)
    with output.progress(args, "replaying", len(chosen.ids)) as advance:
        for batch in _batches(chosen.ids):
            answer = app.dead_letters.replay(batch, fresh=args.fresh, **acting(args))
            replayed, skipped = replayed + answer, skipped | answer.skipped
            advance(len(batch))
    _report(args, "replayed", replayed, skipped)
    return _verdict(replayed, skipped)


def purge(app: Onward, args: Namespace) -> int:
    """Remove dead jobs for good."""
    chosen = _chosen(app, args)
    if args.dry_run:
        removing.tell_what_would_go(args, Counter(chosen.queues), "dead")
        return _verdict(len(chosen.ids), chosen.skipped)
    removing.confirm(args, len(chosen.ids), "dead")
    purged = 0
    with output.progress(args, "purging", len(chosen.ids)) as advance:
        for batch in _batches(chosen.ids):
            purged += app.dead_letters.purge(batch, **acting(args))
            advance(len(batch))
    _report(args, "purged", purged, chosen.skipped)
    return _verdict(purged, chosen.skipped)


class Chosen(NamedTuple):
    """The chosen dead jobs, and why others that were named are skipped."""

    ids: list[str]
    queues: list[tuple[str, State]]  # of each, with its state
    skipped: dict[str, str]

    def add(self, record: JobRecord) -> None:
        self.ids.append(record.id)
        self.queues.append((record.queue, record.state))


def _chosen(app: Onward, args: Namespace) -> Chosen:
    filters = [args.queue, args.job, args.limit, getattr(args, "older_than", None)]
    if args.ids and (args.all or any(filters)):
        raise CommandError("give ids, or filters, not both", Exit.USAGE)
    if args.ids:
        return _named(app, args.ids)
    if not args.all and not any(filters):
        purging = "--older-than, " if hasattr(args, "older_than") else ""
        raise CommandError(f"say which: ids, --queue, --job, {purging}--limit, or --all", Exit.USAGE)
    return _matching(app, args)


def _named(app: Onward, given: Sequence[str]) -> Chosen:
    chosen = Chosen([], [], {})
    for each in dict.fromkeys(given):
        try:
            record = find_dead(app, each)
        except JobNotFound:
            chosen.skipped[each] = "no such job"
            continue
        if record.state is State.DISCARDED:
            chosen.add(record)
        else:
            chosen.skipped[record.id] = f"not dead: {record.state}"
    return chosen


def _matching(app: Onward, args: Namespace) -> Chosen:
    """Return the dead jobs of a filter, ids first: jobs that die meanwhile must not be removed unseen."""

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.dead_letters.list(args.queue, job=args.job, limit=limit, after=after)

    before: datetime | None = getattr(args, "older_than", None)
    chosen = Chosen([], [], {})
    with output.progress(args, "looking", None) as advance:
        for records in jobs.pages(page, limit=args.limit if before is None else None):
            for record in records:
                if before is None or (record.finished_at or record.enqueued_at) < before:
                    chosen.add(record)
            advance(len(records))
            if args.limit is not None and len(chosen.ids) >= args.limit:
                break
    return Chosen(chosen.ids[: args.limit], chosen.queues[: args.limit], {})


def _batches(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH)]


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
    argument("--limit", "at most this many, the oldest first", metavar="N", type=values.count),
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
                argument("--limit", "at most this many (50)", metavar="N", type=values.count, default=50),
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
            "put dead jobs back in their queue, with all their attempts again",
            on_store(replay),
            (
                *_WHICH,
                argument("--fresh", "without their notes: steps that were done are done again", action="store_true"),
                *ACTING,
            ),
        ),
        Command(
            "purge",
            "remove dead jobs for good",
            on_store(purge),
            (*_WHICH, removing.OLDER_THAN, *removing.ASKING, *ACTING),
            about="On a terminal the number of jobs has to be typed first; elsewhere --yes is needed.",
        ),
    ),
)
