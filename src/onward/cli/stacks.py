"""``onward job stack``: the Python stack of a running job, from the process that runs it."""

from __future__ import annotations

import platform
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
    from onward.client.record import JobRecord, SessionRecord
    from onward.worker.diagnostics.stacks import NoStack, Stack

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
    from onward.worker.diagnostics import stacks

    worker = _worker_of(app, record)
    try:
        return stacks.ask(worker.pid, record.id)
    except stacks.NoStack as silence:
        raise _told(silence, record) from None


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


def _worker_of(app: Onward, record: JobRecord) -> SessionRecord:
    if record.state is not State.EXECUTING:
        raise CommandError(f"job {record.id} is {record.state}: only a job that runs has a stack", Exit.NOTHING)
    worker = next((each for each in app.sessions() if each.owner == record.owner), None)
    if worker is None:
        raise CommandError(
            f"the worker that ran job {record.id} is gone: the job will be given back, `onward reap` does it now",
            Exit.FAILURE,
        )
    if worker.host != platform.node():
        raise CommandError(
            f"job {record.id} runs on {worker.host or 'another machine'}, in process {worker.pid}: ask there",
            Exit.FAILURE,
        )
    return worker


def _told(silence: NoStack, record: JobRecord) -> CommandError:
    from onward.worker.diagnostics.stacks import ANSWER_WITHIN, Silence

    pid = silence.pid
    match silence.silence:
        case Silence.NO_ANSWER:
            told = (
                f"process {pid} did not answer within {ANSWER_WITHIN:g} s: it is stopped, or a job in it holds the "
                f"interpreter's lock; `py-spy dump --pid {pid}` looks at it from outside"
            )
        case Silence.OTHER_USER:
            told = f"process {pid} belongs to another user, and answers only that one: ask as that user"
        case Silence.NOT_LISTENING:
            told = (
                f"process {pid} cannot be asked: it is a program with a worker inside, it belongs to another container or "
                f"user, or it has just ended; `py-spy dump --pid {pid}` looks at it from outside"
            )
        case _:
            told = f"job {record.id} does not run in process {pid} any more, or not yet: ask again"
    return CommandError(told, Exit.FAILURE)
