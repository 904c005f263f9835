"""``python -m onward.entry.isolated``: a process that runs one attempt at a time for a worker, which starts it.

The handler runs in the main thread.  Another thread reads messages: when the worker is gone, no process would settle the job
that runs here, so this process ends at once.  The other end is `onward.worker.isolated`.

A process that was forked from a template (`onward.entry.template`) comes here when the application is imported.
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from onward.app import Onward
from onward.attempt.attempt import Attempt, Ready, Runtime, conclude, run, run_async
from onward.attempt.notebook import UnsupportedNotes
from onward.attempt.prepare import prepare
from onward.backend import Audit, Note, Notes, Signalled
from onward.base.failure import storable
from onward.base.ipc import IpcChannel, IpcMessage
from onward.base.lazy import asyncio
from onward.entry.child import leave_signals_to_others, load_application, prepare_process
from onward.errors import BackendUnavailable
from onward.job.context import JobContext
from onward.job.lease import Lease
from onward.job.outcome import Dead, Outcome, RetryLater
from onward.job.run_parts import FlowsOfRuns
from onward.supervisor.subreaper import name_process
from onward.telemetry.metrics import Metrics
from onward.telemetry.numbers import Pair
from onward.worker.diagnostics.frames import AsTask, InThread, Whereabouts
from onward.worker.diagnostics.stacks import Stacks
from onward.worker.isolated_messages import (
    AskOwner,
    AttemptEnded,
    FromWorker,
    HandlerBegins,
    HandlerCounted,
    HandlerProgress,
    Imported,
    LeaseIsLost,
    NoteAnswered,
    OwnerIs,
    RunLease,
    WriteNote,
)

__all__ = ["IsolatedRunner", "import_problem", "main", "run_isolated"]

_DECODER: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromWorker)


def main(options_json: str, channel_fd: str) -> None:
    """Import the application, then run the leases that the worker sends."""
    end, options = prepare_process(channel_fd, options_json)
    name_process("onward-isolated")
    try:
        app = load_application(options)
        leave_signals_to_others()  # even if the application has set handlers
    except BaseException as error:  # noqa: BLE001  whatever an application does while it is imported
        IpcChannel(end, _DECODER).send(Imported(import_problem(error)))
        return
    run_isolated(app, end)


def import_problem(error: BaseException) -> str:
    """Return in words why the application cannot be imported."""
    text = "".join(traceback.format_exception(error))
    return f"the application cannot be imported in a process of its own: {text}"


def run_isolated(app: Onward, end: socket.socket) -> None:
    """Run the leases that the worker sends over this socket."""
    runner = IsolatedRunner(app.parts().runtime, app.metrics, IpcChannel(end, _DECODER))
    with Stacks(runner.whereabouts):
        runner.serve()


class IsolatedRunner:
    """Waits for leases and runs them."""

    def __init__(self, runtime: Runtime, metrics: Metrics, channel: IpcChannel) -> None:
        self._questions = _Questions(channel)
        self._metrics = metrics
        supported = not isinstance(runtime.notes, UnsupportedNotes)
        notes = _NotesThroughWorker(runtime.notes, self._questions) if supported else runtime.notes
        flows = _FlowsUnderOwnerOfNow(runtime.flows, self._questions)
        self._runtime = msgspec.structs.replace(runtime, report=self._report, notes=notes, flows=flows)
        self._channel = channel
        self._runs: queue.SimpleQueue[Lease] = queue.SimpleQueue()
        self._context: JobContext | None = None
        self._job_id = ""  # of the job that runs
        self._task: asyncio.Task[Attempt] | None = None  # of an async handler
        self._attempt: Attempt | None = None  # of an async handler that has ended

    def serve(self) -> None:
        """Run leases until the worker is gone."""
        threading.Thread(target=self._listen, name="onward-messages", daemon=True).start()
        self._channel.send(Imported())
        self._metrics.pass_on_to(self._counted)
        while True:
            attempt = self._run(self._runs.get())
            told = {name: getattr(attempt, name) for name in AttemptEnded.__struct_fields__}
            self._channel.send(AttemptEnded(**told | {"outcome": _sendable(attempt.outcome)}))

    def whereabouts(self, job_id: str) -> Whereabouts | None:
        """Return where the handler of a job runs; None if it does not."""
        if job_id != self._job_id:
            return None
        task, main = self._task, threading.main_thread().ident
        assert main is not None
        return InThread(main) if task is None else AsTask(task, main)

    def _run(self, lease: Lease) -> Attempt:
        ready = prepare(lease, self._runtime)
        if isinstance(ready, Attempt):
            return ready
        self._context, self._job_id = ready.context, ready.letter.id
        if ready.context is not None:
            ready.context.alone = True
        limit = ready.entry.definition.max_memory
        with suppress(ValueError, OSError):  # the limit is above the system's own
            _limit_memory(limit)
        self._channel.send(HandlerBegins())
        try:
            return self._call(ready)
        finally:
            self._context, self._job_id = None, ""
            _limit_memory(None)

    def _call(self, ready: Ready) -> Attempt:
        if not ready.entry.is_async:
            return run(ready, self._runtime)
        self._attempt = None
        try:
            return asyncio.run(self._await(ready))
        except BaseException as error:  # noqa: BLE001  the handler stopped the loop, or a task that it left there exits
            return self._attempt or conclude(ready, self._runtime, None, error, 0)

    async def _await(self, ready: Ready) -> Attempt:
        self._task = asyncio.current_task()
        try:
            self._attempt = attempt = await run_async(ready, self._runtime)
        finally:
            self._task = None
        return attempt

    def _listen(self) -> None:
        try:
            for message in self._channel.messages():
                match message:
                    case RunLease(lease):
                        self._runs.put(lease)
                    case NoteAnswered() | OwnerIs() as answer:
                        self._questions.answered(answer)
                    case LeaseIsLost():
                        if (context := self._context) is not None:
                            context.lose()
        finally:
            os._exit(0)

    def _report(self, lease: Lease, fraction: float, note: str | None) -> bool:
        self._channel.send(HandlerProgress(fraction, None if note is None else storable(note)))
        return True

    def _counted(self, counts: Mapping[tuple[str, Pair], int]) -> None:
        told = ((name, queue, job, count) for (name, (queue, job)), count in counts.items())
        self._channel.send(HandlerCounted(tuple(told)))


class _Questions:
    """What this process asks the worker: the thread that asks waits for the answer."""

    def __init__(self, channel: IpcChannel) -> None:
        self._channel = channel
        self._numbers = count()
        self._answers: dict[int, queue.SimpleQueue[Any]] = {}

    def ask(self, question: Callable[[int], IpcMessage]) -> Any:
        """Send a question, which is given its number, and return the answer."""
        number = next(self._numbers)
        waiting = self._answers[number] = queue.SimpleQueue()
        self._channel.send(question(number))
        return waiting.get()  # if the worker is gone, this process ends

    def answered(self, answer: NoteAnswered | OwnerIs) -> None:
        """Pass an answer on to the thread that waits for it."""
        waiting = self._answers.pop(answer.number, None)
        if waiting is not None:
            waiting.put(answer)


class _FlowsUnderOwnerOfNow:
    """The flows of jobs that run here.  They grow under the owner that the worker knows, which may have changed."""

    def __init__(self, flows: FlowsOfRuns, questions: _Questions) -> None:
        self._flows = flows
        self._questions = questions
        self.of_run = flows.of_run
        self.of_async_run = flows.of_async_run

    def grow(self, lease: Lease, envelopes: Sequence[Any]) -> list[Any] | None:
        """Add sealed jobs under a lease.  None: it is lost."""
        owner = self._questions.ask(AskOwner).owner
        while True:
            added = self._flows.grow(msgspec.structs.replace(lease, owner=owner), envelopes)
            if added is not None:
                return added
            now = self._questions.ask(AskOwner)
            if not now.certain:
                raise BackendUnavailable("the session of this worker is being adopted by its successor")
            if now.owner == owner:
                return None
            owner = now.owner


class _NotesThroughWorker:
    """The notes of a job that runs here: read by this process, written by the worker, which knows the owner of now."""

    def __init__(self, store: Notes, questions: _Questions) -> None:
        self._store = store
        self._questions = questions

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        answer: NoteAnswered = self._questions.ask(lambda number: WriteNote(number, name, value))
        if answer.problem is not None:
            raise BackendUnavailable(answer.problem)
        return answer.noted

    def notes(self, job_id: str) -> Sequence[Note]:
        return self._store.notes(job_id)

    def signal(
        self,
        job_id: str,
        name: str,
        value: bytes,
        *,
        again: bool = False,
        at_most: tuple[int, int] = (1000, 4 << 20),
        audit: Audit = (),
    ) -> Signalled:
        return self._store.signal(job_id, name, value, again=again, at_most=at_most, audit=audit)


def _sendable(outcome: Outcome) -> Outcome:
    """Escape lone surrogates in the texts of a handler: JSON cannot carry them."""
    match outcome:
        case Dead(reason):
            return msgspec.structs.replace(outcome, reason=storable(reason))
        case RetryLater(_, problem) if problem is not None:
            return msgspec.structs.replace(outcome, problem=storable(problem))
        case _:
            return outcome


def _limit_memory(limit: int | None) -> None:
    """Limit the memory of this process: code that asks for more gets a MemoryError."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard if limit is None else limit, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
