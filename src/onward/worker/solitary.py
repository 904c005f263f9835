"""Jobs in processes of their own: those that ask for it, and those that were there when a process died.

A process of its own can be killed, at the job's time-out or when somebody cancels it, whatever it is doing; and if it dies
by itself, only this job can be to blame.  It is a fresh interpreter with the application imported.  It gets one lease at a
time, runs one attempt and says how that ended; settling stays with the worker that holds the lease.  A job with crashes
gets a process that nobody used before and nobody will use again.

The witness learns the process before the process learns the job: if the worker dies, its supervisor kills the process before
the lease is given back.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from onward._attempt import Attempt, Runtime, conclude, parked
from onward.failure import Failure
from onward.lease import Lease
from onward.lines import Line, Message, describe_end
from onward.logs import get_logger
from onward.outcome import Crashed, Outcome
from onward.worker.interrupt import JobStopped
from onward.worker.witness import Witness
from onward.worker.work import Key, Work

__all__ = ["Imported", "Progress", "Ran", "Run", "Solitary"]

logger = get_logger("onward.worker")

_SPARES = 2
_LAST_BREATH = 1.0
_GRACE = 0.5  # seconds in which an async handler can still be cancelled by its own event loop


class Run(Message, frozen=True):
    """Run one attempt of this."""

    lease: Lease


class Lost(Message, frozen=True):
    """The lease is lost."""


class Imported(Message, frozen=True):
    """The application is there; or why it is not."""

    problem: str | None = None


class Progress(Message, frozen=True):
    fraction: float
    note: str | None


class Ran(Message, frozen=True, kw_only=True):
    """How the attempt ended."""

    outcome: Outcome
    failure: Failure | None
    result: bytes | None
    note: str | None
    duration_ms: int


FromWorker = Run | Lost
FromProcess = Imported | Progress | Ran
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(FromProcess)


class Solitary:
    """Starts processes for single jobs, and keeps a few for the next."""

    def __init__(self, program: Sequence[str], runtime: Runtime, witness: Witness) -> None:
        self._program = program
        self._runtime = runtime
        self._witness = witness
        self._spares: list[_Process] = []
        self._busy: dict[Key, _Process] = {}
        self._lock = threading.Lock()

    def wants(self, work: Work) -> bool:
        return work.lease.crashes > 0 or work.ready.entry.definition.isolation == "process"

    def run(self, work: Work) -> Attempt:
        """One attempt in another process.  Waits for its end."""
        suspect = work.lease.crashes > 0
        process = self._process(fresh=suspect)
        started = time.perf_counter_ns()
        try:
            problem = process.wait_until_imported()
            if problem is not None:  # a deployment that is half done: nobody ran, and nothing is burned
                return Attempt(lease=work.lease, letter=work.ready.letter, outcome=parked(work.lease, problem))
            self._witness.begin(work.key, float("inf"), process.pid)
            with self._lock:
                self._busy[work.key] = process
            ran = process.run(work, self._report)
        except _Ended as ended:
            return self._unheard(work, process, ended, started)
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
            duration_ms=ran.duration_ms,
        )

    def pid_of(self, work: Work) -> int | None:
        """The process that runs it, once it does."""
        with self._lock:
            process = self._busy.get(work.key)
        return None if process is None else process.pid

    def stop(self, work: Work) -> bool:
        """The job was cancelled.  False if it has not begun yet."""
        with self._lock:
            process = self._busy.get(work.key)
        if process is None:
            return False
        process.kill("cancelled")
        return True

    def close(self) -> None:
        with self._lock:
            spares, self._spares = self._spares, []
        for process in spares:
            process.end()

    def _process(self, *, fresh: bool) -> _Process:
        with self._lock:
            if self._spares and not fresh:
                return self._spares.pop()
        return _Process(self._program)

    def _keep(self, process: _Process, *, spare: bool) -> None:
        with self._lock:
            if spare and len(self._spares) < _SPARES:
                self._spares.append(process)
                return
        process.end()

    def _unheard(self, work: Work, process: _Process, ended: _Ended, started: int) -> Attempt:
        """It died before it said how the attempt ended."""
        match process.killed_because:
            case "timeout":
                limit = work.ready.terms.timeout
                return self._failed(work, TimeoutError(f"it was killed at its time-out of {limit:g} s"), started)
            case "cancelled":
                return self._failed(work, JobStopped("its process was killed"), started)
        logger.error("job %s %s: its process %s", work.ready.letter.job, work.key[0], ended)
        return Attempt(lease=work.lease, letter=work.ready.letter, outcome=Crashed(str(ended)))

    def _failed(self, work: Work, error: BaseException, started: int) -> Attempt:
        duration_ms = (time.perf_counter_ns() - started) // 1_000_000
        return conclude(work.ready, self._runtime, None, error, duration_ms)

    def _report(self, lease: Lease, fraction: float, note: str | None) -> bool:
        return self._runtime.report(lease, fraction, note)


class _Ended(Exception):
    """The process has ended; the text says how."""


class _Process:
    """A process that waits for a job."""

    def __init__(self, program: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        self._line = Line(ours, _decoder)
        with theirs:
            self._popen = subprocess.Popen(  # noqa: S603  our own interpreter
                [*program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        self._imported = False
        self._heard: list[Message] = []
        self._ending = threading.Lock()
        self.killed_because: str | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

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

    def run(self, work: Work, report: Callable[[Lease, float, str | None], bool]) -> Ran:
        """Hand it the lease and wait for the answer, at most as long as the job may take."""
        timeout = work.ready.terms.timeout
        deadline = None if timeout is None else time.monotonic() + timeout + _GRACE
        self._line.send(Run(msgspec.structs.replace(work.lease, receipt=None)))
        while True:
            match self._next(deadline):
                case None:
                    self.kill("timeout")
                    deadline = None
                case Progress(fraction, note):
                    if not report(work.lease, fraction, note):
                        self._line.send(Lost())
                case Ran() as ran:
                    return ran

    def kill(self, because: str) -> None:
        """From any thread: it will be found dead by whoever waits for its answer."""
        with self._ending:
            if self.killed_because is None:
                self.killed_because = because
                self._popen.kill()

    def end(self) -> None:
        """Let it go: it exits when nobody is on the line."""
        self._line.close()
        self._popen.wait()

    def _reap(self) -> int:
        """It is off the line: it has ended, or a handler closed what it did not open."""
        self._line.close()
        try:
            return self._popen.wait(_LAST_BREATH)
        except subprocess.TimeoutExpired:
            self.kill("off the line")
            return self._popen.wait()

    def _next(self, deadline: float | None) -> Message | None:
        """The next message; None if the deadline comes first."""
        while not self._heard:
            with selectors.DefaultSelector() as selector:
                selector.register(self._line, selectors.EVENT_READ)
                pause = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not selector.select(pause):
                    return None
            arrived = self._line.arrived()
            if arrived is None:
                raise _Ended(describe_end(self._reap()))
            self._heard += arrived
        return self._heard.pop(0)
