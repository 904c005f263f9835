"""The worker: a pump, handler threads, an event loop, and the threads that renew, wake, sweep and book schedules."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from msgspec.structs import replace

from onward.attempt.attempt import Attempt
from onward.backend import Renewal
from onward.base.backoff import jittered
from onward.base.clock import boottime
from onward.base.ids import random_owner
from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.errors import BackendError, JobStopped, OnwardError
from onward.job.lease import Lease
from onward.job.outcome import Released
from onward.telemetry import JobStarted, Milestones
from onward.worker.breaker import StoreBreaker
from onward.worker.describing import described
from onward.worker.diagnostics.frames import AsTask, InProcess, InThread, Whereabouts
from onward.worker.events import OneTimeEvent
from onward.worker.handler_tasks import HandlerTasks
from onward.worker.handler_threads import Deadlines, HandlerThreads
from onward.worker.inflight import Inflight, Quota, Work
from onward.worker.isolated import IsolatedProcesses
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.patterns import plan_of
from onward.worker.pump import Pump
from onward.worker.recovery import SessionHandover
from onward.worker.run_recorder import RunRecorder
from onward.worker.session import SessionKeeper
from onward.worker.store_contact import StoreContact, StoreSweep
from onward.worker.ticker import Ticker

__all__ = ["Worker", "WorkerParts", "stop_all"]

logger = get_logger("onward.worker")

_WAIT, _SHORT_WAIT = 1.0, 0.1
_NEVER = float("inf")


class Worker:
    """Runs jobs until it is stopped.  ``with jobs.worker(): ...``, or ``start()`` and ``stop()``."""

    def __init__(
        self,
        parts: WorkerParts,
        options: WorkerOptions,
        *,
        clock: Callable[[], float] = boottime,
        breaker: StoreBreaker | None = None,
        recorder: RunRecorder | None = None,
        quota: Quota | None = None,
        isolated_program: Sequence[str] | None = None,
        template_program: Sequence[str] | None = None,
    ) -> None:
        """Make a worker.  ``recorder``: of a supervisor, which then renews the session and sweeps.  ``quota``: when to end.

        ``isolated_program`` starts a process for a single job, ``template_program`` the one from which these are forked.
        """
        self.options = options
        self.quota = quota or Quota()
        self.milestones = Milestones()
        runtime = replace(parts.runtime, fenced=self._fenced)
        self._parts = replace(parts, runtime=runtime)
        self._ended = OneTimeEvent()
        self._cause_of_death: BaseException | None = None
        self._pid: int | None = None  # of the process that started it
        self._recorder = recorder
        contact = StoreContact(parts.lease_for.total_seconds(), clock=clock)
        supervised = recorder is not None and parts.backend.capabilities.remote_extend
        keep = functools.partial(SessionKeeper, contact=contact, recorder=recorder, limits=parts.limits)
        keep = functools.partial(keep, description=functools.partial(described, parts, options, recorder is not None))
        self._session = session = keep(parts.backend, parts.lease_for, self, supervised=supervised)
        session.samples = parts.samples
        self._isolated = isolated = None
        if isolated_program is not None:
            make = functools.partial(IsolatedProcesses, isolated_program, template_program=template_program)
            self._isolated = isolated = make(runtime, recorder, parts.reporter, fresh=session.fresh)
        self._inflight = inflight = Inflight(options.concurrency, session.fresh, isolates=isolated is not None)
        self._deadlines = Deadlines(inflight.running, died=self.on_died)
        self._pump = Pump(
            self._parts,
            session,
            inflight,
            self,
            plan=plan_of(options, parts.backend),
            quota=self.quota,
            breaker=breaker or StoreBreaker(),
            recorder=recorder,
        )
        self._handler_threads = HandlerThreads(inflight, runtime, self._deadlines, self, isolated=isolated)
        self._handler_tasks = HandlerTasks(inflight, runtime, self, blocked_loop_after=options.blocked_loop_after)
        self._sweep = StoreSweep(contact, reap=parts.reap, prune=lambda: (parts.prune(),))

    @property
    def running(self) -> bool:
        return self._pid == os.getpid() and not self._ended.is_set()

    def start(self) -> Worker:
        """Open a session and begin to work, on daemon threads."""
        if self._pid is not None:
            raise OnwardError("this worker was started before: make a new one with jobs.worker()")
        self._parts.backend.connect()
        self._session.open(random_owner())
        self._pid = os.getpid()
        try:
            self._session.start()
            targets = [(self._pumping, "onward-pump"), (self._waking, "onward-wake")]
            if self._recorder is None:
                targets.append((self._sweeping, "onward-sweep"))
            if self._parts.tick is not None:
                targets.append((self._ticking, "onward-ticker"))
            for target, name in targets:
                threading.Thread(target=self._until_the_end, args=(target,), name=name, daemon=True).start()
        except BaseException:  # Ctrl-C: the caller will not stop a worker that did not start
            self.drain()
            raise
        return self

    def stop(self, timeout: float | None = None) -> list[str]:
        """Stop the worker: it claims nothing, gives back what has not begun, and waits for what runs.

        Returns the ids of jobs that are not settled at the deadline: they still run, or the store does not answer.  A
        thread cannot be killed: while the process runs, such jobs stay leased, and they are settled when they end.  A
        handler of this worker that calls this does not wait: it would wait for itself.
        """
        if self._pid != os.getpid():  # never started, or started before a fork, by the parent
            return []
        self.drain()
        here = threading.get_ident()
        if here not in self._handler_threads and here not in self._handler_tasks:
            self.wait(self.options.shutdown_timeout if timeout is None else timeout)
        unsettled = self._pump.unsettled_jobs()
        if unsettled:
            logger.warning("the worker was told to stop, and has not settled %s", ", ".join(unsettled))
        return unsettled

    def drain(self) -> None:
        """Begin to stop, without waiting for the end."""
        self._pump.drain()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended."""
        # Not in one call: Python runs a signal handler between two steps of the main thread.  A signal that comes just
        # before an endless step would be handled when that step ends, so never.
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

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        # To stop may take as long as `shutdown_timeout`, in which the event loop goes on.
        await asyncio.shield(asyncio.to_thread(self.stop))

    # Called by the link to its supervisor

    def renewed(self, owner: str, asked: float, renewal: Renewal) -> None:
        """Act on a renewal that the supervisor made for this worker."""
        self._session.accept_renewal(owner, asked, renewal)

    def take_over(self, handover: SessionHandover) -> None:
        """Adopt the session of a process that was killed."""
        self._pump.take_over(handover)

    @property
    def cause_of_death(self) -> BaseException | None:
        """The error that ended it; None if it was stopped or runs."""
        return self._cause_of_death

    # For diagnostics

    def whereabouts(self, job_id: str) -> Whereabouts | None:
        """Return where the handler of a job runs; None if it does not."""
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
            self.on_died(error)

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
                # A queue at its limit is not listened to, and may fall below the limit at any moment.
                longest = _WAIT if self._pump.listens_to_all else _SHORT_WAIT
                # Afterwards the pump looks for work in any case: workers that started together must not all do so at once.
                length = jittered(longest)
                if queues:
                    self._parts.backend.wait(queues, length)
                else:  # no queue of its patterns was ever seen
                    self._ended.wait(length)
            except BackendError:
                self._ended.wait(_WAIT)
            self._pump.wake()

    def _sweeping(self) -> None:
        while not self._ended.wait(self._session.contact.length / 3):
            if not (self._session.fresh() and self._session.contact.may_reap()):  # the first asks for a renewal
                continue
            try:
                for _ in self._sweep.run():
                    pass  # the session has a thread of its own
            except BackendError as error:
                if not self._pump.recovery.outage.lasts:
                    logger.warning("the sweep failed and will be tried again: %s", error)
            else:
                self.milestones.note("swept")

    def _ticking(self) -> None:
        assert self._parts.tick is not None
        outage = self._pump.recovery.outage
        every = self._parts.tick_every
        Ticker(self._parts.tick, self._ended.wait, is_outage=lambda: outage.lasts, every=every).run()

    def _end(self) -> None:
        """End the session and the threads: all is settled, or the worker died."""
        self._inflight.close()
        self._session.end()
        self._handler_threads.stop()
        self._handler_tasks.stop()
        self._deadlines.close()
        if self._isolated is not None:
            self._isolated.close()
        if self._cause_of_death is None and not self._inflight.unsettled:
            try:
                self._parts.backend.reap(owner=self._session.owner, started=(), cause="the worker stopped")
            except BackendError as error:
                logger.warning("the session could not be ended and will expire: %s", error)
            else:
                if self._parts.samples is not None:  # the store answers, so this is quick
                    self._parts.samples.finish()
        self._ended.set()
        self.milestones.note("ended")

    # What its parts report (`onward.worker.events`)

    def on_started(self, work: Work) -> None:
        if self._recorder is not None and not work.isolated:
            timeout = work.ready.terms.timeout
            self._recorder.begin(work.key, _NEVER if timeout is None else boottime() + timeout)
            if work.ready.entry.denied_by_default and work.ready.context is not None:  # it may run a program
                work.ready.context.attend(functools.partial(self._recorder.program, work.key))
        if self._parts.telemetry.wants(JobStarted):
            letter = work.ready.letter
            self._parts.telemetry.emit(
                JobStarted(id=letter.id, job=letter.job, queue=letter.queue, attempt=work.lease.attempts + 1)
            )

    def on_finished(self, work: Work, attempt: Attempt) -> None:
        if self._recorder is not None and work.ready.terms.timeout is not None:
            self._recorder.left(work.key)
        self._pump.finished(attempt)

    def on_fresh(self) -> None:
        self._inflight.wake_idle()
        self._pump.wake()

    def on_renewal(self, owner: str, renewal: Renewal) -> None:
        if not renewal.alive:
            self._pump.look()
        if renewal.sampler:
            self._parts.on_sampler()
        for key in renewal.cancel_requested:
            work = self._inflight.find(key)
            if work is not None:
                self.on_cancel_requested(work)
        for key in renewal.lost:
            work = self._inflight.find(key)
            if work is not None:
                self.on_lease_lost(work)
        self.milestones.note("renewed")

    def on_cancel_requested(self, work: Work) -> None:
        """Give back a job that waits; tell a handler that runs, and interrupt it if that is allowed."""
        if work.stopped:
            return
        if self._inflight.drop(work):
            work.stopped = True
            # The store cancels the job whatever its settlement says.
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

    def on_lease_lost(self, work: Work) -> None:
        work.lost = True
        if work.ready.context is not None:
            work.ready.context.lose()
        if work.isolated and self._isolated is not None:
            self._isolated.lease_lost(work)
        self.milestones.note("lost")

    def on_died(self, error: BaseException) -> None:
        """End the worker: a thread of its engine has died, and the others must not go on without it.

        No thread will settle what runs, so every handler is told that its lease is lost; the session expires.
        """
        if self._cause_of_death is None:
            self._cause_of_death = error
        self._inflight.close()
        self._ended.set()
        self._pump.quit()
        for work in self._inflight.everything():
            if work.ready.context is not None:
                work.ready.context.lose()
        logger.critical("the worker ends, one of its threads died: %s: %s", type(error).__name__, error, exc_info=error)

    def _fenced(self, lease: Lease, write: Callable[[Lease], bool]) -> bool | None:
        """Write under the present name of the session: the lease may have been adopted since it was claimed."""
        owner = self._session.owner
        if write(lease if lease.owner == owner else replace(lease, owner=owner)):
            return True
        # While a successor is being opened, it is not known.
        return None if self._pump.recovery.recovering or owner != self._session.owner else False


def stop_all(workers: Sequence[Worker]) -> None:
    """Stop several workers at the same time: each has its own time-out, but they do not add up."""
    for worker in workers:
        worker.drain()
    asked = time.monotonic()
    for worker in workers:
        worker.stop(max(0.0, asked + worker.options.shutdown_timeout - time.monotonic()))
