"""``onward schedule import celery``: the entries of a `beat_schedule` as schedules, looked at or made."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from onward.base.wording import counted
from onward.cli import output
from onward.cli.acting import ACTING, acting
from onward.cli.application import given, load, load_value
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.table import Column
from onward.cli.times import ago, stamp
from onward.errors import OptionError

if TYPE_CHECKING:
    from onward.compat.celery.importing import ImportedSchedule

__all__ = ["IMPORT"]


def import_schedules(args: Namespace) -> int:
    """Print what the entries become; with ``--app``, make them schedules of that application."""
    from onward.compat.celery.importing import read

    try:
        found = read(load_value(args.name))
    except OptionError as error:
        raise CommandError(f"{args.name}: {error}", Exit.CONFIG) from error
    if args.app is not None:
        found = _made(args, found)
    if args.code:
        for each in found:
            output.write(f"# {each.name}: {each.problem}" if each.problem else f"{each.code}  # {each.job}")
    else:
        output.listing(args, [found], _COLUMNS, _as_data)
    problems = sum(each.problem is not None for each in found)
    _conclude(args, len(found), problems)
    return Exit.FAILURE if problems else Exit.OK


def _made(args: Namespace, found: list[ImportedSchedule]) -> list[ImportedSchedule]:
    from onward.compat.celery.importing import create

    with load(args.app, given(args)) as app:
        return [replace(each, problem=create(app, each, dry_run=args.dry_run, **acting(args))) for each in found]


def _conclude(args: Namespace, number: int, problems: int) -> None:
    if not number:
        output.say(args, "its beat_schedule has no entries")
    elif args.app is None:
        output.say(args, "nothing was made: --app names the application whose jobs they run")
    else:
        done = "would be made; nothing was" if args.dry_run else "made"
        output.say(args, f"{counted(number - problems, 'schedule')} {done}")


def _next_of(each: ImportedSchedule) -> str:
    from onward.base.clock import SystemClock, from_micros
    from onward.flow.cron import ticks_of

    if each.cron is None:
        return ""
    ticks = islice(ticks_of(each.cron, each.tz).after(SystemClock().micros()), 1)
    return next((f"{stamp(tick)} ({ago(tick)})" for tick in map(from_micros, ticks)), "")


def _arguments(each: ImportedSchedule) -> str:
    named = [f"{name}={value!r}" for name, value in each.kwargs.items()]
    return ", ".join([*map(repr, each.args), *named])


def _as_data(each: ImportedSchedule) -> dict[str, Any]:
    return asdict(each)


_COLUMNS: tuple[Column[ImportedSchedule], ...] = (
    Column("SCHEDULE", lambda each: each.name, flexible=True),
    Column("CRON", lambda each: each.cron or ""),
    Column("TZ", lambda each: each.tz, useful=True),
    Column("JOB", lambda each: each.job or "", flexible=True),
    Column("ARGUMENTS", _arguments, flexible=True, useful=True),
    Column("NEXT", _next_of),
    Column("PROBLEM", lambda each: each.problem or "", style="red", flexible=True, useful=True),
)

IMPORT = Command(
    "import",
    "print the schedules of a Celery application, or make them of this one's jobs",
    import_schedules,
    (
        argument("system", "celery", metavar="SYSTEM", choices=["celery"]),
        argument("name", "its application, with conf.beat_schedule", metavar="MODULE:APP"),
        argument("--code", "print decorators for the jobs instead", action="store_true"),
        argument("--dry-run", "with --app, make nothing, and say what would be", action="store_true"),
        *ACTING,
    ),
    about="Entries become schedules of jobs with the names of their tasks, in the application that --app names. "
    "Without --app nothing is made. Stop Celery's beat first: a tick of both would run twice.",
)
