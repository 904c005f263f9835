"""Jobs in processes of their own: those that ask for it, and those that had begun when a process died.

A worker can kill such a process, at the job's time-out or when the job is cancelled, whatever it is doing; and if the
process dies by itself, only this job can have caused it.  It is forked from a template that has imported the application
(`onward.worker.template`), or a fresh interpreter where that is not possible.  It gets one lease at a time, runs one attempt
and reports how that ended; the worker that holds the lease settles it.  A job with crashes gets a new process, which is not
used again.

The recorder has the pid before the process has the job: if the worker dies, its supervisor kills the process before the
lease is given back.  A process that dies before it reports that the job has begun counts as no crash.

Few interpreters start at the same time.  After a crash every job that had begun waits for a process; interpreters that start
all at once would leave no processor to the process that renews leases, so that sessions expire and still more jobs wait.

The other end is `onward.entry.isolated`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from onward.attempt.attempt import Attempt, Runtime, conclude, parked
from onward.attempt.report import Reporter
from onward.backend import Held
from onward.base.logs import get_logger
from onward.errors import BackendError, JobStopped, JobTimeout
from onward.job.lease import Lease
from onward.job.outcome import Crashed, Released
from onward.worker.inflight import Work
from onward.worker.isolated_messages import AskOwner, NoteAnswered, OwnerIs, WriteNote
from onward.worker.isolated_process import FreshInterpreter, IsolatedProcess, ProcessEnded
from onward.worker.run_recorder import RunRecorder
from onward.worker.template import CannotPreload, NotForked, Template

__all__ = ["IsolatedProcesses"]

logger = get_logger("onward.worker")

_SPARES = 2


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
        template_program: Sequence[str] | None = None,
    ) -> None:
        """Start so many interpreters at a time: unless told, half as many as there are processors.

        ``template_program``: the command that starts the template; without it every process is a fresh interpreter.
        """
        self._program = program
        self._template = None if template_program is None else Template(template_program, recorder)
        self._reporter = reporter
        self._runtime = runtime
        self._recorder = recorder
        self._fresh = fresh
        self._starts = threading.BoundedSemaphore(starts or max(1, (os.cpu_count() or 1) // 2))
        self._spares: list[IsolatedProcess] = []
        self._busy: dict[Held, IsolatedProcess] = {}
        self._lock = threading.Lock()

    def run(self, work: Work) -> Attempt:
        """Run one attempt in another process, and wait for its end."""
        suspect = work.lease.crashes > 0
        try:
            process = self._process(fresh=suspect)
        except OSError as error:  # the system has no process, memory or file left
            return self._put_aside(work, f"a process of its own cannot be started: {error}")
        except CannotPreload as error:
            return self._put_aside(work, str(error))
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
        except ProcessEnded as ended:
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
        if self._template is not None:
            self._template.close()

    def _process(self, *, fresh: bool) -> IsolatedProcess:
        while not fresh:
            with self._lock:
                if not self._spares:
                    break
                spare = self._spares.pop()
            if not spare.has_ended:
                return spare
            spare.end()
        if self._template is not None and self._template.usable:
            with suppress(NotForked):
                return IsolatedProcess(self._template.fork)
        with self._starts:
            process = IsolatedProcess(partial(FreshInterpreter, self._program))
            process.wait_for_message()
            return process

    def _keep(self, process: IsolatedProcess, *, spare: bool) -> None:
        with self._lock:
            if spare and process.killed_because is None and len(self._spares) < _SPARES:
                self._spares.append(process)
                return
        process.end()

    def _without_report(self, work: Work, process: IsolatedProcess, ended: ProcessEnded, started: int) -> Attempt:
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
