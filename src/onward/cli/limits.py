"""``onward limit``: looking at limits, setting and clearing them, shutting and opening jobs."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from onward.cli import output, values
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_new_store, on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.table import Column
from onward.cli.times import ago, stamp

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.flow.limits import Bounds
    from onward.operate.limits import LimitRecord

__all__ = ["COLUMNS", "GROUP", "as_data", "in_short"]


def list_limits(app: Onward, args: Namespace) -> int:
    """Print every limit, with what is used of it now."""
    limits = app.limits.list()
    output.listing(args, [limits], COLUMNS, as_data)
    if not limits:
        output.say(
            args,
            "no limits: @jobs.job(limit=Limit(running=5)) declares one when a worker starts, `onward limit set` sets one",
        )
    return Exit.OK


def set_limit(app: Onward, args: Namespace) -> int:
    """Set a limit, which beats the code."""
    if args.running is None and args.rate is None:
        raise CommandError(
            "say --running N, how many at once, or --rate 100/min, how many starts in a while", Exit.USAGE
        )
    _check_place(args)
    app.limits.set(
        args.job,
        queue=args.queue,
        each_key=args.each_key,
        running=args.running,
        rate=args.rate,
        burst=args.burst,
        **acting(args),
    )
    return _tell(app, args)


def clear(app: Onward, args: Namespace) -> int:
    """Let the code decide again."""
    _check_place(args)
    app.limits.clear(args.job, queue=args.queue, each_key=args.each_key, **acting(args))
    return _tell(app, args)


def forget(app: Onward, args: Namespace) -> int:
    """Drop a limit that left the code."""
    _check_place(args)
    app.limits.forget(args.job, queue=args.queue, each_key=args.each_key, **acting(args))
    return _tell(app, args)


def shut(app: Onward, args: Namespace) -> int:
    """Start no job of these names any more."""
    app.limits.shut(*args.jobs, **acting(args))
    for job in args.jobs:
        _tell_gate(args, job, "is shut: nothing of it starts until `onward limit open`", is_shut=True)
    return Exit.OK


def open_again(app: Onward, args: Namespace) -> int:
    """Start jobs of these names again."""
    app.limits.open(*args.jobs, **acting(args))
    for job in args.jobs:
        _tell_gate(args, job, "is open", is_shut=False)
    return Exit.OK


def _check_place(args: Namespace) -> None:
    if (args.job is None) == (args.queue is None):
        raise CommandError("name a job, or a queue with --queue NAME", Exit.USAGE)
    if args.each_key and args.queue is not None:
        raise CommandError("--each-key is for jobs: a queue's limit counts all of its jobs together", Exit.USAGE)


def _tell(app: Onward, args: Namespace) -> int:
    """Print the limit as it counts now."""
    kind = "queue" if args.queue is not None else "key" if args.each_key else "job"
    name = args.job if args.queue is None else args.queue
    found = next((each for each in app.limits.list() if (each.kind, each.name) == (kind, name)), None)
    if args.json:
        output.json_line({"kind": kind, "name": name} if found is None else as_data(found))
    elif found is None or not (found.running or found.rate):
        output.write(f"{_named(kind, name)}: no limit")
    else:
        output.write(f"{_named(kind, name)}: {_bounds(found.running, found.rate)} ({_origin(found)})")
    return Exit.OK


def _tell_gate(args: Namespace, job: str, text: str, *, is_shut: bool) -> None:
    if args.json:
        output.json_line({"job": job, "is_shut": is_shut})
    else:
        output.write(f"{job} {text}")


def in_short(limit: LimitRecord) -> str:
    """Return what a limit allows and what is used of it: ``2 of 5, 100/min, next token in 14 s``."""
    rate = "" if limit.rate is None else str(limit.rate)
    return ", ".join(filter(None, (_running(limit), rate, _waits(limit))))


def as_data(limit: LimitRecord) -> dict[str, Any]:
    """Return a limit for machines."""
    return {
        "kind": limit.kind,
        "name": limit.name,
        "running": limit.running,
        "rate": None if limit.rate is None else str(limit.rate),
        "running_now": limit.running_now,
        "tokens": limit.tokens,
        "next_token_at": limit.next_token_at,
        "is_shut": limit.is_shut,
        "shut_until": limit.shut_until,
        "declared": _bounds_data(limit.declared),
        "set": _bounds_data(limit.chosen),
    }


def _bounds_data(bounds: Bounds) -> dict[str, Any]:
    return {"running": bounds.running, "rate": None if bounds.rate is None else str(bounds.rate)}


def _named(kind: str, name: str) -> str:
    return {"queue": f"queue {name}", "key": f"each key of {name}"}.get(kind, name)


def _bounds(running: int | None, rate: object) -> str:
    return ", ".join(filter(None, ("" if running is None else f"{running} running", "" if rate is None else str(rate))))


def _running(limit: LimitRecord) -> str:
    if limit.running_now is None:
        return "" if limit.running is None else f"{limit.running} each"
    return str(limit.running_now) if limit.running is None else f"{limit.running_now} of {limit.running}"


def _tokens(limit: LimitRecord) -> str:
    return "" if limit.tokens is None or limit.rate is None else f"{limit.tokens} of {limit.rate.burst}"


def _waits(limit: LimitRecord) -> str:
    """Return why nothing starts now, if a clock or a person decides that."""
    if limit.is_shut:
        return "shut by hand" if limit.shut_until is None else f"shut until {stamp(limit.shut_until)}"
    return "" if limit.next_token_at is None else f"next token {ago(limit.next_token_at)}"


def _origin(limit: LimitRecord) -> str:
    if not limit.chosen:
        return "code" if limit.declared else ""
    code = _bounds(limit.declared.running, limit.declared.rate)
    return f"set; the code says {code}" if code else "set"


def _style(limit: LimitRecord) -> str:
    return "bold red" if limit.is_shut else "yellow"


def _running_style(limit: LimitRecord) -> str:
    full = limit.running is not None and limit.running_now is not None and limit.running_now >= limit.running
    return "yellow" if full else ""


COLUMNS: tuple[Column[LimitRecord], ...] = (
    Column("LIMIT", lambda limit: _named(limit.kind, limit.name), flexible=True),
    Column("RUNNING", _running, style=_running_style),
    Column("RATE", lambda limit: "" if limit.rate is None else str(limit.rate), flexible=True),
    Column("TOKENS", _tokens),
    Column("WAITS", _waits, style=_style, flexible=True),
    Column("ORIGIN", _origin, flexible=True, useful=True),
)

_JOB = argument("job", "a job", metavar="JOB", nargs="?")
_JOBS = argument("jobs", "a job", metavar="JOB", nargs="+")
_QUEUE = argument("--queue", "the limit of a queue, in place of a job's", metavar="NAME")
_EACH_KEY = argument("--each-key", "the limit that each key of the job has, as by=… says", action="store_true")

GROUP = Group(
    "limit",
    "look at limits, set and clear them, shut and open jobs",
    (
        Command("list", "list limits, with what is used of them now", on_store(list_limits)),
        Command(
            "set",
            "set a limit, everywhere and across deployments: it beats the code until it is cleared",
            on_new_store(set_limit),
            (
                _JOB,
                _QUEUE,
                _EACH_KEY,
                argument("--running", "how many may run at once", metavar="N", type=values.count),
                argument("--rate", "how many may start: 10/s, 100/min, 1000/h or 5/day", metavar="RATE"),
                argument("--burst", "how many of the rate may start at once", metavar="N", type=values.count),
                *ACTING,
            ),
            about="It counts at the next claim. What was set before is replaced; what is not said is as in the code. "
            "Lowering a limit stops nothing that runs.",
        ),
        Command(
            "clear",
            "forget what was set: the code decides again",
            on_store(clear),
            (_JOB, _QUEUE, _EACH_KEY, *ACTING),
        ),
        Command(
            "forget",
            "drop a limit that left the code, with what was set",
            on_store(forget),
            (_JOB, _QUEUE, _EACH_KEY, *ACTING),
            about="A limit stays as it was last declared when it leaves the code. A worker that still declares it does so "
            "again when it starts.",
        ),
        Command(
            "shut",
            "start nothing of a job any more, everywhere and across deployments; what runs goes on",
            on_store(shut),
            (_JOBS, *ACTING),
        ),
        Command(
            "open",
            "start a job again that was shut: by hand, by its breaker or by Throttle",
            on_store(open_again),
            (_JOBS, *ACTING),
        ),
    ),
)
