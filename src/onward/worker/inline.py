"""Running jobs one by one in the caller's thread: `process_once` and `drain`, with the same steps as a worker.

A handler is interrupted at its time-out as in a worker.  If the caller is itself a handler, its own interruption waits until
the cycle has ended.

A runner has one session.  The first claim opens it; while a handler runs, a thread renews it, so that a job may take longer
than a lease.  If the session was reaped in between, the next claim opens a new one under a new name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

from onward.attempt.attempt import Attempt, Ready, Runtime, conclude, run_async
from onward.attempt.first_error import FirstError
from onward.attempt.prepare import prepare
from onward.attempt.report import Reporter, status
from onward.attempt.settle import Exchange, Settler
from onward.backend import Backend, Claim, Counting, Held, Inline, Lease, LimitRow, Renewal
from onward.base import forks
from onward.base.backoff import jittered
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.base.ids import random_owner
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.base.names import queue_name
from onward.errors import BackendUnavailable, OnwardError, Unsupported
from onward.job.context import JobContext
from onward.job.outcome import Released
from onward.job.settlement import Settlement
from onward.telemetry import JobStarted, Telemetry
from onward.worker.event_loop import LoopThread
from onward.worker.handler_threads import TimedCalls
from onward.worker.session import SessionKeeper
from onward.worker.store_contact import StoreContact

__all__ = ["InlineRunner", "WorkerResult"]

logger = get_logger("onward")

_JUMPS = 10_000
_PATIENCE = 5.0  # seconds for which a settlement without an answer is repeated


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What one cycle did.

    ``status`` is one of ``empty acked requeued dead-lettered rejected skipped-idempotent snoozed parked released cancelled
    lease-lost``; ``attempts`` counts the runs the job has completed.
    """

    status: str
    attempts: int = 0
    error: Failure | None = None
    id: str | None = None


