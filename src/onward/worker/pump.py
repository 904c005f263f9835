"""The pump: the one thread of a worker that talks to the store about jobs.

    opening ──▶ pumping ──stop──▶ draining ──▶ ended
                 │  ▲                 │ ▲
           no answer │           no answer │
                 ▼  │                 ▼ │
               recovering           recovering

**Pumping.**  One turn after the other: what was finished since the last turn is settled, what is free is claimed, in
one exchange.  While a turn is in flight results pile up and ride in the next: one job at a time costs one round trip,
ten thousand a second cost a few dozen.  There are no timers.  With nothing to settle and nothing claimed it parks; it
is woken by a result, by the wake thread (`backend.wait`), by a cancellation, or by the order to stop.  After a turn
that promoted or put back anything it does not park.

**What is in hand** is waiting, running, or finished and unanswered (the outbox).  A lease leaves the hand when the
store has answered its settlement, never before.  What waits longer than a second while others run is given back:
somebody else may be idle.

**Recovering.**  A turn without an answer may have happened.  The pump opens a *successor* session that adopts the old
one: in one transaction the old session is deleted and its leases change owner.  A late copy of the lost turn either
came first, and is seen, or finds its session gone and does nothing.  What the successor holds and the hand does not
know is taken up; what the hand knows and the successor does not hold is lost, unless it is in the outbox: that is
settled again under the new name, and the store says `already_applied` if the lost turn did it.

**A dead session** (the store says so in a turn or a renewal): nothing that waits may start and it is dropped; what
runs is told that its lease is lost; a new session is opened under a new name.

**Draining.**  Nothing is claimed; what has not begun is released; what runs is awaited until the deadline, settled,
and the session ended.  A thread cannot be killed: what still runs at the deadline stays in hand, renewed, until it
ends by itself or the process does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

import msgspec

from onward._attempt import Attempt, Ready, prepare
from onward._settle import exchange, settlement
from onward.backend import Claim, Lease, TurnResult
from onward.errors import BackendError, BackendUnavailable
from onward.ids import random_owner
from onward.lease import Settlement
from onward.outcome import Released
from onward.worker.breaker import Breaker
from onward.worker.facts import Facts
from onward.worker.options import QueuePlan, WorkerParts
from onward.worker.prefetch import Prefetch
from onward.worker.session import WorkerSession
from onward.worker.work import Hand, Key, Work

__all__ = ["Pump"]

logger = logging.getLogger("onward.worker")

_LONGEST_WAIT_IN_HAND = 1.0
_PARKED_AT_MOST = 1.0


class Pump:
    """Settles and claims, turn by turn."""

    def __init__(
        self,
        parts: WorkerParts,
        session: WorkerSession,
        hand: Hand,
        plan: QueuePlan,
        facts: Facts,
        *,
        feed: Callable[[Sequence[Work]], None],
        gave_up: Callable[[], bool],
        lost: Callable[[Work], None],
        asked_to_stop: Callable[[Work], None],
    ) -> None:
        self._parts = parts
        self._session = session
        self._hand = hand
        self._plan = plan
        self._facts = facts
        self._feed = feed
        self._gave_up = gave_up
        self._lost = lost
        self._asked_to_stop = asked_to_stop
        self._prefetch = Prefetch()
        self._breaker = Breaker()
        self._done: deque[Attempt] = deque()
        self._known: dict[Key, str] = {}  # every lease in hand and its queue; only this thread touches it
        self._outbox: list[tuple[Attempt, Settlement]] = []
        self._bench = threading.Event()
        self._parked = False
        self._may_be_work = True
        self.draining = False
        self.idle = threading.Event()  # set while only the store can bring new work
        self._dead: str | None = None  # the owner whose session the store says is gone

    # From other threads

    def finished(self, attempt: Attempt) -> None:
        """A run came to its end."""
        self._done.append(attempt)
        if self._parked:
            self._bench.set()

    def wake(self) -> None:
        """There may be work."""
        self._may_be_work = True
        self._bench.set()

    def session_died(self, owner: str) -> None:
        self._dead = owner
        self._bench.set()

    def drain(self) -> None:
        self.draining = True
        self._bench.set()

    @property
    def empty(self) -> bool:
        """Whether nothing is in hand and nothing waits for the store's answer."""
        return not len(self._hand) and not self._done and not self._outbox

    # The loop

    def run(self, ended: Callable[[], bool]) -> None:
        """Turn after turn until ``ended`` says so."""
        while not ended():
            if self._dead == self._session.owner:
                self._replace_session()
            self._collect()
            claim = self._claim()
            if self._outbox or claim is not None:
                self._turn(claim)
            else:
                self._park()

    def _collect(self) -> None:
        """What was finished becomes settlements; what has waited too long is given back."""
        finished = 0
        while self._done:
            attempt = self._done.popleft()
            self._outbox.append((attempt, self._settlement(attempt)))
            finished += 1
        now = time.monotonic()
        if finished:
            self._prefetch.finished(finished, now)
        overdue = self._hand.withdraw(older_than=None if self.draining else now - _LONGEST_WAIT_IN_HAND)
        for work in overdue:
            attempt = Attempt(lease=work.lease, outcome=Released())
            self._outbox.append((attempt, self._settlement(attempt)))

    def _settlement(self, attempt: Attempt) -> Settlement:
        if attempt.lease.owner != self._session.owner:  # it was adopted while it ran
            attempt = msgspec.structs.replace(
                attempt, lease=msgspec.structs.replace(attempt.lease, owner=self._session.owner)
            )
        return settlement(attempt, keep=self._parts.keep_completed, dead_letter_copy=self._parts.dead_letter_copy)

    def _claim(self) -> Claim | None:
        if self.draining or not (self._may_be_work or self._outbox) or not self._session.fresh():
            return None
        wanted = self._prefetch.wanted(self._hand.concurrency, len(self._hand))
        if wanted == 0:
            return None
        room = self._plan.room(Counter(self._known.values())) if self._plan.limited else {}
        queues = tuple(queue for queue in self._plan.order() if room.get(queue, 1) > 0)
        return Claim(queues=queues, limit=wanted, at_most=room) if queues else None

    def _turn(self, claim: Claim | None) -> None:
        outbox = self._outbox
        try:
            made = exchange(
                self._parts.backend,
                self._session.owner,
                [item for _, item in outbox],
                claim,
                drop_dead=self._parts.drop_dead,
            )
        except BackendError as error:
            self._recover(error)
            return
        self._breaker.success()
        self._outbox = []
        result = made.result
        if outbox:
            for attempt, _ in outbox:
                self._known.pop(_key(attempt.lease), None)
            self._parts.ledger.settled([attempt for attempt, _ in outbox], made.settlements, result.settled)
            self._facts.note("settled", len(outbox))
        self._facts.note("turn")
        if not result.alive:
            self._dead = self._session.owner
            return
        self._after(claim, made.settlements, result)

    def _after(self, claim: Claim | None, made: Sequence[Settlement], result: TurnResult) -> None:
        for key in result.cancel_requested:
            work = self._hand.find(key)
            if work is not None:
                self._asked_to_stop(work)
        self._take_up(result.leases)
        put_back = any(item.move in ("nack", "release", "snooze") for item in made)
        if claim is not None:
            full = len(result.leases) >= claim.limit or any(lease.crashes for lease in result.leases)
            self._may_be_work = full or bool(result.leases) or result.promoted > 0 or put_back
            if not self._may_be_work:
                self._prefetch.idle()
                self._facts.note("idle")
        elif put_back:
            self._may_be_work = True

    def _take_up(self, leases: Sequence[Lease]) -> None:
        """New leases: those that can run go to the runners, those that cannot are already finished."""
        if not leases:
            return
        now = time.monotonic()
        works: list[Work] = []
        for lease in leases:
            self._known[_key(lease)] = lease.envelope.queue
            ready = prepare(lease, self._parts.runtime)
            if isinstance(ready, Ready):
                works.append(Work(ready, now))
            else:
                self._done.append(ready)
        for queue, count in Counter(lease.envelope.queue for lease in leases).items():
            self._parts.ledger.fetched(queue, count)
        self._facts.note("claimed", len(leases))
        self._hand.add(works)
        self._feed(works)

    def _park(self) -> None:
        """Sleep until something happens; look up now and then for what waits too long in hand."""
        self._parked = True
        if not self._may_be_work and not self.draining:
            self.idle.set()
        if not self._done and not (self._may_be_work and self._room_left()):
            self._bench.wait(_PARKED_AT_MOST)
        self._parked = False
        self.idle.clear()
        self._bench.clear()

    def _room_left(self) -> bool:
        return (
            not self.draining
            and self._session.fresh()
            and self._prefetch.wanted(self._hand.concurrency, len(self._hand)) > 0
        )

    # When the store does not answer

    def _recover(self, error: BackendError) -> None:
        """Open a successor that adopts this session, however long that takes.

        Its name is chosen once: opening it again is harmless, so an answer that is lost here too costs nothing.
        """
        successor, old = random_owner(), self._session.owner
        while not self._gave_up():
            pause = self._breaker.unreachable() if isinstance(error, BackendUnavailable) else self._breaker.error()
            logger.warning("the store did not answer (%s: %s); next try in %.1f s", type(error).__name__, error, pause)
            self._facts.note("unanswered")
            self._bench.clear()
            self._bench.wait(pause)
            try:
                held = self._session.open(successor, adopts=old)
            except BackendError as again:
                error = again
            else:
                self._adopt(held)
                return

    def _adopt(self, held: Sequence[Lease]) -> None:
        """Compare what the successor holds with what is known here."""
        owner = self._session.owner
        mine = {_key(lease): lease for lease in held}
        settling = {_key(attempt.lease) for attempt, _ in self._outbox} | {
            _key(each.lease) for each in list(self._done)
        }
        for work in self._hand.everything():
            if work.key in mine:
                work.ready = msgspec.structs.replace(work.ready, lease=msgspec.structs.replace(work.lease, owner=owner))
            elif work.key not in settling:
                self._hand.drop(work)
                self._lost(work)
        self._outbox = [(attempt, _under(item, owner)) for attempt, item in self._outbox]
        self._take_up([lease for key, lease in mine.items() if key not in self._known])
        self._facts.note("adopted")

    def _replace_session(self) -> None:
        """The session is dead: what waits is dropped, what runs is told, and a new one is opened."""
        for work in self._hand.withdraw():
            self._known.pop(work.key, None)
        for work in self._hand.everything():
            self._lost(work)
        try:
            self._session.open(random_owner())
        except BackendError as error:
            self._bench.clear()
            self._bench.wait(self._breaker.unreachable())
            logger.warning("no session can be opened: %s", error)
            return
        self._dead = None
        self._may_be_work = True
        self._facts.note("reopened")


def _key(lease: Lease) -> Key:
    return (lease.envelope.id, lease.token)


def _under(item: Settlement, owner: str) -> Settlement:
    return msgspec.structs.replace(item, lease=msgspec.structs.replace(item.lease, owner=owner))
