"""The worker inside a program: a pump, runner threads, an event loop, and the threads that renew and wake."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Self

from onward._attempt import Attempt
from onward.backend import Renewal
from onward.errors import BackendError, OnwardError
from onward.ids import random_owner
from onward.telemetry import JobStarted
from onward.worker.coroutines import Coroutines
from onward.worker.facts import Facts
from onward.worker.interrupt import Deadlines, JobStopped
from onward.worker.options import QueuePlan, WorkerOptions, WorkerParts
from onward.worker.pump import Pump
from onward.worker.runners import Runners
from onward.worker.session import WorkerSession
from onward.worker.work import Hand, Work

__all__ = ["Worker", "WorkerParts"]

logger = logging.getLogger("onward.worker")

_WAIT = 1.0
_PRUNE_EVERY = 60.0


class Worker:
    """Runs jobs until it is stopped.  ``with jobs.worker(): ...``, or ``start()`` and ``stop()``."""

    def __init__(self, parts: WorkerParts, options: WorkerOptions) -> None:
        self.options = options
        self.facts = Facts()
        self._parts = parts
        self._ended = threading.Event()
        self._cause_of_death: BaseException | None = None
        self._hand = Hand(options.concurrency)
        self._deadlines = Deadlines()
        self._session = WorkerSession(parts.backend, parts.lease_for, on_renewal=self._on_renewal, sweep=self._sweep)
        self._runners = Runners(
            self._hand,
            self._session,
            parts.runtime,
            self._deadlines,
            started=self._on_started,
            finished=self._on_finished,
            died=self._die,
        )
        self._coroutines = Coroutines(
            self._hand,
            self._session,
            parts.runtime,
            started=self._on_started,
            finished=self._on_finished,
            died=self._die,
        )
        self._pump = Pump(
            parts,
            self._session,
            self._hand,
            QueuePlan(options.queues, options.weights, options.limits),
            self.facts,
            feed=self._feed,
            gave_up=self._ended.is_set,
            lost=self._on_lost,
            asked_to_stop=self._stop_work,
        )
        self._threads: list[threading.Thread] = []
        self._next_prune = 0.0

    @property
    def running(self) -> bool:
        return bool(self._threads) and not self._ended.is_set()

    def start(self) -> Worker:
        """Open a session and begin to work, on threads that keep no program alive."""
        if self._threads:
            raise OnwardError("this worker was started before: make a new one with jobs.worker()")
        self._session.open(random_owner())
        self._session.start()
        for target, name in ((self._pumping, "onward-pump"), (self._waking, "onward-wake")):
            thread = threading.Thread(target=target, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self, timeout: float | None = None) -> list[str]:
        """Stop politely: claim nothing, give back what has not begun, wait for what runs.

        Returns the ids of jobs that still run at the deadline.  A thread cannot be killed: they stay renewed and are
        settled when they end, as long as the process lives.
        """
        if not self._threads:
            return []
        self._pump.drain()
        self._ended.wait(self.options.shutdown_timeout if timeout is None else timeout)
        return sorted(key[0] for key in list(self._hand.running))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended."""
        return self._ended.wait(timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The threads

    def _pumping(self) -> None:
        try:
            self._pump.run(lambda: self._ended.is_set() or (self._pump.draining and self._pump.empty))
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._die(error)
        finally:
            self._end()

    def _waking(self) -> None:
        while not self._ended.is_set():
            if not self._pump.idle.wait(_WAIT):
                continue
            try:
                self._parts.backend.wait(self.options.queues, _WAIT)
            except BackendError:
                self._ended.wait(_WAIT)
            self._pump.wake()

    def _end(self) -> None:
        """Nothing is in hand any more: end the session politely and let the threads go."""
        self._session.end()
        self._runners.stop()
        self._coroutines.stop()
        self._deadlines.close()
        if self._cause_of_death is None:
            try:
                self._parts.backend.reap(owner=self._session.owner, started=(), cause="the worker stopped")
            except BackendError as error:
                logger.warning("the session could not be ended and will expire: %s", error)
        self._ended.set()
        self.facts.note("ended")

    def _die(self, error: BaseException) -> None:
        """A thread of the engine died: the others must not go on as if nothing were."""
        logger.critical("the worker dies: %s: %s", type(error).__name__, error, exc_info=error)
        self._cause_of_death = error
        self._ended.set()
        self._pump.wake()

    # What the parts tell each other

    def _feed(self, works: Sequence[Work]) -> None:
        asynchronous = [work for work in works if work.ready.entry.is_async]
        if len(asynchronous) < len(works):
            self._runners.feed([work for work in works if not work.ready.entry.is_async] if asynchronous else works)
        if asynchronous:
            self._coroutines.feed(asynchronous)

    def _on_started(self, work: Work) -> None:
        if self._parts.telemetry.wants(JobStarted):
            letter = work.ready.letter
            self._parts.telemetry.emit(
                JobStarted(id=letter.id, job=letter.job, queue=letter.queue, attempt=work.lease.attempts + 1)
            )

    def _on_finished(self, work: Work, attempt: Attempt) -> None:
        self._pump.finished(attempt)
        if work.ready.entry.is_async:
            if self._hand.inbox:
                self._runners.nudge()
        else:
            self._coroutines.nudge()

    def _on_renewal(self, owner: str, renewal: Renewal) -> None:
        self.facts.note("renewed")
        if not renewal.alive:
            self._pump.session_died(owner)
            return
        for key in renewal.cancel_requested:
            work = self._hand.find(key)
            if work is not None:
                self._stop_work(work)

    def _stop_work(self, work: Work) -> None:
        """Somebody cancelled this job: tell its handler, and interrupt it if that is allowed."""
        if work.ready.context is not None:
            work.ready.context.ask_to_stop()
        if work.key not in self._hand.running:
            return  # it has not begun: the store turns whatever becomes of it
        if work.ready.entry.is_async:
            self._coroutines.cancel(work)
        elif work.ready.entry.definition.interrupt and work.interruption is not None:
            work.interruption.interrupt(JobStopped)

    def _on_lost(self, work: Work) -> None:
        if work.ready.context is not None:
            work.ready.context.lose()
        self.facts.note("lost")

    def _sweep(self) -> None:
        """What some worker must do for all: give back what dead ones held, and forget what is past its retention."""
        try:
            self._parts.reap()
            if time.monotonic() >= self._next_prune:
                self._next_prune = time.monotonic() + _PRUNE_EVERY
                self._parts.prune()
        except BackendError as error:
            logger.warning("the sweep failed and will be tried again: %s", error)
        else:
            self.facts.note("swept")
