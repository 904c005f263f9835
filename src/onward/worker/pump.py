"""The pump: the one thread of a worker that claims and settles.

    opening ──▶ pumping ──stop──▶ draining ──▶ ended
                 │  ▲                 │ ▲
           no answer │           no answer │
                 ▼  │                 ▼ │
               recovering           recovering

**Pumping.**  One turn after the other: the pump settles what has ended since the last turn (`onward.worker.outbox`) and
claims for the slots that are free, in one exchange.  Results that come during a turn are sent with the next one: one job at
a time costs one turn to claim it and one to settle it, ten thousand a second cost a few dozen turns.  There are no timers.
A claim that got less than it asked for has emptied the store; after one that got all, or a turn that promoted or put back
jobs that are due, the pump claims again.  Otherwise it parks, and is woken by a result, by the wake thread
(`backend.wait`), by a session that is fresh again, or by the order to stop.

**A lease is unsettled** while its job waits, runs, or has ended and is in the outbox.  The pump forgets it when the store
has answered its settlement or is known not to hold it, never before.  A job that waits longer than a second while others
run is given back: another worker may be idle.

**Recovering** is `onward.worker.recovery`.

**Draining.**  The pump claims nothing, releases what has not begun, waits for running handlers until the deadline, settles
them and ends the session.  A thread cannot be killed: the lease of a handler that still runs at the deadline is kept and
renewed until the handler or the process ends.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from onward.attempt.attempt import Attempt, Ready
from onward.attempt.prepare import prepare
from onward.attempt.settle import Exchange
from onward.backend import Claim, Lease
from onward.errors import BackendError
from onward.worker.breaker import StoreBreaker
from onward.worker.events import WorkerEvents
from onward.worker.inflight import Inflight, Prefetch, Quota, Work
from onward.worker.options import QueuePlan, WorkerParts
from onward.worker.outbox import Outbox, key_of
from onward.worker.recovery import Recovery, SessionHandover
from onward.worker.run_recorder import RunRecorder
from onward.worker.session import SessionKeeper

__all__ = ["Pump"]

_LONGEST_WAIT = 1.0  # seconds that a claimed job waits for a slot
_NO_LIMIT = 1_000_000  # leases
_MOST_ADOPTED = 1000  # leases that an adoption may bring
_PARKED_AT_MOST = 1.0
_QUICK_JOBS_TAKE_LESS = 0.002
_PUT_BACK = frozenset(("nack", "release", "snooze", "crashed"))  # moves after which a job may be due at once


class Pump:
    """Settles and claims, turn by turn."""

    def __init__(
        self,
        parts: WorkerParts,
        session: SessionKeeper,
        inflight: Inflight,
        events: WorkerEvents,
        *,
        plan: QueuePlan,
        quota: Quota,
        breaker: StoreBreaker,
        recorder: RunRecorder | None,
    ) -> None:
        self._parts = parts
        self._session = session
        self._inflight = inflight
        self._unsettled = inflight.unsettled
        self._events = events
        self._milestones = events.milestones
        self._plan = plan
        self._quota = quota
        self._recorder = recorder
        self._capacity = _NO_LIMIT if recorder is None else recorder.capacity
        self._outbox = Outbox(parts, session)
        self.recovery = Recovery(
            session,
            inflight,
            self._outbox,
            events,
            runtime=parts.runtime,
            breaker=breaker,
            recorder=recorder,
            accept=self._accept_leases,
        )
        self._prefetch = Prefetch(
            inflight.concurrency,
            at_once=parts.backend.claims_at_once,
            ahead=parts.backend.capabilities.prefetches,
        )
        self._order = 0
        self._wakeup = threading.Event()
        self._parked = False
        self._may_be_work = True
        self._awaits_slots = False  # what waits in the store can be claimed when a handler has ended: only that wakes
        self._quit = False
        self.draining = False
        self.idle = threading.Event()  # set while only the store can bring new work
        self.listening: tuple[str, ...] = plan.queues  # from which queues
        self.listens_to_all = True  # False: a queue at its limit is left out
        self._listens = False

    # Called by other threads

    def finished(self, attempt: Attempt) -> None:
        """Settle an attempt in the next turn."""
        self._outbox.finished.append(attempt)
        if self._parked and not self._wakeup.is_set():  # waking a thread that is on the way costs as much as a job
            self._wakeup.set()

    def wake(self) -> None:
        """Look for work."""
        self.idle.clear()
        self._may_be_work = True
        self._wakeup.set()

    def look(self) -> None:
        """Look whether the session is dead."""
        self._wakeup.set()

    def take_over(self, handover: SessionHandover) -> None:
        """Adopt the session of a process that was killed."""
        self.recovery.handovers.append(handover)
        self._wakeup.set()

    def drain(self) -> None:
        """Claim nothing any more, settle what is unsettled, then end."""
        if self.draining:  # a signal handler may call this during another call of it: no lock is taken twice
            return
        self.draining = True
        self._wakeup.set()
        self.recovery.drain()

    def quit(self) -> None:
        """End at once."""
        self._quit = True
        self._wakeup.set()
        self.recovery.quit()

    def unsettled_jobs(self) -> list[str]:
        """Return the ids of the jobs that are not settled yet."""
        return sorted({job_id for job_id, _ in list(self._unsettled)})

    # The loop

    def run(self) -> None:
        """Make turn after turn, until all is settled after the order to drain."""
        while not self._quit and not (self.draining and not self._unsettled):
            if self._recorder is not None:
                self._recorder.beat()
            if self.recovery.handovers:
                self.recovery.take_over()
            if self._session.is_dead:
                self.recovery.replace_session()
                self._may_be_work = True
                continue
            try:
                self._collect()
                claim = self._claim()
            except BackendError as error:
                self._may_be_work = True
                self.recovery.wait_out(error)
                continue
            if self._outbox.items or claim is not None:
                self._turn(claim)
            else:
                self._park()

    def _collect(self) -> None:
        """Put into the outbox what has ended, and what has waited too long."""
        finished, took = self._outbox.collect()
        now = time.monotonic()
        if finished:
            self._prefetch.finished(finished, took / 1000, now)
        overdue = self._inflight.withdraw(older_than=None if self.draining else now - _LONGEST_WAIT)
        if overdue:
            self._prefetch.forget()
            self._milestones.note("given back", len(overdue))
            self._outbox.release(overdue)

    def _claim(self) -> Claim | None:
        """Decide what to ask for, and what to listen to if there is nothing to ask for."""
        self._listens = False
        if self.draining or not self._session.fresh():
            return None
        unsettled = len(self._unsettled)
        if self._quota.recycles and self._inflight.oldest() is None:
            self._quota.all_begun(unsettled)
        wanted = self._prefetch.wanted(unsettled - len(self._outbox.items), time.monotonic())
        room = self._capacity - unsettled - _MOST_ADOPTED
        wanted = min(wanted, room, self._quota.left(unsettled))
        if wanted <= 0:
            return None
        may_be_work = self._may_be_work
        if may_be_work and self._plan.open_ended:
            self._may_be_work = False  # this look may miss a job that is enqueued from now on
            self._plan.look(self._parts.backend)
        at_most = self._room() if self._plan.limited else {}
        ordered = self._plan.fixed_order or self._plan.order()
        queues = tuple(queue for queue in ordered if at_most.get(queue, 1) > 0)
        if queues and (may_be_work or self._outbox.items):
            if not self._plan.open_ended:
                self._may_be_work = False  # this claim may miss a job that is enqueued from now on
            begins = max(0, self._inflight.concurrency - (unsettled - len(self._outbox.items)))
            return Claim(queues=queues, limit=wanted, at_most=at_most, begins=begins)
        if (queues or self._plan.open_ended) and not self._awaits_slots:
            self.listening, self._listens = self._plan.listened(queues), True
            self.listens_to_all = len(queues) == len(ordered)
        return None

    def _room(self) -> dict[str, int]:
        """Return for each limited queue how many more of its jobs may be claimed."""
        inflight = Counter(self._unsettled.values())
        inflight.subtract(self._outbox.count_by_queue())
        return self._plan.room(inflight)

    def _turn(self, claim: Claim | None) -> None:
        asked = time.perf_counter()
        try:
            made = self._outbox.exchange(claim)
        except BackendError as error:
            self._may_be_work = True
            self.recovery.recover(error)
            return
        if self._recorder is not None:
            self._recorder.turned(time.perf_counter() - asked, self._parts.telemetry.dropped)
        if self.recovery.failing:
            self.recovery.answered()
        if self._outbox.items:
            keys = self._outbox.keys()
            for key in keys:
                self._unsettled.pop(key, None)
            if self._recorder is not None:
                self._recorder.end(keys)
            self._quota.ran(sum(item.move != "release" for item in made.settlements))
            self._outbox.report(made)
            self._milestones.note("settled", len(keys))
        self._milestones.note("turn")
        if made.result.alive:
            self._after(claim, made)
        else:
            self._session.declare_dead()

    def _after(self, claim: Claim | None, made: Exchange) -> None:
        result = made.result
        for key in result.cancel_requested:
            work = self._inflight.find(key)
            if work is not None:
                self._events.on_cancel_requested(work)
        self._accept_leases(result.leases)
        if claim is not None:
            self._awaits_slots = result.awaits_slots
            all_it_asked_for = len(result.leases) >= claim.limit or any(lease.crashes for lease in result.leases)
            if all_it_asked_for or result.more or result.promoted > 0 or self._plan.emptied(claim.queues):
                self._may_be_work = True
            if not result.leases and not self._unsettled:
                self._prefetch.forget()
                self._inflight.open_all()
        if any(item.move in _PUT_BACK and item.delay <= 0 for item in made.settlements):
            self._may_be_work = True

    def _accept_leases(self, leases: Sequence[Lease]) -> None:
        """Pass new leases that can run to the handler threads; those that cannot have ended already."""
        if not leases:
            return
        now = time.monotonic()
        works: list[Work] = []
        opened: list[Ready | Attempt] = []
        inherited: list[Ready | Attempt] = []
        verdicts, runtime = self.recovery.verdicts, self._parts.runtime
        for lease in leases:
            key = key_of(lease)
            self._unsettled[key] = lease.envelope.queue
            if verdicts and key in verdicts:
                ready = self.recovery.fate_of_inherited(lease)
                inherited.append(ready)
            else:
                ready = prepare(lease, runtime)
                opened.append(ready)
            if isinstance(ready, Ready):
                self._order += 1
                works.append(Work(ready, key, order=self._order, claimed=now))
            else:
                self._outbox.finished.append(ready)
        self._parts.reporter.fetched(opened)
        if inherited:
            self._parts.reporter.fetched(inherited, inherited=True)
        self._milestones.note("claimed", len(leases))
        self._prefetch.claimed(now)
        self._inflight.add(works)

    def _park(self) -> None:
        """Block until woken, or until a job that waits has waited too long."""
        self._parked = True
        if self._listens:
            self.idle.set()
            self._milestones.note("idle")
            if not self._unsettled:
                self._quota.found_nothing()
        if not self._outbox.finished:
            oldest = self._inflight.oldest()
            until = _PARKED_AT_MOST if oldest is None else oldest + _LONGEST_WAIT - time.monotonic()
            longest = _QUICK_JOBS_TAKE_LESS if self._inflight.holds_back else _PARKED_AT_MOST
            self._wakeup.wait(max(0.0, min(until, longest)))
            if self._inflight.holds_back and not self._outbox.finished:
                self._inflight.open_all()
        self._parked = False
        self.idle.clear()
        self._wakeup.clear()  # before looking at what it was set for
