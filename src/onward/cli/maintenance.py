"""``onward reap`` and ``prune``: keeping a store in order."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import msgspec

from onward.base.wording import counted
from onward.cli import output, removing, values
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.table import Column
from onward.job.states import FINISHED

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Reaped

__all__ = ["COMMANDS"]


def reap(app: Onward, args: Namespace) -> int:
    """Give back the jobs of workers that died."""
    reaped = app.reap(args.queue)
    output.listing(args, [reaped], _REAPED, msgspec.structs.asdict)
    if not reaped:
        of_queue = "" if args.queue is None else f" of queue {args.queue}"
        output.say(args, f"nothing to give back: every running job{of_queue} belongs to a live worker")
    return Exit.OK


def prune(app: Onward, args: Namespace) -> int:
    """Remove finished jobs that are past their retention, or of an age."""
    which = {"older_than": args.older_than, "queue": args.queue, "state": args.state}
    # Every worker removes jobs past their retention; only a removal by age needs a confirmation.
    if args.dry_run or (args.older_than is not None and not args.yes):
        with output.working(args, "counting"):
            doomed = app.prune(**which, dry_run=True)
        if args.dry_run:
            removing.tell_what_would_go(args, doomed.by_queue, "finished")
            return Exit.OK
        removing.confirm(args, doomed, "finished")
    with output.working(args, "pruning"):
        removed = app.prune(**which)
    if args.json:
        output.json_line({"removed": int(removed)})
    else:
        output.write(f"pruned {counted(removed, 'finished job')}")
    return Exit.OK


_REAPED: tuple[Column[Reaped], ...] = (
    Column("ID", lambda each: each.id),
    Column("WENT TO", lambda each: each.to, style=lambda each: output.style_of(each.to)),
    Column("JOB", lambda each: each.job, flexible=True),
    Column("QUEUE", lambda each: each.queue, flexible=True),
    Column("CRASHES", lambda each: str(each.crashes), right=True),
    Column("CAUSE", lambda each: each.cause, flexible=True, useful=True),
)

_SETTINGS_IN_CODE = "Settings in the application's code are known with --app only"

COMMANDS = (
    Command(
        "reap",
        "give back the jobs of workers that died, now",
        on_store(reap),
        (argument("queue", "only of this queue", metavar="QUEUE", nargs="?"),),
        about=f"{_SETTINGS_IN_CODE}: with a dead_letter_queue set there, give --app, or crashes leave no letter on it.",
    ),
    Command(
        "prune",
        "remove finished jobs that are past their retention, or of an age",
        on_store(prune),
        (
            argument(
                "--older-than",
                "instead: completed jobs that ended this long ago, or before then: 7d, 2030-01-31T12:00Z",
                metavar="AGE",
                type=values.moment,
            ),
            argument("--queue", "only of this queue", metavar="NAME"),
            argument(
                "--state",
                "only in this state: completed, discarded or cancelled; may be given again",
                choices=tuple(sorted(FINISHED)),
                metavar="STATE",
                action="append",
                type=values.state,
            ),
            *removing.ASKING,
        ),
        about=f"{_SETTINGS_IN_CODE}: with a retention set there, give --app. With --older-than, on a terminal the number of "
        "jobs has to be typed first; elsewhere --yes is needed.",
    ),
)
