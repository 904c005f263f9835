"""Running jobs one by one in the caller's thread: `process_once` and `drain`, through the real pipeline.

Time-outs hold here as in a worker: a handler is interrupted where it stands.  If the caller is itself a handler, its own
interruption waits until the cycle has ended.

A runner has one session.  It is opened by the first claim; while a handler runs, a helper thread renews it, so that a job
may take longer than a lease; and if it was reaped in between, the next claim opens a new one under a new name.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
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
from onward.backend import Backend, Claim, Counting, Held, Inline, Lease
from onward.base import forks
from onward.base.backoff import jittered
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.base.ids import random_owner
from onward.base.interruption import uninterrupted
from onward.base.names import queue_name
from onward.errors import BackendUnavailable, OnwardError, Unsupported
from onward.job.context import JobContext
from onward.job.outcome import Released
from onward.job.settlement import Settlement
from onward.telemetry import JobStarted, Telemetry
from onward.worker.event_loop import LoopThread
from onward.worker.session import session_of_this_process
from onward.worker.timed_calls import TimedCalls

__all__ = ["InlineRunner", "WorkerResult"]

_JUMPS = 10_000
_PATIENCE = 5.0  # seconds in which a settlement whose fate is unknown is repeated


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
    ) -> None:
        """``tick``: books what schedules have due, if it is time to look."""
        self._tick = tick
        self._backend = backend
        self._runtime = runtime
        self._reporter = reporter
        self._telemetry = telemetry
        self._settler = settler
        self._session = _InlineSession(backend, runtime.clock, lease_for)
        self._loop = LoopThread()
        self._calls = TimedCalls(runtime)
        # Follows a handler to the event loop and to its helper threads, as no lock could.
        self._inline = ContextVar("onward-inline", default=False)

    def process_once(self, queue: str) -> WorkerResult:
        """Claim one job, run one attempt, settle it."""
        self._tick()
        return self._next(queue_name(queue)) or WorkerResult("empty")

    def drain(self, queues: Sequence[str] | None = None, *, raising: bool = False) -> int:
        """Run what is due, everywhere unless told where, until nothing is.  Never waits.  Returns the number of cycles."""
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

    def close(self) -> None:
        self._session.close()
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
            with uninterrupted(), self._session.in_use() as owner:
                answer = self._settler.exchange(owner, (), Claim(queues=(queue,), limit=1)).result
                if answer.leases:
                    self._reporter.fetched(queue)
                    return self._cycle(answer.leases[0], watch)
                if answer.alive:
                    return None
                self._session.forget(owner)  # it was reaped while nothing ran: again, under a new name

    def _cycle(self, lease: Lease, watch: FirstError | None = None) -> WorkerResult:
        ready = prepare(lease, self._runtime)
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
        with self._session.running(ready):
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
        """Repeat a settlement whose fate is unknown; its fence makes that harmless."""
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


class _InlineSession:
    """The runner's session in the store, and the helper thread that renews it while a handler runs.

    When anything goes wrong between a claim and its settlement, an answer of the store may have been lost, and with it a
    lease that this process does not know of.  The session is *retired* then: nothing more is claimed under it, other
    threads finish what they run, and then it is ended, which gives back what it still holds.
    """

    def __init__(self, backend: Backend, clock: Clock, lease_for: timedelta) -> None:
        self._backend = backend
        self._clock = clock
        self._lease_for = lease_for
        self._pause = lease_for.total_seconds() / 3
        self._closed = False
        self._begin_anew()
        forks.watch(self)

    def before_fork(self) -> None:
        """Do nothing: the child begins anew."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._owner: str | None = None
        self._renewed_at = 0
        self._uses: Counter[str] = Counter()  # owner -> threads between claim and settlement
        self._retired: set[str] = set()
        self._running: dict[Held, tuple[str, JobContext]] = {}
        self._opening = threading.Lock()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._idle = False

    @contextmanager
    def in_use(self) -> Iterator[str]:
        """Hold the session while a job is claimed, run and settled inside; gives its owner."""
        with self._opening:
            self._end_retired()
            owner = self._alive_owner()
            self._enter(owner)
        try:
            yield owner
        except BaseException:
            self._retire(owner)
            raise
        finally:
            self._leave(owner)

    @contextmanager
    def running(self, ready: Ready) -> Iterator[None]:
        """Pass a cancellation or the loss of the lease on to the handler that runs inside."""
        key = (ready.lease.envelope.id, ready.lease.token)
        if ready.context is not None:
            self._running[key] = (ready.lease.owner, ready.context)
        try:
            yield
        finally:
            self._running.pop(key, None)

    def forget(self, owner: str) -> None:
        """Drop a session that is dead in the store."""
        with self._changed:
            if self._owner == owner:
                self._owner = None

    def close(self) -> None:
        """End the session; a thread that still runs a job goes on, and its session expires by itself."""
        with self._changed:
            self._closed = True
            if self._owner is not None:
                self._retired.add(self._owner)
                self._owner = None
            self._changed.notify_all()
        self._end_retired()

    def _retire(self, owner: str) -> None:
        with self._changed:
            self._retired.add(owner)
            if self._owner == owner:
                self._owner = None

    def _end_retired(self) -> None:
        with self._changed:
            ended = [owner for owner in self._retired if not self._uses[owner]]
        for owner in ended:
            try:
                self._backend.reap(owner=owner, started=(), cause="its session was ended")
            except OnwardError:
                return  # later, or it expires by itself
            self._retired.discard(owner)

    def _alive_owner(self) -> str:
        # Asking costs a write, so only when a good part of the lease is over: by the clock on the wall, which a machine's
        # sleep does not stop.
        if self._owner is not None and abs(self._clock.micros() - self._renewed_at) > self._pause * SECOND:
            now = self._clock.micros()
            if self._backend.extend(self._owner).alive:
                self._renewed_at = now
            else:
                self._owner = None
        return self._owner or self._open()

    def _open(self) -> str:
        owner, now = random_owner(), self._clock.micros()
        self._backend.open_session(session_of_this_process(owner, self._lease_for))
        self._owner, self._renewed_at = owner, now
        return owner

    def _enter(self, owner: str) -> None:
        with self._changed:
            self._uses[owner] += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._keep_alive, name="onward-renewal", daemon=True)
                self._thread.start()
            elif self._idle:  # waking it up for every job would cost more than many jobs do
                self._changed.notify_all()

    def _leave(self, owner: str) -> None:
        with self._changed:
            self._uses[owner] -= 1
            if self._uses[owner] <= 0:
                del self._uses[owner]
            if self._closed:
                self._changed.notify_all()

    def _keep_alive(self) -> None:
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._uses or self._closed)
                self._idle = False
                if self._changed.wait_for(lambda: self._closed and not self._uses, self._pause):
                    return
                owners = list(self._uses)
            for owner in owners:
                self._renew(owner)

    def _renew(self, owner: str) -> None:
        now = self._clock.micros()
        try:
            renewal = self._backend.extend(owner)
        except OnwardError:
            return  # the next one may get through; until the session is reaped nothing is lost
        if owner == self._owner:
            self._renewed_at = now
        for key, (claimed_by, context) in list(self._running.items()):
            if claimed_by == owner and not renewal.alive:
                context.lose()
            elif key in renewal.cancel_requested:
                context.ask_to_stop()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
