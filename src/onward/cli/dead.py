"""``onward dead``: listing, replaying and removing dead jobs."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.base.wording import counted
from onward.cli import bulk, finding, groups, jobs, output, removing, timeline, triage, values
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find_dead
from onward.cli.table import Column
from onward.cli.times import ago
from onward.errors import JobNotFound
from onward.job.states import State
from onward.operate.death_watch import last_error

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord

__all__ = ["GROUP"]

_BATCH = 500
_TOLD = 20


def list_dead(app: Onward, args: Namespace) -> int:
    """Print a page, or with ``--all`` every page."""
    if args.filter or args.group or args.since:
        return finding.list_found(app, args, _filter(args), _COLUMNS)

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.dead_letters.list(args.queue, job=args.job, limit=limit, after=after)

    return jobs.list_pages(args, page, _COLUMNS)


def show(app: Onward, args: Namespace) -> int:
    """Print everything known about one dead job, or what those of a group have in common."""
    if bool(args.id) == bool(args.group):
        raise CommandError("say which: an id, or --group", Exit.USAGE)
    if args.group:
        return groups.show_group(app, args)
    record = find_dead(app, args.id)
    if record.state is not State.DISCARDED:
        raise JobNotFound(f"job {record.id} is {record.state}, not dead: see `onward job show {record.id}`")
    timeline.show(args, record, jobs.notes_of(app, record), jobs.entries_of(app, record))
    return Exit.OK


def replay(app: Onward, args: Namespace) -> int:
    """Put dead jobs back in their queue, with all their attempts again."""
    if not _names_ids(args):
        return bulk.run(app, args, _filter(args), _REPLAY, fresh=args.fresh)
    chosen = _named(app, args.ids)
    if args.dry_run:
        return _would(args, chosen, _REPLAY)
    replayed, skipped = 0, dict(chosen.skipped)
    for batch in _batches(chosen.ids):
        answer = app.dead_letters.replay(batch, fresh=args.fresh, **acting(args))
        replayed, skipped = replayed + answer, skipped | answer.skipped
    _report(args, "replayed", replayed, skipped)
    return _verdict(replayed, skipped)


def purge(app: Onward, args: Namespace) -> int:
    """Remove dead jobs for good."""
    if not _names_ids(args):
        return bulk.run(app, args, _filter(args), _PURGE)
    chosen = _named(app, args.ids)
    if args.dry_run:
        return _would(args, chosen, _PURGE)
    removing.confirm(args, len(chosen.ids), "dead")
    purged = sum(app.dead_letters.purge(batch, **acting(args)) for batch in _batches(chosen.ids))
    _report(args, "purged", purged, chosen.skipped)
    return _verdict(purged, chosen.skipped)


def canary(app: Onward, args: Namespace) -> int:
    """Replay dead jobs step by step, and stop at the first that fails again."""
    if not args.all and not any([args.queue, args.job, args.filter, args.group, args.since]):
        raise CommandError("say which: --group, --queue, --job, --since, --filter, or --all", Exit.USAGE)
    return triage.canary(app, args, _filter(args))


class Chosen(NamedTuple):
    """The chosen dead jobs, and why others that were named are skipped."""

    ids: list[str]
    queues: list[tuple[str, State]]  # of each, with its state
    skipped: dict[str, str]

    def add(self, record: JobRecord) -> None:
        self.ids.append(record.id)
        self.queues.append((record.queue, record.state))


def _names_ids(args: Namespace) -> bool:
    """Return whether jobs are named by id, and not chosen.  Raises if they are neither, or both."""
    said = [args.queue, args.job, args.limit, args.filter, args.group, args.since, getattr(args, "older_than", None)]
    if args.ids and (args.all or any(said)):
        raise CommandError("give ids, or filters, not both", Exit.USAGE)
    if not args.ids and not args.all and not any(said):
        purging = "--older-than, " if hasattr(args, "older_than") else ""
        raise CommandError(
            f"say which: ids, --queue, --job, --group, --since, {purging}--filter, --limit, or --all", Exit.USAGE
        )
    return bool(args.ids)


def _filter(args: Namespace) -> str:
    """Return the filter that the options of a command say: of dead jobs only."""
    from onward.operate.filters import parse

    if args.filter and (parse(args.filter, 0).states or {State.DISCARDED}) != {State.DISCARDED}:
        raise CommandError(
            "--filter names other states, and this is for dead jobs: see `onward job --help`", Exit.USAGE
        )
    ages = {"ended_since": args.since, "ended_until": getattr(args, "older_than", None)}
    instants = {word: None if when is None else when.isoformat() for word, when in ages.items()}
    return bulk.filter_text(args, state="dead", queue=args.queue, job=args.job, group=args.group, **instants)


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


def _would(args: Namespace, chosen: Chosen, wording: bulk.Wording) -> int:
    removing.tell_what_would_go(args, Counter(chosen.queues), "dead", (wording.infinitive, wording.past))
    return _verdict(len(chosen.ids), chosen.skipped)


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

_REPLAY = bulk.Wording("replay", "replay", "replayed", "replaying", "dead job")
_PURGE = bulk.Wording("purge", "remove", "removed", "purging", "dead job", report="purged")

_FILTERS = (
    argument("--queue", "only of this queue", metavar="NAME"),
    argument("--job", "only with this job name", metavar="NAME"),
    argument("--group", "only of this group, as `onward dead groups` names it", metavar="GROUP"),
    argument("--since", "only that died since then: 2h, 2030-01-31T12:00Z", metavar="AGE", type=values.moment),
    bulk.FILTER,
)
_WHICH = (
    argument("ids", "an id, or 8 or more of its first characters", metavar="ID", nargs="*"),
    *_FILTERS,
    argument("--limit", "at most this many, the oldest first", metavar="N", type=values.count),
    argument("--all", "all of them", action="store_true"),
)

GROUP = Group(
    "dead",
    "look at jobs that were given up, replay, edit or purge them",
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
            "groups",
            "list dead jobs in groups that died in the same way, the largest first",
            on_store(groups.list_groups),
            (
                argument("--queue", "only of this queue", metavar="NAME"),
                argument("--job", "only with this job name", metavar="NAME"),
                argument(
                    "--since", "only that died since then: 2h, 2030-01-31T12:00Z", metavar="AGE", type=values.moment
                ),
            ),
            about="A group is a job's name and a fingerprint of its last failure, without messages and line numbers. With "
            "--queue or --since the newest 2,000 of each group are looked at. The exit code is 6 if there is none.",
        ),
        Command(
            "show",
            "show one dead job: its payload, its runs with their errors; or what a group died of",
            on_store(show),
            (
                argument("id", "an id, or 8 or more of its first characters", metavar="ID", nargs="?"),
                argument("--group", "a group, as `onward dead groups` names it", metavar="GROUP"),
                argument("--job", "of this job, if several have a group of that name", metavar="NAME"),
            ),
            about="Of a group: the newest traceback, on which hosts and in which builds they died, and three samples.",
        ),
        Command(
            "replay",
            "put dead jobs back in their queue, with all their attempts again",
            on_store(replay),
            (
                *_WHICH,
                bulk.DRY_RUN,
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
        Command(
            "canary",
            "replay dead jobs step by step: one, ten, the rest; stop at the first that fails again",
            on_store(canary),
            (*_FILTERS, argument("--all", "all of them", action="store_true"), *triage.CANARY),
            about="The next step begins when the jobs of the last have ended. A job that waits for a hold, a limit or a "
            "paused queue has not failed: the command says what holds it, and waits. What was not replayed stays dead, also "
            "if the command is killed. The exit code is 1 if it stopped, and 6 if there is none to replay.",
        ),
        Command(
            "edit",
            "enqueue a dead job with other arguments; the old one stays dead",
            on_store(triage.edit),
            triage.EDIT,
            about="Only arguments can be changed. They are compared with the job's signature if --app names the application "
            "that defines it. The new job is signed like any other; to repeat the command makes no second one.",
        ),
    ),
)
