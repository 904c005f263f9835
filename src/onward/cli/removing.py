"""What commands that remove jobs share: asking first, and saying what would be removed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence

from onward.base.wording import counted
from onward.cli import output, values
from onward.cli.command import Argument, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.table import Column
from onward.job.states import State

__all__ = ["ASKING", "OLDER_THAN", "confirm", "tell_by_queue", "tell_what_would_go"]

_TOLD = 20  # lines of a dry run

Counts = Mapping[tuple[str, State], int]  # by queue and state


def confirm(args: Namespace, number: int, kind: str) -> None:
    """Ask before jobs are removed for good: the number has to be typed, unless ``--yes`` is given."""
    if args.yes or not number:
        return
    what = counted(number, f"{kind} job".strip())
    if not sys.stdin.isatty():
        raise CommandError(f"this removes {what} for good: add --yes if that is meant", Exit.USAGE)
    sys.stderr.write(f"This removes {what} for good.  Type {number} to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != str(number):
        raise CommandError("nothing was removed", Exit.FAILURE)


def tell_what_would_go(
    args: Namespace, counts: Counts, kind: str, act: tuple[str, str] = ("remove", "removed")
) -> None:
    """Print a line for each queue and state, the largest first; on a terminal at most twenty."""
    total, (would, done) = sum(counts.values()), act
    largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    if args.json:
        found = [{"queue": queue, "state": state, "jobs": number} for (queue, state), number in largest]
        output.json_line({done: 0, f"would_{would}": total, "by_queue": found})
        return
    tell_by_queue(args, largest)
    output.write(f"would {would} {counted(total, f'{kind} job')}; nothing was {done}")


def tell_by_queue(args: Namespace, largest: Sequence[tuple[tuple[str, State], int]]) -> None:
    """Print a line for each queue and state, at most twenty."""
    output.listing(args, [largest[:_TOLD]] if largest else [], _COLUMNS, lambda each: each)
    if len(largest) > _TOLD:
        output.say(args, f"and {len(largest) - _TOLD:,} more: --json names them all")


_COLUMNS: tuple[Column[tuple[tuple[str, State], int]], ...] = (
    Column("QUEUE", lambda each: each[0][0], flexible=True),
    Column("STATE", lambda each: each[0][1], style=lambda each: output.style_of(each[0][1])),
    Column("JOBS", lambda each: f"{each[1]:,}", right=True),
)

OLDER_THAN = argument(
    "--older-than",
    "only those that ended this long ago, or before then: 7d, 2030-01-31T12:00Z",
    metavar="AGE",
    type=values.moment,
)
ASKING: tuple[Argument, ...] = (
    argument("--dry-run", "remove nothing, and say what would go", action="store_true"),
    argument("--yes", "do not ask", action="store_true"),
)
