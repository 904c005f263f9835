"""Asking for the stack of a job that a store says to be running: which process to ask, and what to do if it is silent."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from onward.client.record import JobRecord, SessionRecord
from onward.errors import OnwardError
from onward.job.states import State
from onward.worker.diagnostics import stacks
from onward.worker.diagnostics.stacks import ANSWER_WITHIN, NoStack, Silence, Stack

__all__ = ["StackUnavailable", "stack_of_job"]


class StackUnavailable(OnwardError):
    """The stack of a job cannot be asked for.  ``runs``: whether the job runs at all."""

    def __init__(self, message: str, *, runs: bool = True) -> None:
        super().__init__(message)
        self.runs = runs


def stack_of_job(record: JobRecord, workers: Sequence[SessionRecord]) -> Stack:
    """Ask the process that holds the job.  Raises `StackUnavailable`, which names the fix."""
    worker = _worker_of(record, workers)
    try:
        return stacks.ask(worker.pid, record.id)
    except NoStack as silence:
        raise StackUnavailable(_told(silence, record)) from None


def _worker_of(record: JobRecord, workers: Sequence[SessionRecord]) -> SessionRecord:
    if record.state is not State.EXECUTING:
        raise StackUnavailable(f"job {record.id} is {record.state}: only a job that runs has a stack", runs=False)
    worker = next((each for each in workers if each.owner == record.owner), None)
    if worker is None:
        raise StackUnavailable(
            f"the worker that ran job {record.id} is gone: the job will be given back, `onward reap` does it now"
        )
    if worker.host != platform.node():
        raise StackUnavailable(
            f"job {record.id} runs on {worker.host or 'another machine'}, in process {worker.pid}: ask there"
        )
    return worker


def _told(silence: NoStack, record: JobRecord) -> str:
    pid = silence.pid
    match silence.silence:
        case Silence.NO_ANSWER:
            return (
                f"process {pid} did not answer within {ANSWER_WITHIN:g} s: it is stopped, or a job in it holds the "
                f"interpreter's lock; `py-spy dump --pid {pid}` looks at it from outside"
            )
        case Silence.OTHER_USER:
            return f"process {pid} belongs to another user, and answers only that one: ask as that user"
        case Silence.NOT_LISTENING:
            return (
                f"process {pid} cannot be asked: it is a program with a worker inside, it belongs to another container or "
                f"user, or it has just ended; `py-spy dump --pid {pid}` looks at it from outside"
            )
        case _:
            return f"job {record.id} does not run in process {pid} any more, or not yet: ask again"
