"""The pump: the one thread of a worker that talks to the store about jobs.

    opening ──▶ pumping ──stop──▶ draining ──▶ ended
                 │  ▲                 │ ▲
           no answer │           no answer │
                 ▼  │                 ▼ │
               recovering           recovering

**Pumping.**  One turn after the other: what was finished since the last turn is settled, what is free is claimed, in
one exchange.  While a turn is in flight results pile up and ride in the next: one job at a time costs one turn to claim
it and one to settle it, ten thousand a second cost a few dozen.  There are no timers.  A claim that got less than it asked
for has emptied the store; after one that got all, or a turn that promoted or put back what is due, it claims again.
Otherwise it parks, and is woken by a result, by the wake thread (`backend.wait`), by a session that is fresh again, or by
the order to stop.

**What is known** is waiting, running, or finished and unanswered (the outbox).  A lease is forgotten when the store has
answered its settlement or is known not to hold it, never before.  What waits longer than a second while others run is given
back: somebody else may be idle.

**Recovering.**  A turn without an answer may have happened.  The pump opens a *successor* session that adopts the old
one: in one transaction the old session is deleted and its leases change owner.  A late copy of the lost turn either
came first, and is seen, or finds its session gone and does nothing.  What the successor holds and the hand does not
know is taken up; what the hand knows and the successor does not hold is lost, unless it is in the outbox: that is
settled again under the new name, and the store says `already_applied` if the lost turn did it.  Until the store answers,
nothing that waits is begun.

**A dead session** (the store says so in a turn or a renewal: it was reaped, or this is another store): what waits is
dropped; what runs is told that its lease is lost; a new session is opened under a new name.

**Draining.**  Nothing is claimed; what has not begun is released; what runs is awaited until the deadline, settled,
and the session ended.  A thread cannot be killed: what still runs at the deadline stays in hand, renewed, until it
ends by itself or the process does.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from onward.attempt.attempt import Attempt, Ready, conclude
from onward.attempt.prepare import prepare
from onward.attempt.settle import reaped_alone
from onward.backend import Claim, Lease, TurnResult
from onward.base.ids import random_owner
from onward.base.logs import get_logger
from onward.base.outage import Outage
from onward.base.wording import counted
from onward.errors import BackendError, JobTimeout
from onward.job.outcome import Crashed, Released
from onward.job.settlement import Settled, Settlement, already_applied
from onward.job.states import TARGETS
from onward.worker.breaker import Breaker
from onward.worker.inflight import Inflight, Key, Work
from onward.worker.isolated import IsolatedProcesses
from onward.worker.milestones import Milestones
from onward.worker.options import QueuePlan, WorkerParts
from onward.worker.prefetch import Prefetch
from onward.worker.quota import Quota
from onward.worker.run_recorder import RunRecorder
from onward.worker.session import WorkerSession

__all__ = ["Pump", "SessionHandover"]

logger = get_logger("onward.worker")

_LONGEST_WAIT = 1.0
_LARGEST_SURPRISE = 1000  # leases that an adoption may bring
_PARKED_AT_MOST = 1.0
_QUICK_JOBS_TAKE_LESS = 0.002


class SessionHandover(NamedTuple):
    """The session of a process that was killed, what had failed there, and what was only interrupted."""

    owner: str
    verdicts: dict[Key, JobTimeout | None]
    adopted: Callable[[], None]


class Pump:
    """Settles and claims, turn by turn."""

    def __init__(
        self,
        parts: WorkerParts,
        session: WorkerSession,
        inflight: Inflight,
        *,
        plan: QueuePlan,
        quota: Quota,
        milestones: Milestones,
        breaker: Breaker,
        recorder: RunRecorder,
        isolated: IsolatedProcesses | None,
        lost: Callable[[Work], None],
        asked_to_stop: Callable[[Work], None],
        gave_back: Callable[[int], None],
    ) -> None:
        self._parts = parts
        self._session = session
        self._inflight = inflight
        self._quota = quota
        self._plan = plan
        self._milestones = milestones
        self._breaker = breaker
        self.outage = Outage(logger)
        self._recorder = recorder
        self._isolated = isolated
        self._lost = lost
        self._asked_to_stop = asked_to_stop
        self._gave_back = gave_back
        self._prefetch = Prefetch(inflight.concurrency, ahead=parts.backend.capabilities.prefetches)
        self._done: deque[Attempt] = deque()
        self._known: dict[Key, str] = {}  # every lease in hand or outbox, with its queue; only this thread changes it
        self._order = 0
        self._outbox: list[tuple[Attempt, Settlement]] = []
        self._sent: set[Key] = set()  # of the outbox, what was sent before and not answered
        self._applied: set[Key] = set()  # of those, what is known to have been applied
        self._handovers: deque[SessionHandover] = deque()
        self._verdicts: dict[Key, JobTimeout | None] = {}  # of leases that an inheritance brings
        self._wakeup = threading.Event()
        self._stop_waiting = threading.Event()
        self._parked = False
        self._may_be_work = True
        self._dead: str | None = None  # the owner whose session the store says is gone
        self._quit = False
        self.draining = False
        self.recovering = False
        self.idle = threading.Event()  # set while only the store can bring new work
        self.listening: tuple[str, ...] = plan.queues  # from which queues
        self.hears_all = True  # whether none is left out, for being at its limit
        self._listens = False

    # From other threads

    def finished(self, attempt: Attempt) -> None:
        """A run came to its end."""
        self._done.append(attempt)
        if self._parked and not self._wakeup.is_set():  # to call somebody who is on the way costs as much as a job
            self._wakeup.set()

    def wake(self) -> None:
        """There may be work."""
        self.idle.clear()
        self._may_be_work = True
        self._wakeup.set()

    def take_over(self, handover: SessionHandover) -> None:
        """Adopt the session of a process that was killed."""
        self._handovers.append(handover)
        self._wakeup.set()

    def session_died(self, owner: str) -> None:
        self._dead = owner
        self._wakeup.set()

    def drain(self) -> None:
        """Claim nothing any more, settle what is known, then end."""
        if self.draining:  # a signal's handler may call this in the middle of itself: no lock is taken twice
            return
        self.draining = True
        self._wakeup.set()
        self._stop_waiting.set()

    def quit(self) -> None:
        """End at once."""
        self._quit = True
        self._wakeup.set()
        self._stop_waiting.set()

    def known(self) -> list[str]:
        """The jobs that are not settled yet."""
        return sorted({job_id for job_id, _ in list(self._known)})

    # The loop

    def run(self) -> None:
        """Turn after turn, until all is settled after the order to drain."""
        while not self._quit and not (self.draining and not self._known):
            self._recorder.beat()
            if self._handovers:
                self._take_over()
            if self._dead == self._session.owner:
                self._replace_session()
                continue
            try:
                self._collect()
                claim = self._claim()
            except BackendError as error:
                self._may_be_work = True
                self._wait_out(error)
                continue
            if self._outbox or claim is not None:
                self._turn(claim)
            else:
                self._park()

    def _collect(self) -> None:
        """What was finished becomes settlements; what has waited too long is given back."""
        finished, took, done = 0, 0, self._done
        while done:
            attempt = done[0]
            self._outbox.append((attempt, self._settlement(attempt)))
            done.popleft()
            finished += 1
            took += attempt.duration_ms
        now = time.monotonic()
        if finished:
            self._prefetch.finished(finished, took / 1000, now)
        overdue = self._inflight.withdraw(older_than=None if self.draining else now - _LONGEST_WAIT)
        if overdue:
            self._prefetch.forget()
            self._gave_back(len(overdue))
            for work in overdue:
                attempt = Attempt(lease=work.lease, letter=work.ready.letter, outcome=Released())
                self._outbox.append((attempt, self._settlement(attempt)))

    def _settlement(self, attempt: Attempt) -> Settlement:
        if attempt.lease.owner != self._session.owner:  # it was adopted while it ran
            attempt = msgspec.structs.replace(attempt, lease=_under(attempt.lease, self._session.owner))
        return self._parts.settler.settlement(attempt)

    def _claim(self) -> Claim | None:
        """What to ask for, and what to listen to if there is nothing to ask for."""
        self._listens = False
        if self.draining or not self._session.fresh():
            return None
        if self._inflight.oldest() is None:
            self._quota.all_begun(len(self._known))
        wanted = self._prefetch.wanted(len(self._known) - len(self._outbox), time.monotonic())
        room = self._recorder.capacity - len(self._known) - _LARGEST_SURPRISE
        wanted = min(wanted, room, self._quota.left(len(self._known)))
        if wanted <= 0:
            return None
        may_be_work = self._may_be_work
        if may_be_work and self._plan.open_ended:
            self._may_be_work = False  # what comes from now on may be too late for this look
            self._plan.look(self._parts.backend)
        at_most = self._room() if self._plan.limited else {}
        ordered = self._plan.order()
        queues = tuple(queue for queue in ordered if at_most.get(queue, 1) > 0)
        if queues and (may_be_work or self._outbox):
            if not self._plan.open_ended:
                self._may_be_work = False  # what comes from now on may be too late for this claim
            return Claim(queues=queues, limit=wanted, at_most=at_most)
        if queues or self._plan.open_ended:
            self.listening, self._listens = self._plan.listened(queues), True
            self.hears_all = len(queues) == len(ordered)
        return None

    def _room(self) -> dict[str, int]:
        """For each limited queue, how many more of it may be in inflight."""
        inflight = Counter(self._known.values())
        inflight.subtract(attempt.lease.envelope.queue for attempt, _ in self._outbox)
        return self._plan.room(inflight)

    def _turn(self, claim: Claim | None) -> None:
        outbox = self._outbox
        try:
            made = self._parts.settler.exchange(self._session.owner, [item for _, item in outbox], claim)
        except BackendError as error:
            self._sent = {_key(item.lease) for _, item in outbox}
            self._may_be_work = True
            self._recover(error)
            return
        self._breaker.success()
        self.outage.over()
        self._outbox = []
        result = made.result
        if outbox:
            answers = self._resolve_repeated(made.settlements, result.settled) if self._sent else result.settled
            keys = [_key(attempt.lease) for attempt, _ in outbox]
            for key in keys:
                self._known.pop(key, None)
            self._recorder.end(keys)
            self._quota.ran(sum(item.move != "release" for item in made.settlements))
            attempts = [attempt for attempt, _ in outbox]
            self._parts.reporter.settled(attempts, made.settlements, answers)
            self._tell_crashes(attempts, answers)
            self._milestones.note("settled", len(outbox))
        self._milestones.note("turn")
        if not result.alive:
            self._dead = self._session.owner
            return
        self._after(claim, made.settlements, result)

    def _tell_crashes(self, attempts: Sequence[Attempt], answers: Sequence[Settled]) -> None:
        crashed = [
            reaped_alone(attempt, answer.state)
            for attempt, answer in zip(attempts, answers, strict=True)
            if isinstance(attempt.outcome, Crashed) and answer.state is not None
        ]
        if crashed:
            try:
                self._parts.rescued(crashed)
            except Exception:  # it is settled: what is told of it does not end a worker
                logger.exception("no event could be made of %s that crashed", counted(len(crashed), "job"))

    def _resolve_repeated(self, made: Sequence[Settlement], answers: Sequence[Settled]) -> list[Settled]:
        """Of what was sent before, that was applied which left no trace or is known to have left the session."""
        certain = [
            already_applied(TARGETS[item.move])
            if (answer.gone and _key(item.lease) in self._sent)
            or (answer.lease_lost and _key(item.lease) in self._applied)
            else answer
            for item, answer in zip(made, answers, strict=True)
        ]
        self._sent, self._applied = set(), set()
        return certain

    def _after(self, claim: Claim | None, made: Sequence[Settlement], result: TurnResult) -> None:
        for key in result.cancel_requested:
            work = self._inflight.find(key)
            if work is not None:
                self._asked_to_stop(work)
        self._accept_leases(result.leases)
        if claim is not None:
            all_it_asked_for = len(result.leases) >= claim.limit or any(lease.crashes for lease in result.leases)
            if all_it_asked_for or result.promoted > 0 or self._plan.emptied(claim.queues):
                self._may_be_work = True
            if not result.leases and not len(self._known):
                self._prefetch.forget()
                self._inflight.open_all()
        if any(item.delay <= 0 and item.move in ("nack", "release", "snooze", "crashed") for item in made):
            self._may_be_work = True

    def _accept_leases(self, leases: Sequence[Lease]) -> None:
        """New leases: those that can run go to the runners, those that cannot are already finished."""
        if not leases:
            return
        now = time.monotonic()
        works: list[Work] = []
        for lease in leases:
            key = _key(lease)
            self._known[key] = lease.envelope.queue
            ready = self._fate_of_inherited(lease) if key in self._verdicts else prepare(lease, self._parts.runtime)
            if isinstance(ready, Ready):
                self._order += 1
                work = Work(ready, key, order=self._order, claimed=now)
                work.isolated = self._isolated is not None and self._isolated.wants(work)
                works.append(work)
            else:
                self._done.append(ready)
        for queue, count in Counter(lease.envelope.queue for lease in leases).items():
            self._parts.reporter.fetched(queue, count)
        self._milestones.note("claimed", len(leases))
        self._prefetch.claimed(now)
        self._inflight.add(works)

    def _park(self) -> None:
        """Sleep until something happens, or what waits in hand has waited too long."""
        self._parked = True
        if self._listens:
            self.idle.set()
            self._milestones.note("idle")
            if not self._known:
                self._quota.found_nothing()
        if not self._done:
            oldest = self._inflight.oldest()
            until = _PARKED_AT_MOST if oldest is None else oldest + _LONGEST_WAIT - time.monotonic()
            longest = _QUICK_JOBS_TAKE_LESS if self._inflight.holds_back else _PARKED_AT_MOST
            self._wakeup.wait(max(0.0, min(until, longest)))
            if self._inflight.holds_back and not self._done:
                self._inflight.open_all()
        self._parked = False
        self.idle.clear()
        self._wakeup.clear()  # before looking at what it was set for

    # When the store does not answer

    def _recover(self, error: BackendError) -> None:
        """Open a successor that adopts this session, however long that takes.

        Its name is chosen once: opening it again is harmless, so an answer that is lost here too costs nothing.
        """
        self._session.out_of_contact()
        self.recovering = True
        successor, old = random_owner(), self._session.owner

        def compare(held: Sequence[Lease]) -> None:
            # There was one to adopt, so it has lived; and the one way out of a living session is a settlement.
            self._applied = self._sent - {_key(lease) for lease in held}
            self._adopt(successor, held)

        while not self._quit:
            self._wait_out(error)
            try:
                adopted = self._session.open(successor, adopts=old, compare=compare)
            except BackendError as again:
                error = again
            else:
                if adopted:
                    self._milestones.note("adopted")
                else:
                    self._dead = old
                break
        self.recovering = False

    def _adopt(self, owner: str, held: Sequence[Lease]) -> None:
        """Compare what the successor holds with what is known here."""
        mine = {_key(lease): lease for lease in held}
        settling = {_key(attempt.lease) for attempt, _ in self._outbox} | {
            _key(each.lease) for each in list(self._done)
        }
        for work in self._inflight.everything():
            if work.key not in mine and work.key not in settling:
                self._drop_lost(work)
        self._outbox = [
            (attempt, msgspec.structs.replace(item, lease=_under(item.lease, owner))) for attempt, item in self._outbox
        ]
        self._accept_leases([lease for key, lease in mine.items() if key not in self._known])

    def _take_over(self) -> None:
        """Take over what a killed process held.  If the answer is lost, what came with it is judged when it is found."""
        handover, owner = self._handovers[0], self._session.owner
        self._verdicts |= handover.verdicts
        try:
            alive = self._session.open(owner, adopts=handover.owner, compare=lambda held: self._adopt(owner, held))
        except BackendError as error:
            self._recover(error)
            return
        if not alive:
            self._dead = owner
        self._handovers.popleft()
        handover.adopted()
        self._milestones.note("taken over")

    def _fate_of_inherited(self, lease: Lease) -> Ready | Attempt:
        """What becomes of a lease whose process was killed while it ran."""
        overdue = self._verdicts.pop(_key(lease))
        ready = prepare(lease, self._parts.runtime)
        if isinstance(ready, Attempt):
            return ready
        if overdue is None:
            return Attempt(lease=lease, letter=ready.letter, outcome=Released())
        return conclude(ready, self._parts.runtime, None, overdue, 0)

    def _replace_session(self) -> None:
        """The session is dead: what waits is dropped, what runs is told, and a new one is opened."""
        everything = self._inflight.everything()
        logger.warning(
            "the session is gone: it was reaped, or this is another store; number of jobs here that lost their lease: %d",
            len(everything),
        )
        for work in everything:
            self._drop_lost(work)
        while not self._quit:
            try:
                self._session.open(random_owner())
            except BackendError as error:
                self._session.out_of_contact()
                self._wait_out(error)
            else:
                self._dead = None
                self._may_be_work = True
                self._milestones.note("reopened")
                return

    def _drop_lost(self, work: Work) -> None:
        if self._inflight.drop(work):  # else it runs, and is known until its settlement is answered
            self._known.pop(work.key, None)
        self._lost(work)

    def _wait_out(self, error: BackendError) -> None:
        pause = self._breaker.failure(error)
        self.outage.failed(error)
        self._milestones.note("unanswered")
        deadline = time.monotonic() + pause
        while (left := deadline - time.monotonic()) > 0:
            self._recorder.beat()  # it waits, and is alive
            if self._stop_waiting.wait(min(left, _PARKED_AT_MOST)):
                break
        self._stop_waiting.clear()


def _key(lease: Lease) -> Key:
    return (lease.envelope.id, lease.token)


def _under(lease: Lease, owner: str) -> Lease:
    return msgspec.structs.replace(lease, owner=owner)
