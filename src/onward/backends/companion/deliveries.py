"""The messages that this process holds, and how it settles them in the broker.

All calls here come after the store was written.  If the broker cannot be reached, the verb succeeds all the same: a message
comes back by itself, and the process that receives it asks the store again; the next sweep puts one that is missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from onward.backend import (
    AWAITS_NODE,
    Backend,
    Claim,
    Held,
    Lease,
    Reaped,
    Session,
    Settlement,
    Turn,
    TurnResult,
)
from onward.backends.companion.messages import (
    after_settling,
    envelope_of,
    is_booked,
    job_id_of,
    message,
    until,
    wait_of,
)
from onward.backends.companion.putting import Putter, quietly
from onward.base.clock import Clock
from onward.base.logs import get_logger
from onward.contract.companion import CompanionStore
from onward.errors import BackendMisconfigured, BackendRefused
from onward.job.envelope import Envelope, Sealed
from onward.job.settlement import Settled
from onward.job.states import FINISHED, LIVE, State

__all__ = ["Deliveries", "Told"]

logger = get_logger("onward.companion")

_BUSY = 30.0  # seconds until a message about a job that runs elsewhere comes again
_A_MOMENT = 1.0
_ROUNDS = 100  # how often a claim that received only messages to be removed asks for more


class Told(NamedTuple):
    """The settlements to send to the broker."""

    puts: list[Envelope]
    moves: list[Settlement]


class _Message(NamedTuple):
    owner: str
    token: int  # of the store's lease
    lease: Lease  # the broker's


class _Taken(NamedTuple):
    result: TurnResult
    moves: list[Settlement]
    go_on: bool  # nothing was claimed, and not for want of messages


class Deliveries:
    """The messages that this process holds, by their jobs."""

    def __init__(self, broker: Backend, store: CompanionStore, putter: Putter, clock: Clock) -> None:
        self._broker = broker
        self._store = store
        self._putter = putter
        self._clock = clock
        self._closed = threading.Event()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Start empty, after a fork: sessions and messages are the parent's."""
        self._lock = threading.Lock()
        self._held: dict[str, _Message] = {}
        self._sessions: dict[str, Session] = {}
        self._renewed: dict[str, float] = {}
        self._renewal: threading.Thread | None = None

    # Sessions

    def open(self, session: Session, adopts: str | None, leases: Sequence[Lease]) -> None:
        """Open the broker's half of a session, with those messages of its predecessor whose jobs the store gave it."""
        adopts = None if adopts == session.owner else adopts
        with self._lock:
            self._sessions[session.owner] = session
            if adopts is not None:
                self._sessions.pop(adopts, None)
        if adopts is None:
            self._broker.open_session(session)
            return
        try:
            kept = self._broker.open_session(session, adopts=adopts)
        except BackendMisconfigured:  # both sessions are of this process, and the broker cannot join them
            self.let_go(adopts)
            kept = []
        if kept is None:
            self._broker.open_session(session)
        ours = {(lease.envelope.id, lease.token) for lease in leases}
        self._inherit(adopts, session.owner, ours, kept or [])

    def _inherit(self, old: str, new: str, ours: set[Held], reserved: Sequence[Lease]) -> None:
        """Keep the messages of this session's jobs.  Release the others, and those of a claim without an answer."""
        with self._lock:
            for job_id, held in list(self._held.items()):
                if held.owner == old and (job_id, held.token) in ours:
                    self._held[job_id] = _Message(new, held.token, _of(held.lease, new))
                elif held.owner == old:
                    del self._held[job_id]
            known = {_key(held.lease) for held in self._held.values() if held.owner == new}
        self.tell(new, Told([], [Settlement.release(lease) for lease in reserved if _key(lease) not in known]))

    def let_go(self, owner: str) -> set[str]:
        """End the broker's half of a session.  Returns the jobs whose messages went back."""
        with self._lock:
            self._sessions.pop(owner, None)
            self._renewed.pop(owner, None)
            for job_id in [job_id for job_id, held in self._held.items() if held.owner == owner]:
                del self._held[job_id]
        returned: set[str] = set()

        def end() -> None:
            returned.update(job_id_of(each.id) for each in self._broker.reap(owner=owner, started=()))

        quietly(end)
        return returned

    def give_back(self, owner: str, reaped: Sequence[Reaped]) -> None:
        """Give back the messages of a session that the store has ended.  A crashed job gets another message, for later."""
        with self._lock:
            messages = {job_id: held for job_id, held in self._held.items() if held.owner == owner}
        crashed = [each.id for each in reaped if each.crashed and each.to in LIVE]
        ended = {each.id for each in reaped if each.to in FINISHED}
        if self._putter.put_waiting(crashed):
            ended.update(crashed)
        removed = [Settlement.ack(held.lease) for job_id, held in messages.items() if job_id in ended]
        self.tell(owner, Told([], removed))
        returned = self.let_go(owner) | ended
        self._putter.put_waiting(each.id for each in reaped if each.to in LIVE and each.id not in returned)

    def renew(self, owner: str) -> None:
        """Renew the messages of a session.  A lost message does not lose its job: the store has the lease."""
        if owner not in self._sessions:
            return

        def touch() -> None:
            renewal = self._broker.extend(owner)
            lost = set(renewal.lost)
            with self._lock:
                self._renewed[owner] = time.monotonic()
                for job_id, held in list(self._held.items()):
                    gone = not renewal.alive or _key(held.lease) in lost
                    if held.owner == owner and gone:
                        del self._held[job_id]

        quietly(touch)

    # Settling

    def settled(
        self, owner: str, settlements: Sequence[Settlement], answers: Sequence[Settled], woken: Iterable[str]
    ) -> Told:
        """Return the settlements for the broker, after the store has answered."""
        told = Told([], [])
        for settlement, answer in zip(settlements, answers, strict=True):
            job = settlement.lease.envelope
            if settlement.dead_letter is not None and answer.counts and answer.state is State.DISCARDED:
                told.puts.append(message(settlement.dead_letter))
            held = self._end(job.id, settlement.lease.token)
            if held is not None:
                told.moves.append(after_settling(settlement, answer, _of(held.lease, owner)))
            elif answer.counts and answer.state in LIVE:  # a dead or suspended process has its message
                told.puts.append(self._putter.about(job, wait_of(settlement)))
        told.puts.extend(self._putter.about_waiting(woken))
        return told

    def tell(self, owner: str, told: Told) -> None:
        self._putter.put(told.puts)
        if told.moves:
            quietly(lambda: self._exchange(owner, told.moves, None))

    def _end(self, job_id: str, token: int) -> _Message | None:
        with self._lock:
            held = self._held.get(job_id)
            if held is None or held.token != token:
                return None
            return self._held.pop(job_id)

    # Claiming

    def claim(self, owner: str, told: Told, claim: Claim, released: frozenset[str]) -> TurnResult:
        """Receive messages from the broker, and claim their jobs in the store."""
        self._putter.put(told.puts)
        moves = told.moves
        result = TurnResult(settled=[], leases=[])
        for _ in range(_ROUNDS):
            found = self._exchange(owner, moves, claim)
            if not found:
                return result
            result, moves, go_on = self._take(owner, found, released)
            if not go_on:
                break
        self.tell(owner, Told([], moves))
        return result

    def _exchange(self, owner: str, moves: Sequence[Settlement], claim: Claim | None) -> Sequence[Lease]:
        try:
            answer = self._broker.turn(Turn(owner=owner, settlements=moves, claim=claim))
        except BackendRefused:
            for move in moves:
                self._one(owner, move)
            answer = self._broker.turn(Turn(owner=owner, claim=claim))
        if not answer.alive and claim is not None:  # what was held went back with its connection
            with self._lock:
                session = self._sessions.setdefault(owner, Session(owner=owner))
            self._broker.open_session(session)
            answer = self._broker.turn(Turn(owner=owner, claim=claim))
        return answer.leases

    def _one(self, owner: str, move: Settlement) -> None:
        try:
            self._broker.turn(Turn(owner=owner, settlements=[move]))
        except BackendRefused:
            self._broker.turn(Turn(owner=owner, settlements=[Settlement.release(move.lease)]))

    def _take(self, owner: str, found: Sequence[Lease], released: frozenset[str]) -> _Taken:
        moves: list[Settlement] = []
        asked: dict[str, Lease] = {}
        for lease in found:
            job_id = job_id_of(lease.envelope.id)
            if job_id in released:  # what a turn has released it does not claim
                moves.append(Settlement.release(lease))
            elif job_id in asked:
                moves.append(Settlement.snooze(lease, _BUSY))
            else:
                asked[job_id] = lease
        try:
            result = self._keep(owner, asked)
            unknown: list[Lease] = []
            moves += self._judged(asked, unknown, claimed=bool(result.leases))
            if unknown:
                more = self._learn(owner, unknown, moves)
                result = msgspec.structs.replace(result, leases=[*result.leases, *more])
        except _SessionLost:
            self.let_go(owner)
            return _Taken(TurnResult(settled=[], leases=[], alive=False), [], go_on=False)
        except BaseException:
            # It is unknown whether the store has handed them out.  If it has, a session that adopts this one gets them.
            self.tell(owner, Told([], [*moves, *map(Settlement.release, asked.values())]))
            raise
        removed = any(move.move != "release" for move in moves)
        return _Taken(result, moves, go_on=removed and not result.leases)

    def _keep(self, owner: str, asked: dict[str, Lease]) -> TurnResult:
        """Claim the jobs, and keep the messages of those that were claimed; the others stay in ``asked``."""
        result = self._store.take(owner, list(asked))
        if not result.alive:
            raise _SessionLost
        with self._lock:
            for lease in result.leases:
                job_id = lease.envelope.id
                self._held[job_id] = _Message(owner, lease.token, asked.pop(job_id))
        if result.leases:
            self._keep_renewing()
        return result

    def _judged(self, asked: dict[str, Lease], unknown: list[Lease], *, claimed: bool) -> list[Settlement]:
        """Decide about messages whose jobs the store did not hand out."""
        moves = []
        for job_id, lease in list(asked.items()):
            stored = self._store.get(job_id)
            now = self._clock.micros()
            if stored is None:
                unknown.append(lease)
                continue
            if stored.state in FINISHED or stored.awaits == AWAITS_NODE:  # which gets another when its node opens
                moves.append(Settlement.ack(lease))
            elif stored.state is State.EXECUTING:
                moves.append(Settlement.snooze(lease, _BUSY))
            elif until(stored, now) <= 0 and (claimed or stored.crashes):  # there is a suspect among them
                moves.append(Settlement.release(lease))
            else:  # not due; or another worker claims it, it has expired, or is parked; and clocks differ
                moves.append(Settlement.snooze(lease, max(_A_MOMENT, until(stored, now))))
            del asked[job_id]
        return moves

    def _learn(self, owner: str, unknown: Sequence[Lease], moves: list[Settlement]) -> Sequence[Lease]:
        """Store jobs that a program without this store has put into the broker, and claim them."""
        asked: dict[str, Lease] = {}
        for lease in unknown:
            job = Sealed(job_id_of(lease.envelope.id), lease.envelope.queue, lease.envelope.data)
            if is_booked(job):  # and taken back since; a schedule books in the store before its message is put
                moves.append(Settlement.ack(lease))
                continue
            envelope = envelope_of(job, now=self._clock.micros())
            try:
                self._store.enqueue([msgspec.structs.replace(envelope, unique_key=None)], retried=True)
            except BackendRefused as error:
                moves.append(Settlement.abandon(lease, f"the store refuses the job: {error}", ran=False))
            else:
                asked[job.id] = lease
        result = self._keep(owner, asked)
        moves.extend(map(Settlement.release, asked.values()))
        return result.leases

    # Renewing

    def close(self) -> None:
        self._closed.set()

    def _keep_renewing(self) -> None:
        """Start the thread that renews.  A supervisor can renew the store's session; only this process the messages."""
        with self._lock:
            if self._renewal is None or not self._renewal.is_alive():
                self._renewal = threading.Thread(target=self._renew_all, name="onward-messages", daemon=True)
                self._renewal.start()

    def _renew_all(self) -> None:
        while not self._closed.wait(self._pause()):
            with self._lock:
                owners = {held.owner for held in self._held.values()}
                overdue = time.monotonic() - self._pause() * 0.9
                late = [owner for owner in owners if self._renewed.get(owner, 0.0) < overdue]
            for owner in late:
                self.renew(owner)

    def _pause(self) -> float:
        lengths = [session.lease_for.total_seconds() for session in list(self._sessions.values())]
        return max(1.0, min(lengths, default=30.0) / 3)


class _SessionLost(Exception):
    """The store does not know the session any more."""


def _key(lease: Lease) -> Held:
    return lease.envelope.id, lease.token


def _of(lease: Lease, owner: str) -> Lease:
    return msgspec.structs.replace(lease, owner=owner)
