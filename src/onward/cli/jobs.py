"""``onward job``: looking at jobs and steering them, one by one."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from onward.base.wording import BY_REQUEST
from onward.cli import bulk, check_deploy, finding, output, removing, stacks, timeline, values
from onward.cli.acting import ACTING, acting, who_acts
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find
from onward.cli.table import Column
from onward.cli.times import ago
from onward.errors import JobNotFound, Unsupported
from onward.job.states import State
from onward.operate.refusals import why_not_cancelled, why_not_retried, why_not_signalled

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.auditing import AuditRecord
    from onward.client.record import JobRecord, NoteRecord

__all__ = ["GROUP", "entries_of", "list_pages", "notes_of", "pages"]

Page = Callable[[int, str | None], Sequence["JobRecord"]]  # how many, after which id

_PAGE = 500


def list_jobs(app: Onward, args: Namespace) -> int:
    """Print a page, or with ``--all`` every page."""
    if args.filter:
        states = ",".join(args.state) if args.state else None
        text = bulk.filter_text(args, state=states, queue=args.queue, job=args.job)
        return finding.list_found(app, args, text, _COLUMNS)

    def page(limit: int, after: str | None) -> Sequence[JobRecord]:
        return app.list(
            state=args.state, queue=args.queue, job=args.job, limit=limit, after=after, newest_first=args.newest
        )

    return list_pages(args, page, _COLUMNS)


def show(app: Onward, args: Namespace) -> int:
    """Print everything known about one job."""
    record = find(app, args.id)
    timeline.show(args, record, notes_of(app, record), entries_of(app, record))
    return Exit.OK


def notes_of(app: Onward, record: JobRecord) -> Sequence[NoteRecord]:
    """Return what a job has noted; nothing if its store keeps no notes."""
    try:
        return app.notes(record.id)
    except Unsupported:
        return ()


def entries_of(app: Onward, record: JobRecord) -> Sequence[AuditRecord]:
    """Return what people did to a job; nothing if its store keeps no audit trail."""
    return app.audit(job=record.id) if app.backend.capabilities.audit else ()


def signal(app: Onward, args: Namespace) -> int:
    """Tell a job what it waits for, or will."""
    record = find(app, args.id)
    told = app.signal(record.id, args.name, args.value, again=args.again, **acting(args))
    if args.json:
        output.json_line({"id": record.id, "signal": args.name, "told": told})
    elif told:
        output.write(f"{record.id}  was told {args.name}")
    else:
        output.fail(f"{record.id}: {why_not_signalled(record, '--again')}")
    return Exit.OK if told else Exit.NOTHING


def retry(app: Onward, args: Namespace) -> int:
    """Make waiting jobs due now, and replay discarded or cancelled ones."""
    if _by_filter(args):
        return bulk.run(app, args, args.filter, bulk.Wording("retry", "retry", "retried", "retrying"))

    def again(record: JobRecord) -> tuple[bool, str]:
        if app.retry(record.id, **acting(args)):
            return True, "due now"
        return False, why_not_retried(record)

    return _each(app, args, again)


def cancel(app: Onward, args: Namespace) -> int:
    """Cancel jobs that wait, and ask those that run to stop."""
    if _by_filter(args):
        wording = bulk.Wording("cancel", "cancel", "cancelled", "cancelling")
        return bulk.run(app, args, args.filter, wording)

    def stop(record: JobRecord) -> tuple[bool, str]:
        match app.cancel(record.id, args.reason or BY_REQUEST, by=who_acts(args)):
            case State.CANCELLED:
                return True, "cancelled"
            case State.EXECUTING:
                return True, "it is running, and was asked to stop"
            case _:
                return False, why_not_cancelled(record)

    return _each(app, args, stop)


def purge(app: Onward, args: Namespace) -> int:
    """Remove finished jobs for good."""
    if not args.filter:
        raise CommandError(
            "say which: --filter 'state:completed queue:mail', as `onward job purge --help` tells", Exit.USAGE
        )
    wording = bulk.Wording("purge", "remove", "removed", "purging", report="purged")
    return bulk.run(app, args, args.filter, wording)


def list_pages(args: Namespace, page: Page, columns: Sequence[Column[JobRecord]]) -> int:
    """Print as many pages as were asked for, and how to see the rest."""
    walk = pages(page, limit=None if args.all else args.limit, after=args.after)
    shown = output.listing(args, walk, columns, timeline.as_data)
    if shown.last is None:
        output.say(args, "no job matches")
    elif not args.all and shown.number == args.limit:
        output.say(args, f"there may be more: --after {shown.last.id}, or --all")
    return Exit.OK


def pages(page: Page, *, limit: int | None, after: str | None = None) -> Iterator[Sequence[JobRecord]]:
    """Yield small pages: a long list must neither fill the memory nor keep the store busy."""
    left = math.inf if limit is None else limit
    while left > 0:
        wanted = int(min(left, _PAGE))
        found = page(wanted, after)
        yield found
        if len(found) < wanted:
            return
        left, after = left - wanted, found[-1].id


def _each(app: Onward, args: Namespace, act: Callable[[JobRecord], tuple[bool, str]]) -> int:
    """Call a function for every named job, and print what came of each."""
    done = 0
    # All are looked up first: an ambiguous id stops the command before it has changed anything.
    named = {given: _found(app, given) for given in args.ids}
    for given, record in named.items():
        ok, told = (False, str(record)) if isinstance(record, JobNotFound) else act(record)
        job_id = given if isinstance(record, JobNotFound) else record.id
        done += ok
        if args.json:
            output.json_line({"id": job_id, "done": ok, "detail": told})
        elif ok:
            output.write(f"{job_id}  {told}")
        else:
            output.fail(f"{job_id}: {told}")
    return Exit.OK if done == len(named) else Exit.FAILURE if done else Exit.NOTHING


def _by_filter(args: Namespace) -> bool:
    """Return whether jobs are chosen by a filter.  Raises if they are neither chosen nor named, or both."""
    if bool(args.ids) == bool(args.filter):
        raise CommandError("say which: ids, or --filter, not both", Exit.USAGE)
    if args.dry_run and not args.filter:
        raise CommandError("--dry-run goes with --filter: named jobs are shown by `onward job show`", Exit.USAGE)
    return bool(args.filter)


def _found(app: Onward, given: str) -> JobRecord | JobNotFound:
    try:
        return find(app, given)
    except JobNotFound as error:
        return error


def _when(record: JobRecord) -> str:
    """Return the time that matters in this state."""
    if record.finished_at is not None:
        return ago(record.finished_at)
    if record.state is State.EXECUTING and record.started_at is not None:
        return ago(record.started_at)
    if record.due_at is None:
        return "waits"
    due = ago(record.due_at)
    return f"due {due}" if due.endswith("ago") else due


def _state(record: JobRecord) -> str:
    return record.state if record.damage is None else f"{record.state} (damaged)"


def _tries(record: JobRecord) -> str:
    return f"{record.attempts}/{'?' if record.max_retries is None else record.max_retries + 1}"


_COLUMNS: tuple[Column[JobRecord], ...] = (
    Column("ID", lambda record: record.id),
    Column("STATE", _state, style=lambda record: output.style_of(record.state)),
    Column("JOB", lambda record: record.name, flexible=True),
    Column("QUEUE", lambda record: record.queue, flexible=True),
    Column("WHEN", _when),
    Column("TRIES", _tries, right=True, useful=True),
    Column("PRIORITY", lambda record: str(record.priority), right=True, useful=True),
    Column("ENQUEUED", lambda record: ago(record.enqueued_at), useful=True),
)

_WHICH = (
    argument("ids", "an id, or 8 or more of its first characters", metavar="ID", nargs="*"),
    bulk.FILTER,
    bulk.DRY_RUN,
)

GROUP = Group(
    "job",
    "look at jobs and steer them",
    (
        Command(
            "list",
            "list jobs in the order they were enqueued",
            on_store(list_jobs),
            (
                argument(
                    "--state",
                    "only in this state; may be given again",
                    choices=tuple(State),
                    metavar="STATE",
                    action="append",
                    type=values.state,
                ),
                argument("--queue", "only of this queue", metavar="NAME"),
                argument("--job", "only with this job name", metavar="NAME"),
                argument("--limit", "at most this many (50)", metavar="N", type=values.count, default=50),
                argument("--after", "begin after this id, the last of the page before", metavar="ID"),
                argument("--newest", "the newest first", action="store_true"),
                bulk.FILTER,
                argument("--all", "every page", action="store_true"),
            ),
            about="With --filter the newest come first, and the command looks through 2,000 jobs at most; it says how to go "
            f"on. {bulk.FILTER_HELP}",
        ),
        Command(
            "show",
            "show one job: its payload, its runs with their errors, its result",
            on_store(show),
            (argument("id", "an id, or 8 or more of its first characters", metavar="ID"),),
        ),
        Command(
            "stack",
            "show the Python stack of a job that runs on this machine",
            on_store(stacks.show),
            (argument("id", "an id, or 8 or more of its first characters", metavar="ID"),),
            about="The command asks the worker process that runs the job, which answers only its own user. A job that holds "
            "the interpreter's lock keeps it from answering: then the error says what to do.",
        ),
        Command(
            "retry",
            "run waiting jobs now, and put discarded or cancelled ones back in their queue",
            on_store(retry),
            (*_WHICH, *ACTING),
            about="With --filter, all jobs that match and are scheduled or retryable, 500 at a time; if the filter names "
            "states, those. Ctrl-C stops after the batch.",
        ),
        Command(
            "signal",
            "tell a job what it waits for with ctx.wait_for, or will",
            on_store(signal),
            (
                argument("id", "an id, or 8 or more of its first characters", metavar="ID"),
                argument("name", "the name of the signal", metavar="NAME"),
                argument("value", "its value as JSON (null)", metavar="JSON", nargs="?", type=values.json_value),
                argument("--again", "replace the value that it was told before", action="store_true"),
                *ACTING,
            ),
            about="The first value stays. A job that has not begun keeps the signal; one that is over is told nothing.",
        ),
        Command(
            "cancel",
            "cancel jobs that wait, and ask those that run to stop",
            on_store(cancel),
            (*_WHICH, *ACTING),
            about="The reason is kept with the job, and in the audit trail.",
        ),
        Command(
            "purge",
            "remove finished jobs that match a filter for good",
            on_store(purge),
            (bulk.FILTER, *removing.ASKING, *ACTING),
            about="Dead jobs, unless the filter names states, as in 'state:completed,cancelled ended-until:7d'; jobs that "
            "are not over stay. On a terminal the number of jobs has to be typed first; elsewhere --yes is needed. Ctrl-C "
            f"stops after the batch. {bulk.FILTER_HELP}",
        ),
        check_deploy.SIGNATURES,
    ),
)
