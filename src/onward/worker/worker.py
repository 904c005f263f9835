"""The worker inside a program: a pump, runner threads, an event loop, and the threads that renew, wake and sweep."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from onward.attempt.attempt import Attempt
from onward.backend import Renewal
from onward.base.backoff import jittered
from onward.base.ids import random_owner
from onward.base.logs import get_logger
from onward.errors import BackendError, JobStopped, OnwardError
from onward.job.lease import Lease
from onward.job.outcome import Released
from onward.telemetry import JobStarted
from onward.worker.breaker import Breaker
from onward.worker.diagnostics.frames import AsTask, InProcess, InThread, Whereabouts
from onward.worker.handler_tasks import HandlerTasks
from onward.worker.handler_threads import HandlerThreads
from onward.worker.inflight import Inflight, Work
from onward.worker.interrupt import Deadlines
from onward.worker.isolated import IsolatedProcesses
from onward.worker.milestones import Milestones, OneTimeEvent
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.patterns import plan_of
from onward.worker.pump import Pump, SessionHandover
from onward.worker.quota import Quota
from onward.worker.run_recorder import NoRecorder, RunRecorder
from onward.worker.session import WorkerSession, boottime

__all__ = ["Worker", "WorkerParts", "stop_all"]

logger = get_logger("onward.worker")

_WAIT, _SHORT_WAIT = 1.0, 0.1
_PRUNE_EVERY = 60.0
_NEVER = float("inf")


class Worker:
    """Runs jobs until it is stopped.  ``with jobs.worker(): ...``, or ``start()`` and ``stop()``."""

    def __init__(
        self,
        parts: WorkerParts,
        options: WorkerOptions,
        *,
        clock: Callable[[], float] = boottime,
        breaker: Breaker | None = None,
        recorder: RunRecorder | None = None,
        quota: Quota | None = None,
        isolated_program: Sequence[str] | None = None,
    ) -> None:
        """``witness``: a supervisor's, who then renews the session and sweeps.  ``quota``: when to end by itself.

        ``isolated_program``: the command that starts a process for a single job; without it such jobs run here.
        """
        self.options = options
        self.milestones = Milestones()
        self._parts = dataclasses.replace(parts, runtime=dataclasses.replace(parts.runtime, report=self._report))
        self._report_of_the_application = parts.runtime.report
        self._ended = OneTimeEvent()
        self._cause_of_death: BaseException | None = None
        self._pid: int | None = None  # of the process that started it
        self._next_prune = 0.0
        self._supervised = recorder is not None
        self._recorder = recorder or NoRecorder()
        self.quota = quota or Quota()
        self._session = WorkerSession(
            parts.backend,
            parts.lease_for,
            on_renewal=self._on_renewal,
            on_fresh=self._on_fresh,
            died=self._die,
            clock=clock,
            recorder=self._recorder,
            supervised=self._supervised and parts.backend.capabilities.remote_extend,
        )
        runtime = self._parts.runtime
        self._isolated = (
            None
            if isolated_program is None
            else IsolatedProcesses(isolated_program, runtime, self._recorder, fresh=self._session.fresh)
        )
        self._inflight = inflight = Inflight(options.concurrency, self._session.fresh)
        self._deadlines = Deadlines(inflight.running, died=self._die)
        self._pump = Pump(
            self._parts,
            self._session,
            inflight,
            plan=plan_of(options, parts.backend),
            quota=self.quota,
            milestones=self.milestones,
            breaker=breaker or Breaker(),
            recorder=self._recorder,
            isolated=self._isolated,
            lost=self._on_lost,
            asked_to_stop=self._stop_work,
            gave_back=self._on_given_back,
        )
        self._handler_threads = HandlerThreads(
            inflight,
            self._parts.runtime,
            self._deadlines,
            isolated=self._isolated,
            started=self._on_started,
            left=self._on_left,
            finished=self._pump.finished,
            died=self._die,
        )
        self._handler_tasks = HandlerTasks(
            inflight,
            self._parts.runtime,
            blocked_loop_after=options.blocked_loop_after,
            started=self._on_started,
            left=self._on_left,
            finished=self._pump.finished,
            died=self._die,
        )

    @property
    def running(self) -> bool:
        return self._pid == os.getpid() and not self._ended.is_set()

    def start(self) -> Worker:
        """Open a session and begin to work, on threads that keep no program alive."""
        if self._pid is not None:
            raise OnwardError("this worker was started before: make a new one with jobs.worker()")
        self._parts.backend.connect()
        self._session.open(random_owner())
        self._pid = os.getpid()
        try:
            self._session.start()
            targets = [(self._pumping, "onward-pump"), (self._waking, "onward-wake")]
            if not self._supervised:
                targets.append((self._sweeping, "onward-sweep"))
            for target, name in targets:
                threading.Thread(target=self._until_the_end, args=(target,), name=name, daemon=True).start()
        except BaseException:  # Ctrl-C: nobody will stop what did not start
            self.drain()
            raise
        return self

    def stop(self, timeout: float | None = None) -> list[str]:
        """Stop politely: claim nothing, give back what has not begun, wait for what runs.

        Returns the ids of jobs that are not settled at the deadline: they still run, or the store does not answer.  A
        thread cannot be killed: they stay renewed and are settled when they end, as long as the process lives.  Called by
        a handler of this worker it does not wait, for that would be for itself.
        """
        if self._pid != os.getpid():  # never started, or started before a fork: then it is our parent's
            return []
        self.drain()
        here = threading.get_ident()
        if here not in self._handler_threads and here not in self._handler_tasks:
            self.wait(self.options.shutdown_timeout if timeout is None else timeout)
        unsettled = self._pump.known()
        if unsettled:
            logger.warning("the worker was told to stop, and has not settled %s", ", ".join(unsettled))
        return unsettled

    def drain(self) -> None:
        """Begin to stop, and do not wait for it."""
        self._pump.drain()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended."""
        # Not in one go: Python calls a signal's handler between two steps of the main thread, and a signal that comes just
        # before a step without end is heard when that ends.
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(min(_WAIT, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return False
        return True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What a supervisor tells

    def renewed(self, owner: str, asked: float, renewal: Renewal) -> None:
        """Our session was renewed for us, or is dead."""
        self._session.heard(owner, asked, renewal)

    def take_over(self, handover: SessionHandover) -> None:
        """Take over what a killed process held."""
        self._pump.take_over(handover)

    @property
    def cause_of_death(self) -> BaseException | None:
        """What ended it, if it did not end politely."""
        return self._cause_of_death

    # For those who want to see what a job is doing

    def whereabouts(self, job_id: str) -> Whereabouts | None:
        """Where the handler of a job runs; None if it does not."""
        work = next((each for each in list(self._inflight.running.values()) if each.key[0] == job_id), None)
        if work is None:
            return None
        if work.isolated:
            pid = None if self._isolated is None else self._isolated.pid_of(work)
            return None if pid is None else InProcess(pid)
        if work.task is not None and self._handler_tasks.thread is not None:
            return AsTask(work.task, self._handler_tasks.thread)
        return None if work.thread is None else InThread(work.thread)

    # The threads

    def _until_the_end(self, target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._die(error)

    def _pumping(self) -> None:
        try:
            self._pump.run()
        finally:
            self._end()

    def _waking(self) -> None:
        while not self._ended.is_set():
            if not self._pump.idle.wait(_WAIT):
                continue
            queues = self._pump.listening
            try:
                # While a queue is at its limit nobody listens to it, and that may be over at any moment.
                longest = _WAIT if self._pump.hears_all else _SHORT_WAIT
                # At the end it looks for work, rung or not: workers that started together must not do so in step.
                length = jittered(longest)
                if queues:
                    self._parts.backend.wait(queues, length)
                else:  # no queue of its patterns was ever seen
                    self._ended.wait(length)
            except BackendError:
                self._ended.wait(_WAIT)
            self._pump.wake()

    def _sweeping(self) -> None:
        """What some worker must do for all: give back what dead ones held, and forget what is past its retention."""
        while not self._ended.wait(self._session.length / 3):
            if not self._session.may_judge():
                continue
            try:
                self._parts.reap()
                if time.monotonic() >= self._next_prune:
                    self._next_prune = time.monotonic() + _PRUNE_EVERY
                    self._parts.prune()
            except BackendError as error:
                if not self._pump.outage.lasts:
                    logger.warning("the sweep failed and will be tried again: %s", error)
            else:
                self.milestones.note("swept")

    def _end(self) -> None:
        """Nothing is known any more, or it died: end the session politely and let the threads go."""
        self._inflight.close()
        self._session.end()
        self._handler_threads.stop()
        self._handler_tasks.stop()
        self._deadlines.close()
        if self._isolated is not None:
            self._isolated.close()
        if self._cause_of_death is None and not self._pump.known():
            try:
                self._parts.backend.reap(owner=self._session.owner, started=(), cause="the worker stopped")
            except BackendError as error:
                logger.warning("the session could not be ended and will expire: %s", error)
        self._ended.set()
        self.milestones.note("ended")

    def _die(self, error: BaseException) -> None:
        """A thread of the engine died: the others must not go on as if nothing were.

        Nobody will settle what runs, so it is told that its lease is lost; the session expires.
        """
        if self._cause_of_death is None:
            self._cause_of_death = error
        self._inflight.close()
        self._ended.set()
        self._pump.quit()
        for work in self._inflight.everything():
            if work.ready.context is not None:
                work.ready.context.lose()
        logger.critical("the worker dies: %s: %s", type(error).__name__, error, exc_info=error)

    # What the parts tell each other

    def _on_started(self, work: Work) -> None:
        if not work.isolated:
            timeout = work.ready.terms.timeout
            self._recorder.begin(work.key, _NEVER if timeout is None else boottime() + timeout)
            if work.ready.entry.denied_by_default and work.ready.context is not None:  # it may run a program
                work.ready.context.attend(functools.partial(self._recorder.program, work.key))
        if self._parts.telemetry.wants(JobStarted):
            letter = work.ready.letter
            self._parts.telemetry.emit(
                JobStarted(id=letter.id, job=letter.job, queue=letter.queue, attempt=work.lease.attempts + 1)
            )

    def _on_left(self, work: Work) -> None:
        """A handler with a time-out has returned."""
        self._recorder.left(work.key)

    def _on_fresh(self) -> None:
        self._inflight.call()
        self._pump.wake()

    def _on_renewal(self, owner: str, renewal: Renewal) -> None:
        if not renewal.alive:
            self._pump.session_died(owner)
        for key in renewal.cancel_requested:
            work = self._inflight.find(key)
            if work is not None:
                self._stop_work(work)
        for key in renewal.lost:
            work = self._inflight.find(key)
            if work is not None:
                self._on_lost(work)
        self.milestones.note("renewed")

    def _stop_work(self, work: Work) -> None:
        """Somebody cancelled this job: what waits is given back, what runs is told, and interrupted if that is allowed."""
        if work.stopped:
            return
        if self._inflight.drop(work):
            work.stopped = True
            # The store turns whatever becomes of it.
            self._pump.finished(Attempt(lease=work.lease, letter=work.ready.letter, outcome=Released()))
            return
        if work.ready.context is not None:
            work.ready.context.ask_to_stop()
        if work.isolated and self._isolated is not None:
            work.stopped = self._isolated.stop(work)  # if it is about to begin it is told next time
            return
        if work.ready.entry.is_async:
            work.stopped = self._handler_tasks.cancel(work)  # if it is about to begin it is told next time
            return
        work.stopped = True
        if work.ready.entry.definition.interrupt:
            self._deadlines.watch(work, time.monotonic(), JobStopped)

    def _on_lost(self, work: Work) -> None:
        work.lost = True
        if work.ready.context is not None:
            work.ready.context.lose()
        if work.isolated and self._isolated is not None:
            self._isolated.lose(work)
        self.milestones.note("lost")

    def _on_given_back(self, count: int) -> None:
        self.milestones.note("given back", count)

    def _report(self, lease: Lease, fraction: float, note: str | None) -> bool:
        """Progress, under the name that the session has now: the lease may have been adopted since it was claimed."""
        owner = self._session.owner
        current = lease if lease.owner == owner else msgspec.structs.replace(lease, owner=owner)
        held = self._report_of_the_application(current, fraction, note)
        # While a successor is being opened, nobody can tell.
        return held or self._pump.recovering or owner != self._session.owner


def stop_all(workers: Sequence[Worker]) -> None:
    """Stop several at the same time: each has its own time-out, but they do not add up."""
    for worker in workers:
        worker.drain()
    asked = time.monotonic()
    for worker in workers:
        worker.stop(max(0.0, asked + worker.options.shutdown_timeout - time.monotonic()))
