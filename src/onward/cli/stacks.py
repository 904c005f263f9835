"""``onward job stack``: the Python stack of a running job, from the process that runs it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from onward.cli import output
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find
from onward.cli.table import StyledLine
from onward.cli.times import ago
from onward.job.states import State

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord
    from onward.worker.diagnostics.stacks import Stack

__all__ = ["ask", "lines", "show"]


def show(app: Onward, args: Namespace) -> int:
    """Print the stack of one running job."""
    record = find(app, args.id)
    stack = ask(app, record)
    if args.json:
        frames = [msgspec.structs.asdict(frame) for frame in stack.frames]
        output.json_line({"id": record.id, "pid": stack.pid, "where": stack.where, "frames": frames})
    else:
        for line in lines(record, stack):
            output.write(line)
    return Exit.OK


def ask(app: Onward, record: JobRecord) -> Stack:
    """Ask the process that holds the job.  Raises a `CommandError` that names the fix."""
    from onward.worker.diagnostics.asking import StackUnavailable, stack_of_job

    try:
        return stack_of_job(record, app.sessions() if record.state is State.EXECUTING else ())
    except StackUnavailable as error:
        raise CommandError(str(error), Exit.FAILURE if error.runs else Exit.NOTHING) from None


def lines(record: JobRecord, stack: Stack) -> Iterator[StyledLine]:
    """Yield the frames, the innermost last; the function comes first in a line, since a screen may cut the path off."""
    since = "" if record.started_at is None else f", began {ago(record.started_at)}"
    yield [(record.name, "bold"), (f"  run {record.attempts + 1}{since}", "")]
    yield [(f"process {stack.pid}, {stack.where}", "dim")]
    yield []
    for frame in stack.frames:
        yield [(f"  {frame.function}", "cyan"), (f"  {frame.file}:{frame.line}", "dim")]
        if frame.code:
            yield [(f"    {frame.code}", "bold" if frame is stack.frames[-1] else "")]
    if not stack.frames:
        yield [("  its handler has not been called yet, or has just returned", "dim")]
