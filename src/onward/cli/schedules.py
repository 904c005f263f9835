"""``onward schedule``: looking at schedules, pausing, resuming, running and deleting them; and explaining expressions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli import output, values
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.schedule_import import IMPORT
from onward.cli.table import Column
from onward.cli.times import ago, stamp

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.schedules import Schedule

__all__ = ["GROUP"]


def list_schedules(app: Onward, args: Namespace) -> int:
    """Print every schedule, with its next tick."""
    schedules = app.schedules.list()
    output.listing(args, [schedules], _COLUMNS, _as_data)
    if not schedules:
        output.say(args, "no schedules: @jobs.schedule(…) declares one, jobs.schedules.create(…) makes one")
    return Exit.OK


def show(app: Onward, args: Namespace) -> int:
    """Print one schedule, with its next ticks and the jobs of the last."""
    schedule = app.schedules.get(args.name)
    upcoming, last = schedule.next(3), schedule.last(3)
    if args.json:
        jobs = [{"id": job.id, "state": job.state.value, "due": job.available_at} for job in last]
        output.json_line({**_as_data(schedule), "next": upcoming, "last": jobs})
        return Exit.OK
    for label, text in _lines(schedule):
        output.write([(f"{label:<11}", "dim"), (text, "")])
    for tick in upcoming:
        output.write([(f"{'next':<11}", "dim"), (_local(tick, schedule.tz or "UTC"), "")])
    for job in last:
        output.write([(f"{'last':<11}", "dim"), (f"{stamp(job.available_at)}  {job.state}  {job.id}", "")])
    return Exit.OK if schedule.problem is None else Exit.FAILURE


def next_ticks(app: Onward, args: Namespace) -> int:
    """Print the next ticks of a schedule."""
    schedule = app.schedules.get(args.name)
    if schedule.problem is not None:
        raise CommandError(f"schedule {args.name!r} is not booked: {schedule.problem}", Exit.FAILURE)
    _print_ticks(args, schedule.next(args.number), schedule.tz or "UTC")
    if schedule.paused:
        output.say(args, f"note: it is paused; `onward schedule resume {args.name}` lets it run")
    return Exit.OK


def explain(args: Namespace) -> int:
    """Print the next ticks of an expression, without any store."""
    from onward.base.clock import SystemClock, from_micros
    from onward.flow.cron import MOST_TICKS, ticks_of

    if args.number > MOST_TICKS:
        raise CommandError(f"ask for at most {MOST_TICKS:,} ticks, not {args.number:,}", Exit.USAGE)
    found = islice(ticks_of(args.expression, args.tz).after(SystemClock().micros()), args.number)
    _print_ticks(args, [from_micros(tick) for tick in found], args.tz)
    return Exit.OK


def pause(app: Onward, args: Namespace) -> int:
    """Stop booking schedules."""
    return _each(args, partial(app.schedules.pause, **acting(args)), ("paused", "was already paused"))


def resume(app: Onward, args: Namespace) -> int:
    """Book schedules again."""
    return _each(args, partial(app.schedules.resume, **acting(args)), ("resumed", "was not paused"))


def delete(app: Onward, args: Namespace) -> int:
    """Delete schedules that were made at run time."""

    def gone(name: str) -> bool:
        app.schedules.delete(name, **acting(args))
        return True

    return _each(args, gone, ("deleted", ""))


def run(app: Onward, args: Namespace) -> int:
    """Enqueue the job of a schedule, now."""
    handle = app.schedules.run_now(args.name, **acting(args))
    if args.json:
        output.json_line({"schedule": args.name, "id": handle.id})
    else:
        output.write(handle.id)
    return Exit.OK


def _each(args: Namespace, change: Callable[[str], bool], words: tuple[str, str]) -> int:
    for name in args.names:
        changed = change(name)
        if args.json:
            output.json_line({"schedule": name, "changed": changed})
        else:
            output.write(f"{name} {words[0] if changed else words[1]}")
    return Exit.OK


class Tick(NamedTuple):
    instant: datetime
    zone: str


def _print_ticks(args: Namespace, ticks: Iterable[datetime], zone: str) -> None:
    output.listing(args, [[Tick(tick, zone) for tick in ticks]], _TICKS, _tick_data)


def _there(tick: Tick) -> datetime:
    from onward.flow.zones import zone_named

    return tick.instant.astimezone(zone_named(tick.zone))


def _local(instant: datetime, zone: str) -> str:
    return f"{_there(Tick(instant, zone)):%Y-%m-%d %H:%M:%S %z} ({ago(instant)})"


def _tick_data(tick: Tick) -> dict[str, Any]:
    there = _there(tick)
    return {"tick": tick.instant.astimezone(UTC), "local": there.isoformat(), "offset": f"{there:%z}", "tz": tick.zone}


def _state(schedule: Schedule) -> str:
    if schedule.problem is not None:
        return "rejected"
    return "paused" if schedule.paused else ""


def _next_of(schedule: Schedule) -> str:
    if schedule.paused:
        return ""
    return next((f"{stamp(tick)} ({ago(tick)})" for tick in schedule.next(1)), "")


def _job_of(schedule: Schedule) -> str:
    return schedule.job or "" if schedule.flow is None else f"flow {schedule.flow}"


def _lines(schedule: Schedule) -> list[tuple[str, str]]:
    told = [("schedule", schedule.name), ("origin", schedule.origin)]
    if schedule.problem is not None:
        return [*told, ("problem", schedule.problem)]
    arguments = ", ".join(f"{name}={value!r}" for name, value in (schedule.arguments or {}).items())
    told += [
        ("cron", f"{schedule.cron} ({schedule.tz})"),
        ("job", f"{_job_of(schedule)}({arguments}) on queue {schedule.queue}"),
        ("catch up", str(schedule.catch_up)),
        ("overlap", str(schedule.overlap)),
    ]
    if schedule.spread:
        told.append(("spread", "by name" if schedule.spread is True else f"{schedule.spread:g} s"))
    if schedule.paused_at is not None:
        told.append(("paused", stamp(schedule.paused_at)))
    return [*told, ("missed", str(schedule.missed))]


def _as_data(schedule: Schedule) -> dict[str, Any]:
    upcoming = [] if schedule.paused else schedule.next(1)
    return {name: getattr(schedule, name) for name in _SHOWN} | {"next": upcoming[0] if upcoming else None}


_SHOWN = (
    *("name", "origin", "cron", "tz", "job", "flow", "queue", "arguments", "catch_up", "overlap", "spread"),
    *("paused", "paused_at", "missed", "problem"),
)
_COLUMNS: tuple[Column[Schedule], ...] = (
    Column("SCHEDULE", lambda schedule: schedule.name, flexible=True),
    Column("STATE", _state, style="bold yellow"),
    Column("CRON", lambda schedule: schedule.cron or ""),
    Column("TZ", lambda schedule: schedule.tz or "", useful=True),
    Column("JOB", _job_of, flexible=True),
    Column("NEXT", _next_of),
    Column("MISSED", lambda schedule: str(schedule.missed), right=True, useful=True),
    Column("ORIGIN", lambda schedule: schedule.origin, useful=True),
)

_TICKS: tuple[Column[Tick], ...] = (
    Column("LOCAL", lambda tick: f"{_there(tick):%a %Y-%m-%d %H:%M:%S}"),
    Column("OFFSET", lambda tick: f"{_there(tick):%z}"),
    Column("UTC", lambda tick: stamp(tick.instant)),
    Column("IN", lambda tick: ago(tick.instant)),
)


def _number(default: int) -> Any:
    return argument("-n", f"how many ticks ({default})", metavar="N", dest="number", type=values.count, default=default)


_NAME = argument("name", "a schedule", metavar="NAME")
_NAMES = argument("names", "a schedule", metavar="NAME", nargs="+")

GROUP = Group(
    "schedule",
    "look at schedules, pause, resume, run and delete them; explain cron expressions",
    (
        Command("list", "list schedules, with their next ticks", on_store(list_schedules)),
        Command("show", "show one schedule, its next ticks and its last jobs", on_store(show), (_NAME,)),
        Command("next", "print the next ticks of a schedule", on_store(next_ticks), (_NAME, _number(5))),
        Command(
            "pause",
            "book nothing more for schedules, everywhere and across deployments",
            on_store(pause),
            (_NAMES, *ACTING),
            about="What is booked and has not begun is taken back; what runs goes on.",
        ),
        Command("resume", "book schedules again, from now on", on_store(resume), (_NAMES, *ACTING)),
        Command("run", "enqueue the job of a schedule now, and print its id", on_store(run), (_NAME, *ACTING)),
        Command(
            "delete",
            "delete schedules that were made at run time",
            on_store(delete),
            (_NAMES, *ACTING),
            about="A schedule that the code declares is deleted there; `onward schedule pause` stops it.",
        ),
        Command(
            "explain",
            "print the next ticks of a cron expression, without any store",
            explain,
            (
                argument("expression", "such as '0 9 * * mon-fri' or '@every 30s'", metavar="CRON"),
                argument("--tz", "the time zone (UTC)", metavar="ZONE", default="UTC"),
                _number(20),
            ),
        ),
        IMPORT,
    ),
)