class InlineRunner:
    """Claims, runs and settles, one job at a time."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        reporter: Reporter,
        telemetry: Telemetry,
        settler: Settler,
        *,
        lease_for: timedelta,
        tick: Callable[[], object] = int,
        limits: Callable[[], tuple[LimitRow, ...]] = tuple,
    ) -> None:
        """``tick``: books what schedules have due, if it is time to look.  ``limits``: those that its sessions declare."""
        self._tick = tick
        self._backend = backend
        self._runtime = runtime
        self._reporter = reporter
        self._telemetry = telemetry
        self._settler = settler
        self._sessions = _InlineSessions(backend, runtime.clock, lease_for, limits)
        self._loop = LoopThread()
        self._calls = TimedCalls(runtime)
        # A context variable, not a lock: a handler on the event loop, or in a helper thread, has the caller's context.
        self._inline = ContextVar("onward-inline", default=False)

    def process_once(self, queue: str) -> WorkerResult:
        """Claim one job, run one attempt, settle it."""
        self._tick()
        return self._next(queue_name(queue)) or WorkerResult("empty")

    def drain(self, queues: Sequence[str] | None = None, *, raising: bool = False) -> int:
        """Run what is due, in all queues unless some are named, until nothing is.  Never waits.  Returns how many ran."""
        self._tick()
        return self._drain(queues, raising=raising)

    def _drain(self, queues: Sequence[str] | None = None, *, raising: bool = False) -> int:
        cycles = 0
        watch = FirstError() if raising else None
        named = None if queues is None else [queue_name(queue) for queue in queues]
        while True:
            found = 0
            for queue in self._queues() if named is None else named:
                while self._next(queue, watch) is not None:
                    found += 1
                    if watch is not None:
                        watch.raise_it()
            if found == 0:
                return cycles
            cycles += found

    def run_inline(self) -> None:
        """Run what was just enqueued, and what that leads to, however far in the future it is due."""
        assert isinstance(self._backend, Inline)
        if self._inline.get():  # a handler enqueues: its jobs run after it
            return
        inside = self._inline.set(True)
        try:
            for _ in range(_JUMPS):
                self._drain()  # no ticks: it would jump from one to the next for ever
                if not self._backend.jump():
                    return
            raise OnwardError(
                f"after {_JUMPS:,} rounds jobs still come back: does one snooze or enqueue itself for ever?"
            )
        finally:
            self._inline.reset(inside)

    def run_due(self) -> None:
        """Run what is due, and what that leads to at once; the clock does not jump to what is due later.

        If it did, from inside a handler, the next ticks of its schedule would come before it has ended.
        """
        inside = self._inline.set(True)
        try:
            self._drain()
        finally:
            self._inline.reset(inside)

    def close(self) -> None:
        self._sessions.close()
        self._loop.close()
        self._calls.close()

    def _queues(self) -> Sequence[str]:
        if not isinstance(self._backend, Counting):
            raise Unsupported("this store cannot say which queues it has: name them, drain('default', …)")
        return [queue.name for queue in self._backend.queues() if queue.live and not queue.paused]

    def _next(self, queue: str, watch: FirstError | None = None) -> WorkerResult | None:
        """Run one cycle; None if nothing is due."""
        while True:
            # A handler that calls this may be interrupted between two cycles, and never in the middle of one.
            with uninterrupted(), self._sessions.in_use() as session:
                answer = self._settler.exchange(session.owner, (), Claim(queues=(queue,), limit=1)).result
                if answer.leases:
                    return self._cycle(answer.leases[0], watch)
                if answer.alive and not answer.more:
                    return None
                if not answer.alive:
                    session.declare_dead()  # it was reaped while nothing ran: again, under a new name

    def _cycle(self, lease: Lease, watch: FirstError | None = None) -> WorkerResult:
        ready = prepare(lease, self._runtime)
        self._reporter.fetched([ready])
        if not isinstance(ready, Ready):
            return self._settle(ready)
        try:
            attempt = self._run(ready) if watch is None else watch.watching(ready, self._run)
        except (
            KeyboardInterrupt
        ):  # of this program, not a failure of the job; its code has ended, so it can be given back
            self._settle(Attempt(lease=lease, letter=ready.letter, outcome=Released()))
            raise
        return self._settle(attempt)

    def _run(self, ready: Ready) -> Attempt:
        if self._telemetry.wants(JobStarted):
            letter = ready.letter
            self._telemetry.emit(
                JobStarted(id=letter.id, job=letter.job, queue=letter.queue, attempt=ready.lease.attempts + 1)
            )
        with self._sessions.running(ready):
            if ready.entry.is_async:
                return self._run_async(ready)
            attempt = self._calls.run(ready)
        if attempt.failure is not None and attempt.failure.kind == "KeyboardInterrupt" and _in_main_thread():
            raise KeyboardInterrupt
        return attempt

    def _run_async(self, ready: Ready) -> Attempt:
        try:
            return self._loop.run(run_async(ready, self._runtime))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  its task was cancelled before it began
            return conclude(ready, self._runtime, None, error, 0)

    def _settle(self, attempt: Attempt) -> WorkerResult:
        made = self._persistently(attempt.lease.owner, self._settler.settlement(attempt))
        (really,), (answer,) = made.settlements, made.result.settled
        self._reporter.settled([attempt], [really], [answer])
        return WorkerResult(
            status=status(attempt, really, answer),
            attempts=attempt.lease.attempts + really.ran,
            error=really.failure or attempt.failure,
            id=attempt.lease.envelope.id,
        )

    def _persistently(self, owner: str, item: Settlement) -> Exchange:
        """Repeat a settlement until the store answers; its fence makes that harmless."""
        deadline = time.monotonic() + _PATIENCE
        pause = 0.01
        while True:
            try:
                return self._settler.exchange(owner, [item])
            except BackendUnavailable:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(jittered(pause))
            pause = min(pause * 2, 1.0)


class _InlineSessions:
    """The session that the runner claims under, and those before it that a thread still uses.

    When a call fails between a claim and its settlement, an answer of the store may have been lost, and with it a lease that
    this process does not know of.  The runner then *retires* the session: it claims nothing more under it, other threads
    finish what they run, and then it ends the session, which gives back what that still holds.
    """

    def __init__(
        self, backend: Backend, clock: Clock, lease_for: timedelta, limits: Callable[[], tuple[LimitRow, ...]]
    ) -> None:
        self._limits = limits
        self._backend = backend
        self._clock = clock
        self._lease_for = lease_for
        self._closed = False
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        self._current: SessionKeeper | None = None
        self._declared: tuple[LimitRow, ...] = ()
        self._retired: set[SessionKeeper] = set()
        self._running: dict[Held, tuple[str, JobContext]] = {}
        self._opening = threading.Lock()
        self._changing = threading.Lock()

    @contextmanager
    def in_use(self) -> Iterator[SessionKeeper]:
        """Hold a session while a job is claimed, run and settled inside."""
        with self._opening:
            self._end_retired()
            session = self._living()
            session.start()
        try:
            yield session
        except BaseException:
            self.retire(session)
            raise
        finally:
            if session.stop() and self._closed:
                session.end()

    @contextmanager
    def running(self, ready: Ready) -> Iterator[None]:
        """Pass a cancellation or the loss of the lease on to the handler that runs inside the block."""
        key = (ready.lease.envelope.id, ready.lease.token)
        if ready.context is not None:
            self._running[key] = (ready.lease.owner, ready.context)
        try:
            yield
        finally:
            self._running.pop(key, None)

    def retire(self, session: SessionKeeper) -> None:
        """Claim nothing more under a session."""
        with self._changing:
            self._retired.add(session)
            if self._current is session:
                self._current = None

    def close(self) -> None:
        """End the session; a thread that still runs a job goes on, and its session expires by itself."""
        self._closed = True
        if self._current is not None:
            self.retire(self._current)
        self._end_retired()

    def _end_retired(self) -> None:
        with self._changing:
            unused = [session for session in self._retired if not session.in_use]
        for session in unused:
            try:
                if not session.is_dead:
                    self._backend.reap(owner=session.owner, started=(), cause="its session was ended")
            except OnwardError:
                return  # later, or it expires by itself
            session.end()
            self._retired.discard(session)

    def _living(self) -> SessionKeeper:
        # Asking costs a write, so only when a good part of the lease is over, by the wall clock: it goes on while a machine
        # is suspended.
        session = self._current
        if session is not None and session.is_old():
            session.ask()
        if session is not None and session.is_dead:
            self.retire(session)
        if self._current is None:
            length = self._lease_for.total_seconds()
            contact = StoreContact(length, clock=lambda: self._clock.micros() / SECOND)
            session = SessionKeeper(self._backend, self._lease_for, self, contact=contact, limits=self._limits)
            self._declared = self._limits()
            session.open(random_owner())
            self._current = session
        elif self._declared != self._limits():  # a job was defined since
            self._declared = self._limits()
            self._current.open(self._current.owner)
        return self._current

    # What a session reports (`onward.worker.session`)

    def on_renewal(self, owner: str, renewal: Renewal) -> None:
        for key, (claimed_by, context) in list(self._running.items()):
            if claimed_by == owner and not renewal.alive:
                context.lose()
            elif key in renewal.cancel_requested:
                context.ask_to_stop()

    def on_fresh(self) -> None:
        """Do nothing: no thread waits for that here."""

    def on_died(self, error: BaseException) -> None:
        logger.critical("the thread that renews the session died: %s", error, exc_info=error)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
