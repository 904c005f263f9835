"""Running jobs one by one in the caller's thread: `process_once` and `drain`, through the real pipeline.

A runner has one session.  It is opened by the first claim; while a handler runs, a helper thread renews it, so that a job
may take longer than a lease; and if it was reaped in between, the next claim opens a new one under a new name.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from onward._attempt import Attempt, Ready, Runtime, prepare, run, run_async
from onward._ledger import Ledger
from onward._settle import DeadLetterCopy, exchange, settlement
from onward.backend import Backend, Claim, Inline, Inspection, Lease, Session
from onward.context import JobContext
from onward.errors import BackendUnavailable, OnwardError
from onward.event_loop import LoopThread
from onward.failure import Failure
from onward.ids import random_owner
from onward.lease import Settled, Settlement
from onward.outcome import Dead, Released
from onward.states import State
from onward.telemetry import JobStarted, Telemetry
from onward.version import __version__

__all__ = ["Runner", "WorkerResult"]

_JUMPS = 10_000


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


class Runner:
    """Claims, runs and settles, one job at a time."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        ledger: Ledger,
        telemetry: Telemetry,
        *,
        lease_for: timedelta,
        keep_completed: bool,
        drop_dead: bool,
        dead_letter_copy: DeadLetterCopy,
    ) -> None:
        self._backend = backend
        self._runtime = runtime
        self._ledger = ledger
        self._telemetry = telemetry
        self._keep = keep_completed
        self._drop_dead = drop_dead
        self._dead_letter_copy = dead_letter_copy
        self._session = _RunnerSession(backend, lease_for)
        self._loop = LoopThread()
        self._inline = threading.RLock()
        self._inline_running = False

    def process_once(self, queue: str) -> WorkerResult:
        """Exactly one cycle: claim one job, run one attempt, settle it."""
        lease = self._claim((queue,))
        if lease is None:
            return WorkerResult("empty")
        return self._cycle(lease)

    def drain(self, queues: Sequence[str] | None = None) -> int:
        """Run what is due, everywhere unless told where, until nothing is.  Never waits.  Returns the number of cycles."""
        cycles = 0
        while True:
            found = 0
            for queue in queues if queues is not None else self._queues():
                while (lease := self._claim((queue,))) is not None:
                    self._cycle(lease)
                    found += 1
            if found == 0:
                return cycles
            cycles += found

    def run_inline(self) -> None:
        """Run what was just enqueued, and what that leads to, however far in the future it is due."""
        assert isinstance(self._backend, Inline)
        with self._inline:
            if self._inline_running:  # a handler enqueues: its jobs run after it
                return
            self._inline_running = True
            try:
                for _ in range(_JUMPS):
                    self.drain()
                    if not self._backend.jump():
                        return
                raise OnwardError(
                    f"after {_JUMPS:,} rounds jobs still come back: does one snooze or enqueue itself for ever?"
                )
            finally:
                self._inline_running = False

    def close(self) -> None:
        self._session.close()
        self._loop.close()

    def _queues(self) -> Sequence[str]:
        assert isinstance(self._backend, Inspection)
        return [queue.name for queue in self._backend.queues() if queue.live and not queue.paused]

    def _claim(self, queues: tuple[str, ...]) -> Lease | None:
        leases = self._session.claim(Claim(queues=queues, limit=1))
        if not leases:
            return None
        self._ledger.fetched(leases[0].envelope.queue)
        return leases[0]

    def _cycle(self, lease: Lease) -> WorkerResult:
        ready = prepare(lease, self._runtime)
        attempt = self._run(ready) if isinstance(ready, Ready) else ready
        interrupted = _interrupted(attempt)
        if interrupted:  # Ctrl-C is an interruption of this program, not a failure of the job
            attempt = msgspec.structs.replace(attempt, outcome=Released(), failure=None)
        result = self._settle(attempt)
        if interrupted:
            raise KeyboardInterrupt
        return result

    def _run(self, ready: Ready) -> Attempt:
        if self._telemetry.wants(JobStarted):
            letter = ready.letter
            self._telemetry.emit(
                JobStarted(id=letter.id, job=letter.job, queue=letter.queue, attempt=ready.lease.attempts + 1)
            )
        with self._session.running(ready):
            if ready.entry.is_async:
                return self._loop.run(run_async(ready, self._runtime))
            return run(ready, self._runtime)

    def _settle(self, attempt: Attempt) -> WorkerResult:
        item = settlement(attempt, keep=self._keep, dead_letter_copy=self._dead_letter_copy)
        made = exchange(self._backend, attempt.lease.owner, [item], drop_dead=self._drop_dead)
        (really,), (answer,) = made.settlements, made.result.settled
        self._ledger.settled([attempt], [really], [answer])
        return WorkerResult(
            status=_status(attempt, really, answer),
            attempts=attempt.lease.attempts + really.ran,
            error=really.failure or attempt.failure,
            id=attempt.lease.envelope.id,
        )


