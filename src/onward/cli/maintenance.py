"""``onward reap``, ``prune`` and ``health``: keeping a store in order."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import msgspec

from onward.cli import output, values
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.table import Column
from onward.wording import counted

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Check, Reaped

__all__ = ["COMMANDS"]


def reap(app: Onward, args: Namespace) -> int:
    """Give back the jobs of workers that died."""
    reaped = app.reap()
    output.listing(args, [reaped], _REAPED, msgspec.structs.asdict)
    if not reaped:
        output.say(args, "nothing to give back: every running job belongs to a live worker")
    return Exit.OK


def prune(app: Onward, args: Namespace) -> int:
    """Remove finished jobs that are past their retention."""
    with output.working(args, "pruning"):
        removed = app.prune(completed_before=args.completed_before)
    if args.json:
        output.json_line({"removed": removed})
    else:
        output.write(f"pruned {counted(removed, 'finished job')}")
    return Exit.OK


def health(app: Onward, args: Namespace) -> int:
    """How the store is."""
    checks = app.health()
    output.listing(args, [checks], _CHECKS, msgspec.structs.asdict)
    return Exit.FAILURE if any(check.status == "fail" for check in checks) else Exit.OK


_REAPED: tuple[Column[Reaped], ...] = (
    Column("ID", lambda each: each.id),
    Column("WENT TO", lambda each: each.to, style=lambda each: output.STATE_STYLES[each.to]),
    Column("JOB", lambda each: each.job, flexible=True),
    Column("QUEUE", lambda each: each.queue, flexible=True),
    Column("CRASHES", lambda each: str(each.crashes), right=True),
    Column("CAUSE", lambda each: each.cause, flexible=True, useful=True),
)

_STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}

_CHECKS: tuple[Column[Check], ...] = (
    Column("CHECK", lambda check: check.name),
    Column("STATUS", lambda check: check.status, style=lambda check: _STATUS_STYLES[check.status]),
    Column("DETAIL", lambda check: check.detail),
)

_SETTINGS_IN_CODE = "What the application sets in its code is known with --app only"

COMMANDS = (
    Command(
        "reap",
        "give back the jobs of workers that died, now",
        on_store(reap),
        about=f"{_SETTINGS_IN_CODE}: with a dead_letter_queue set there, give --app, or crashes leave no letter on it.",
    ),
    Command(
        "prune",
        "remove finished jobs that are past their retention",
        on_store(prune),
        (
            argument(
                "--completed-before",
                "instead: completed jobs that ended before then, or that long ago: 2030-01-31T12:00Z, 7d",
                metavar="WHEN",
                type=values.moment,
            ),
        ),
        about=f"{_SETTINGS_IN_CODE}: with a retention set there, give --app.",
    ),
    Command(
        "health",
        "check the health of the store; exit code 1 if a check fails",
        on_store(health),
    ),
)
