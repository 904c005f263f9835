"""Jobs in processes of their own: those that ask for it, and those that had begun when a process died.

A worker can kill such a process, at the job's time-out or when the job is cancelled, whatever it is doing; and if the
process dies by itself, only this job can have caused it.  It is a fresh interpreter with the application imported.  It gets
one lease at a time, runs one attempt and reports how that ended; the worker that holds the lease settles it.  A job with
crashes gets a new process, which is not used again.

The recorder has the pid before the process has the job: if the worker dies, its supervisor kills the process before the
lease is given back.  A process that dies before it reports that the job has begun counts as no crash.

Few processes start at the same time.  After a crash every job that had begun waits for one; interpreters that start all at
once would leave no processor to the process that renews leases, so that sessions expire and still more jobs wait.

The other end is `onward.entry.isolated`.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from onward.attempt.attempt import Attempt, Runtime, conclude, parked
from onward.attempt.report import Reporter
from onward.backend import Held
from onward.base.ipc import IpcChannel, IpcMessage, MalformedMessage
from onward.base.lazy import subprocess
from onward.base.logs import get_logger
from onward.base.process_end import describe_end, has_ended, kill_group
from onward.errors import BackendError, JobStopped, JobTimeout
from onward.job.lease import Lease
from onward.job.outcome import Crashed, Released
from onward.telemetry.numbers import Pair
from onward.worker.inflight import Work
from onward.worker.isolated_messages import (
    AskOwner,
    AttemptEnded,
    FromProcess,
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
from onward.worker.run_recorder import RunRecorder

__all__ = ["IsolatedProcesses"]

logger = get_logger("onward.worker")

_SPARES = 2
_EXITS_WITHIN = 1.0  # seconds
_GRACE = 0.5  # seconds in which an async handler can still be cancelled by its own event loop


_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromProcess)


class IsolatedProcesses:
    """Starts processes for single jobs, and keeps a few for the next."""

    def __init__(
        self,
        program: Sequence[str],
        runtime: Runtime,
        recorder: RunRecorder | None,
        reporter: Reporter,
        *,
        fresh: Callable[[], bool] = lambda: True,
        starts: int | None = None,
    ) -> None:
        """Start so many processes at a time: unless told, half as many as there are processors."""
        self._program = program
        self._reporter = reporter
        self._runtime = runtime
        self._recorder = recorder
        self._fresh = fresh
        self._starts = threading.BoundedSemaphore(starts or max(1, (os.cpu_count() or 1) // 2))
        self._spares: list[_Process] = []
        self._busy: dict[Held, _Process] = {}
        self._lock = threading.Lock()

    def run(self, work: Work) -> Attempt:
        """Run one attempt in another process, and wait for its end."""
        suspect = work.lease.crashes > 0
        try:
            process = self._process(fresh=suspect)
        except OSError as error:  # the system has no process, memory or file left
            return self._put_aside(work, f"a process of its own cannot be started: {error}")
        started = time.perf_counter_ns()
        try:
            problem = process.wait_until_imported()
            if problem is not None:  # a deployment that is half done: the handler did not run, no attempt is counted
                return self._put_aside(work, problem)
            if work.lost or not self._fresh():  # the import may have taken longer than the lease
                self._keep(process, spare=not suspect)
                return Attempt(lease=work.lease, letter=work.ready.letter, outcome=Released())
            if self._recorder is not None:
                self._recorder.begin(work.key, float("inf"), process.pid)
            with self._lock:
                self._busy[work.key] = process
            ran = process.run(work, self._report, self._answer, self._reporter.counted_elsewhere)
        except _ProcessEnded as ended:
            return self._without_report(work, process, ended, started)
        except Exception as error:  # a message that does not fit
            logger.exception("job %s %s: its process is given up", work.ready.letter.job, work.key[0])
            process.kill("given up")
            process.end()
            return self._failed(work, error, started)
        finally:
            with self._lock:
                self._busy.pop(work.key, None)
        self._keep(process, spare=not suspect)
        return Attempt(lease=work.lease, letter=work.ready.letter, **msgspec.structs.asdict(ran))

    def pid_of(self, work: Work) -> int | None:
        """Return the process that runs a job, once it does."""
        with self._lock:
            process = self._busy.get(work.key)
        return None if process is None else process.pid

    def stop(self, work: Work) -> bool:
        """Kill the process of a cancelled job.  False if the job has not begun yet."""
        with self._lock:  # so that the process is not given the next job meanwhile
            process = self._busy.get(work.key)
            if process is None:
                return False
            process.kill("cancelled")
            return True

    def lease_lost(self, work: Work) -> None:
        """Tell the handler that its lease is lost."""
        with self._lock:
            process = self._busy.get(work.key)
            if process is not None:
                process.lease_lost()

    def close(self) -> None:
        with self._lock:
            spares, self._spares = self._spares, []
        for process in spares:
            process.end()

    def _process(self, *, fresh: bool) -> _Process:
        while not fresh:
            with self._lock:
                if not self._spares:
                    break
                spare = self._spares.pop()
            if not spare.has_ended:
                return spare
            spare.end()
        with self._starts:
            process = _Process(self._program)
            process.wait_for_message()
            return process

    def _keep(self, process: _Process, *, spare: bool) -> None:
        with self._lock:
            if spare and process.killed_because is None and len(self._spares) < _SPARES:
                self._spares.append(process)
                return
        process.end()

    def _without_report(self, work: Work, process: _Process, ended: _ProcessEnded, started: int) -> Attempt:
        """Decide on an attempt whose process died before it reported the end."""
        match process.killed_because:
            case "timeout":
                limit = work.ready.terms.timeout
                late = JobTimeout(f"the job's process was killed at its time-out of {limit:g} s")
                return self._failed(work, late, started)
            case "cancelled":
                return self._failed(work, JobStopped("its process was killed"), started)
        if not process.begun:
            return self._put_aside(work, f"its process {ended} before the job began")
        logger.error("job %s %s: its process %s", work.ready.letter.job, work.key[0], ended)
        return Attempt(lease=work.lease, letter=work.ready.letter, outcome=Crashed(str(ended)))

    def _put_aside(self, work: Work, problem: str) -> Attempt:
        """Park a job: the handler did not run; no attempt is counted."""
        logger.error("job %s %s waits: %s", work.ready.letter.job, work.key[0], problem)
        return Attempt(lease=work.lease, letter=work.ready.letter, outcome=parked(work.lease, problem))

    def _failed(self, work: Work, error: BaseException, started: int) -> Attempt:
        duration_ms = (time.perf_counter_ns() - started) // 1_000_000
        return conclude(work.ready, self._runtime, None, error, duration_ms)

    def _report(self, lease: Lease, fraction: float, note: str | None) -> bool:
        return self._runtime.fenced(lease, lambda now: self._runtime.report(now, fraction, note)) is not False

    def _answer(self, lease: Lease, asked: WriteNote | AskOwner) -> NoteAnswered | OwnerIs:
        return self._note(lease, asked) if isinstance(asked, WriteNote) else self._owner(lease, asked)

    def _owner(self, lease: Lease, asked: AskOwner) -> OwnerIs:
        """Say under which owner the process writes.  What it wrote under another one was refused."""
        owners: list[str] = []

        def read(now: Lease) -> bool:
            owners.append(now.owner)
            return False

        return OwnerIs(asked.number, certain=self._runtime.fenced(lease, read) is False, owner=owners[0])

    def _note(self, lease: Lease, asked: WriteNote) -> NoteAnswered:
        """Store a note once: its process asks again while the store is away."""
        try:
            noted = self._runtime.fenced(lease, lambda now: self._runtime.notes.note(now, asked.name, asked.sealed))
        except BackendError as error:
            return NoteAnswered(asked.number, noted=False, problem=str(error))
        problem = "the session of this worker is being adopted by its successor" if noted is None else None
        return NoteAnswered(asked.number, noted=bool(noted), problem=problem)


class _ProcessEnded(Exception):
    """The process has ended; the text says how."""


class _Process:
    """One process, and the messages to and from it."""

    def __init__(self, program: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        self._channel = IpcChannel(ours, _decoder)
        try:
            with theirs:
                self._popen = subprocess.Popen(
                    [*program, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except OSError:
            self._channel.close()
            raise
        self._imported = False
        self.begun = False  # whether the handler of the last job was called
        self._heard: list[IpcMessage] = []
        self._ending = threading.Lock()
        self.killed_because: str | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        return has_ended(self.pid)

    def wait_for_message(self) -> None:
        """Wait until it has sent its first message, or has ended."""
        self._wait(None)

    def wait_until_imported(self) -> str | None:
        """Wait for the import of the application.  Returns the problem, if there was one."""
        if self._imported:
            return None
        message = self._next(None)
        assert isinstance(message, Imported)
        self._imported = message.problem is None
        if message.problem is not None:
            self.end()
        return message.problem

    def run(
        self,
        work: Work,
        report: Callable[[Lease, float, str | None], bool],
        answer: Callable[[Lease, WriteNote | AskOwner], NoteAnswered | OwnerIs],
        counted: Callable[[Mapping[tuple[str, Pair], int]], None],
    ) -> AttemptEnded:
        """Send the lease and wait for the end of the attempt, at most as long as the job may take."""
        timeout = work.ready.terms.timeout
        deadline = None if timeout is None else time.monotonic() + timeout + _GRACE
        self.begun = False
        self._channel.send(RunLease(msgspec.structs.replace(work.lease, receipt=None)))
        while True:
            match self._next(deadline):
                case None:
                    self.kill("timeout")
                    deadline = None
                case HandlerBegins():
                    self.begun = True
                case HandlerProgress(fraction, note):
                    if not report(work.lease, fraction, note):
                        self.lease_lost()
                case HandlerCounted(counts):
                    counted({(name, (queue, job)): count for name, queue, job, count in counts})
                case WriteNote() | AskOwner() as asked:
                    self._channel.send(answer(work.lease, asked))
                case AttemptEnded() as ran:
                    return ran

    def kill(self, because: str) -> None:
        """Kill the process.  From any thread: the thread that waits for its messages finds it dead."""
        with self._ending:
            if self.killed_because is None:
                self.killed_because = because
                if self._popen.returncode is None:
                    kill_group(self.pid)

    def lease_lost(self) -> None:
        self._channel.send(LeaseIsLost())

    def end(self) -> int:
        """Close the channel, so that the process exits, and kill what is left of its group.  Returns the exit code."""
        self._channel.close()
        deadline = time.monotonic() + _EXITS_WITHIN
        while not self.has_ended:
            if time.monotonic() > deadline:
                self.kill("it did not exit")
            time.sleep(0.002)
        with self._ending:  # until it is waited for, no other process gets its number
            kill_group(self.pid)
            return self._popen.wait()

    def _next(self, deadline: float | None) -> IpcMessage | None:
        """Return the next message; None if the deadline comes first."""
        while not self._heard:
            try:
                arrived = self._channel.arrived()
            except MalformedMessage as error:
                self.kill("it sent a malformed message")
                self.end()
                raise _ProcessEnded(f"sent a malformed message: {error}") from None
            if arrived is None:
                raise _ProcessEnded(describe_end(self.end()))
            self._heard += arrived
            if not arrived and not self._wait(deadline):
                return None
        return self._heard.pop(0)

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a message; False if the deadline comes first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            return bool(selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())))
