"""Jobs in processes of their own: those that ask for it, and those that were there when a process died.

A process of its own can be killed, at the job's time-out or when somebody cancels it, whatever it is doing; and if it dies
by itself, only this job can be to blame.  It is a fresh interpreter with the application imported.  It gets one lease at a
time, runs one attempt and says how that ended; settling stays with the worker that holds the lease.  A job with crashes
gets a process that nobody used before and nobody will use again.

The witness learns the process before the process learns the job: if the worker dies, its supervisor kills the process before
the lease is given back.  A process that dies before it says that the job has begun is nobody's crash.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from onward.attempt.attempt import Attempt, Runtime, conclude, parked
from onward.base.failure import Failure
from onward.base.ipc import IpcChannel, IpcMessage, MalformedMessage
from onward.base.logs import get_logger
from onward.base.process_end import describe_end, has_ended, kill_group
from onward.errors import JobStopped, JobTimeout
from onward.job.lease import Lease
from onward.job.outcome import Crashed, Outcome, Released
from onward.worker.inflight import Key, Work
from onward.worker.run_recorder import RunRecorder

__all__ = [
    "AttemptEnded",
    "FromWorker",
    "HandlerBegins",
    "HandlerProgress",
    "Imported",
    "IsolatedProcesses",
    "LeaseIsLost",
    "RunLease",
]

logger = get_logger("onward.worker")

_SPARES = 2
_LAST_BREATH = 1.0
_GRACE = 0.5  # seconds in which an async handler can still be cancelled by its own event loop


class RunLease(IpcMessage, frozen=True):
    """Run one attempt of this."""

    lease: Lease


class LeaseIsLost(IpcMessage, frozen=True):
    """The lease is lost."""


class Imported(IpcMessage, frozen=True):
    """The application is there; or why it is not."""

    problem: str | None = None


class HandlerBegins(IpcMessage, frozen=True):
    """The handler is about to be called."""


class HandlerProgress(IpcMessage, frozen=True):
    """What the handler says of how far it is."""

    fraction: float
    note: str | None


class AttemptEnded(IpcMessage, frozen=True, kw_only=True):
    """How the attempt ended."""

    outcome: Outcome
    failure: Failure | None
    result: bytes | None
    note: str | None
    swallowed: Failure | None
    duration_ms: int


FromWorker = RunLease | LeaseIsLost
FromProcess = Imported | HandlerBegins | HandlerProgress | AttemptEnded
_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromProcess)


class IsolatedProcesses:
    """Starts processes for single jobs, and keeps a few for the next."""

    def __init__(
        self,
        program: Sequence[str],
        runtime: Runtime,
        recorder: RunRecorder,
        *,
        fresh: Callable[[], bool] = lambda: True,
    ) -> None:
        self._program = program
        self._runtime = runtime
        self._recorder = recorder
        self._fresh = fresh
        self._spares: list[_Process] = []
        self._busy: dict[Key, _Process] = {}
        self._lock = threading.Lock()

    def wants(self, work: Work) -> bool:
        return work.lease.crashes > 0 or work.ready.entry.definition.isolation == "process"

    def run(self, work: Work) -> Attempt:
        """One attempt in another process.  Waits for its end."""
        suspect = work.lease.crashes > 0
        try:
            process = self._process(fresh=suspect)
        except OSError as error:  # no process, no memory or no file to be had
            return self._put_aside(work, f"a process of its own cannot be started: {error}")
        started = time.perf_counter_ns()
        try:
            problem = process.wait_until_imported()
            if problem is not None:  # a deployment that is half done: nobody ran, and nothing is burned
                return self._put_aside(work, problem)
            if work.lost or not self._fresh():  # the import took its time
                self._keep(process, spare=not suspect)
                return Attempt(lease=work.lease, letter=work.ready.letter, outcome=Released())
            self._recorder.begin(work.key, float("inf"), process.pid)
            with self._lock:
                self._busy[work.key] = process
            ran = process.run(work, self._report)
        except _ProcessEnded as ended:
            return self._unheard(work, process, ended, started)
        except Exception as error:  # what it said is not what anybody expects
            logger.exception("job %s %s: its process is given up", work.ready.letter.job, work.key[0])
            process.kill("given up")
            process.end()
            return self._failed(work, error, started)
        finally:
            with self._lock:
                self._busy.pop(work.key, None)
        self._keep(process, spare=not suspect)
        return Attempt(
            lease=work.lease,
            letter=work.ready.letter,
            outcome=ran.outcome,
            failure=ran.failure,
            result=ran.result,
            note=ran.note,
            swallowed=ran.swallowed,
            duration_ms=ran.duration_ms,
        )

    def pid_of(self, work: Work) -> int | None:
        """The process that runs it, once it does."""
        with self._lock:
            process = self._busy.get(work.key)
        return None if process is None else process.pid

    def stop(self, work: Work) -> bool:
        """The job was cancelled.  False if it has not begun yet."""
        with self._lock:  # so that it cannot be used for the next job meanwhile
            process = self._busy.get(work.key)
            if process is None:
                return False
            process.kill("cancelled")
            return True

    def lose(self, work: Work) -> None:
        """Its lease is lost: say so to its handler."""
        with self._lock:
            process = self._busy.get(work.key)
            if process is not None:
                process.lose()

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
        return _Process(self._program)

    def _keep(self, process: _Process, *, spare: bool) -> None:
        with self._lock:
            if spare and process.killed_because is None and len(self._spares) < _SPARES:
                self._spares.append(process)
                return
        process.end()

    def _unheard(self, work: Work, process: _Process, ended: _ProcessEnded, started: int) -> Attempt:
        """It died before it said how the attempt ended."""
        match process.killed_because:
            case "timeout":
                limit = work.ready.terms.timeout
                return self._failed(work, JobTimeout(f"it was killed at its time-out of {limit:g} s"), started)
            case "cancelled":
                return self._failed(work, JobStopped("its process was killed"), started)
        if not process.begun:
            return self._put_aside(work, f"its process {ended} before the job began")
        logger.error("job %s %s: its process %s", work.ready.letter.job, work.key[0], ended)
        return Attempt(lease=work.lease, letter=work.ready.letter, outcome=Crashed(str(ended)))

    def _put_aside(self, work: Work, problem: str) -> Attempt:
        """Nobody ran, and nothing is burned."""
        logger.error("job %s %s waits: %s", work.ready.letter.job, work.key[0], problem)
        return Attempt(lease=work.lease, letter=work.ready.letter, outcome=parked(work.lease, problem))

    def _failed(self, work: Work, error: BaseException, started: int) -> Attempt:
        duration_ms = (time.perf_counter_ns() - started) // 1_000_000
        return conclude(work.ready, self._runtime, None, error, duration_ms)

    def _report(self, lease: Lease, fraction: float, note: str | None) -> bool:
        return self._runtime.report(lease, fraction, note)


class _ProcessEnded(Exception):
    """The process has ended; the text says how."""


class _Process:
    """A process that waits for a job."""

    def __init__(self, program: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        self._channel = IpcChannel(ours, _decoder)
        try:
            with theirs:
                self._popen = subprocess.Popen(  # noqa: S603  our own interpreter
                    [*program, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except OSError:
            self._channel.close()
            raise
        self._imported = False
        self.begun = False  # the job that it was given last
        self._heard: list[IpcMessage] = []
        self._ending = threading.Lock()
        self.killed_because: str | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        return has_ended(self.pid)

    def wait_until_imported(self) -> str | None:
        """The problem that the application had, if it had one."""
        if self._imported:
            return None
        message = self._next(None)
        assert isinstance(message, Imported)
        self._imported = message.problem is None
        if message.problem is not None:
            self.end()
        return message.problem

    def run(self, work: Work, report: Callable[[Lease, float, str | None], bool]) -> AttemptEnded:
        """Hand it the lease and wait for the answer, at most as long as the job may take."""
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
                        self.lose()
                case AttemptEnded() as ran:
                    return ran

    def kill(self, because: str) -> None:
        """From any thread: it will be found dead by whoever waits for its answer."""
        with self._ending:
            if self.killed_because is None:
                self.killed_because = because
                if self._popen.returncode is None:
                    kill_group(self.pid)

    def lose(self) -> None:
        self._channel.send(LeaseIsLost())

    def end(self) -> int:
        """Let it go: it exits when nobody is on the line.  If it does not it is killed, and so is what it has started."""
        self._channel.close()
        deadline = time.monotonic() + _LAST_BREATH
        while not self.has_ended:
            if time.monotonic() > deadline:
                self.kill("off the line")
            time.sleep(0.002)
        with self._ending:  # until it is waited for, its number is its own
            kill_group(self.pid)
            return self._popen.wait()

    def _next(self, deadline: float | None) -> IpcMessage | None:
        """The next message; None if the deadline comes first."""
        while not self._heard:
            try:
                arrived = self._channel.arrived()
            except MalformedMessage as error:
                self.kill("garbled")
                self.end()
                raise _ProcessEnded(f"sent a malformed message: {error}") from None
            if arrived is None:
                raise _ProcessEnded(describe_end(self.end()))
            self._heard += arrived
            if not arrived and not self._wait(deadline):
                return None
        return self._heard.pop(0)

    def _wait(self, deadline: float | None) -> bool:
        """Until it says something; False if the deadline comes first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            return bool(selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())))