class _RunnerSession:
    """The runner's session, and the helper thread that renews it while something runs."""

    def __init__(self, backend: Backend, lease_for: timedelta) -> None:
        self._backend = backend
        self._lease_for = lease_for
        self._pause = lease_for.total_seconds() / 3
        self._owner: str | None = None
        self._renewed = 0.0
        self._pid = os.getpid()
        self._running: dict[tuple[str, int], JobContext | None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def claim(self, claim: Claim) -> list[Lease]:
        """Claim under the session, which is renewed or opened anew if need be."""
        owner = self._alive_owner()
        answer = exchange(self._backend, owner, (), claim).result
        if not answer.alive:  # it was reaped while nothing ran: a new one under a new name
            owner = self._open()
            answer = exchange(self._backend, owner, (), claim).result
        return answer.leases

    def running(self, ready: Ready) -> _Running:
        return _Running(self, (ready.lease.envelope.id, ready.lease.token), ready.context)

    def close(self) -> None:
        """End politely: nothing runs any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        owner, self._owner = self._owner, None
        if owner is not None and self._pid == os.getpid() and not self._running:
            try:
                self._backend.reap(owner=owner, started=(), cause="the program closed")
            except OnwardError:
                return  # the session expires by itself

    def enter(self, key: tuple[str, int], context: JobContext | None) -> None:
        with self._changed:
            self._running[key] = context
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._keep_alive, name="onward-renewal", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def leave(self, key: tuple[str, int]) -> None:
        with self._changed:
            self._running.pop(key, None)

    def _alive_owner(self) -> str:
        if self._owner is None or self._pid != os.getpid():
            return self._open()
        # Asking costs a write, so only when a good part of the lease is over.
        if time.monotonic() - self._renewed > self._pause:
            if not self._backend.extend(self._owner).alive:
                return self._open()
            self._renewed = time.monotonic()
        return self._owner

    def _open(self) -> str:
        owner = random_owner()
        self._backend.open_session(
            Session(owner=owner, lease_for=self._lease_for, host=platform.node(), pid=os.getpid(), version=__version__)
        )
        self._owner, self._pid, self._renewed = owner, os.getpid(), time.monotonic()
        return owner

    def _keep_alive(self) -> None:
        while True:
            with self._changed:
                while not self._running and not self._closed:
                    self._changed.wait()
                if self._closed and not self._running:
                    return
                self._changed.wait(self._pause)
                running, owner = dict(self._running), self._owner
            if running and owner is not None:
                self._renew(owner, running)

    def _renew(self, owner: str, running: dict[tuple[str, int], JobContext | None]) -> None:
        try:
            renewal = self._backend.extend(owner)
        except BackendUnavailable:
            return  # the next one may get through; until the session is reaped nothing is lost
        self._renewed = time.monotonic()
        for key, context in running.items():
            if context is not None and not renewal.alive:
                context.lose()
            elif context is not None and key in renewal.cancel_requested:
                context.ask_to_stop()


class _Running:
    """While this is open, the session is renewed."""

    __slots__ = ("_context", "_key", "_session")

    def __init__(self, session: _RunnerSession, key: tuple[str, int], context: JobContext | None) -> None:
        self._session = session
        self._key = key
        self._context = context

    def __enter__(self) -> None:
        self._session.enter(self._key, self._context)

    def __exit__(self, *_: object) -> None:
        self._session.leave(self._key)


def _interrupted(attempt: Attempt) -> bool:
    return (
        attempt.failure is not None
        and attempt.failure.kind == "KeyboardInterrupt"
        and threading.current_thread() is threading.main_thread()
    )


_STATUS = {
    "ack": "acked",
    "skip": "skipped-idempotent",
    "nack": "requeued",
    "abandon": "dead-lettered",
    "snooze": "snoozed",
    "park": "parked",
    "cancelled": "cancelled",
    "release": "released",
}


def _status(attempt: Attempt, item: Settlement, answer: Settled) -> str:
    if not answer.counts:
        return "lease-lost"
    if answer.state is State.CANCELLED:
        return "cancelled"
    if item.move == "abandon" and isinstance(attempt.outcome, Dead) and attempt.outcome.cause == "rejected":
        return "rejected"
    return _STATUS[item.move]
