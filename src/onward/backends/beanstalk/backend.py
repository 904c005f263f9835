"""The contract's verbs in beanstalkd's commands.

A session is a connection.  The server itself gives back what a dead session held, so no process reaps or renews for another,
and a session cannot be adopted once its connection is broken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from onward.backend import (
    Audit,
    Check,
    Enqueued,
    Envelope,
    Held,
    Lease,
    QueueState,
    Session,
    Turn,
    TurnResult,
)
from onward.backends.beanstalk import health, settling
from onward.backends.beanstalk.body import ROOM, BodyHeader, NotOurs, decode, encode
from onward.backends.beanstalk.connection import Connection, Put
from onward.backends.beanstalk.session import BrokerSession
from onward.backends.beanstalk.tubes import Tubes, urgency
from onward.backends.beanstalk.url import Address, parse_url
from onward.backends.broker.backend import BROKER, BrokerBackend, in_order
from onward.backends.broker.evidence import key_of
from onward.base.backoff import jittered
from onward.base.clock import SECOND, Clock
from onward.base.interruption import uninterrupted
from onward.errors import BackendError, BackendMisconfigured, BackendRefused, BackendUnavailable, PayloadTooLarge
from onward.job.settlement import Settled, Settlement
from onward.job.states import State

__all__ = ["BeanstalkBackend"]

_MARGIN = 30  # seconds for which a worker may have a job beyond its time-out
_LONGEST_DELAY = 2**32 - 1
_LOOK_FIRST, _LOOK_LATER = 0.01, 0.1  # seconds between two looks for work
_STATES = {
    State.AVAILABLE: "current-jobs-ready",
    State.SCHEDULED: "current-jobs-delayed",
    State.EXECUTING: "current-jobs-reserved",
    State.DISCARDED: "current-jobs-buried",
}


class BeanstalkBackend(BrokerBackend[BrokerSession]):
    """Jobs in the tubes of one namespace."""

    capabilities = msgspec.structs.replace(BROKER, fences_expired=False)

    def __init__(self, address: Address, *, namespace: str = "default", clock: Clock | None = None) -> None:
        self._address = address
        self._tubes = Tubes(namespace)
        self._max_job_size: int | None = None  # the server's limit, once it was asked
        super().__init__(clock)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> BeanstalkBackend:
        return cls(parse_url(url), namespace=namespace, clock=clock)

    def connect(self) -> None:
        said = self._asking().stats()
        self.capabilities = health.admitted(self._address, said, type(self).capabilities)
        self._max_job_size = int(said["max-job-size"])

    @property
    def _limit(self) -> int:
        """The largest job that the server takes.  Reading it connects, so the server is checked before a job is written."""
        if self._max_job_size is None:
            self.connect()
            assert self._max_job_size is not None
        return self._max_job_size

    # Enqueueing

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        """Put each job by a command: the server knows no batches.  If one fails, those that were stored are removed."""
        now = self.clock.micros()
        puts = [self._as_put(envelope, now) for envelope in envelopes]  # all checked before the first is sent
        if not puts:
            return []
        with uninterrupted(), self._producing() as connection:
            stored: list[int] = []
            try:
                connection.put_all(puts, stored)
            except BackendError as error:
                unanswered = len(puts) - len(stored) if connection.broken else 0
                left = self._take_back(stored) + unanswered
                if left:
                    raise BackendUnavailable(f"{error}; {left} of {len(puts)} jobs may have been stored") from error
                raise
        return [Enqueued(envelope.id) for envelope in envelopes]

    def refuse_unfit(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            self._as_put(envelope, self.clock.micros())

    def _as_put(self, envelope: Envelope, now: int) -> Put:
        ttr = self._address.ttr
        if envelope.timeout is not None:
            ttr = max(ttr, math.ceil(envelope.timeout) + _MARGIN)
        body = encode(BodyHeader.of(envelope, priority=envelope.priority, ttr=ttr), envelope.data, self._limit)
        if len(body) > self._limit - ROOM:
            raise PayloadTooLarge(len(body), self._limit - ROOM, "job, as beanstalkd would keep it,")
        wait = max(now + envelope.delay, envelope.not_before or 0) - now
        delay = min(math.ceil(wait / SECOND), _LONGEST_DELAY)  # the server counts whole seconds; never too early
        return Put(self._tubes.of(envelope.queue), body, urgency(envelope.priority), delay, ttr)

    def _take_back(self, stored: Sequence[int]) -> int:
        """Remove a batch that failed.  Returns how many jobs stay: the connection is gone, or they run already."""
        left = len(stored)
        try:
            connection = self._asking()
            left -= sum(connection.delete_all(stored))
        except BackendError:
            pass
        return left

    # Working

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        with uninterrupted(), self._guard:
            own, old = self._living(session.owner), self._living(adopts)
            if adopts is None:
                if own is None:
                    self._sessions[session.owner] = self._new_session()
                return []
            if own is None and old is None:
                return None  # the server gave back what they held when their connection broke
            if own is None or old is None:
                kept = own or old
                assert kept is not None
                self._sessions.pop(adopts, None)
                self._sessions[session.owner] = kept
            else:
                raise BackendMisconfigured(
                    "a live session cannot adopt another live one: a reserved job belongs to its connection"
                )
        with kept.lock:  # never under the guard: the thread that holds it may need the guard
            return [reserved.lease(session.owner) for reserved in kept.held.values()]

    def _take_turn(self, session: BrokerSession, turn: Turn) -> TurnResult:
        try:
            done = self._end(session, turn)
            return in_order(
                turn,
                lambda each: done.pop(id(each), None) or self._settle(session, each, turn.owner),
                lambda claim: session.claim(claim, turn.owner),
            )
        except BackendError:
            if session.connection.broken:
                session.held.clear()
            raise

    def _end(self, session: BrokerSession, turn: Turn) -> dict[int, Settled]:
        """Remove the jobs that have ended, nearly all of a turn, in one pipeline.  Returns answers by settlement."""
        seen: set[Held] = set()  # only the first settlement of a lease counts
        ends: list[Settlement] = []
        for each in turn.settlements:
            key = key_of(each)
            if each.move in settling.ENDINGS and key not in seen and self._holds(session, each, turn.owner):
                ends.append(each)
            seen.add(key)
        answers: list[Settled] = []
        try:
            settling.end(session, ends, answers)
        finally:
            for settlement, answer in zip(ends, answers, strict=False):
                self._evidence.note(settlement, answer)
        return {id(settlement): answer for settlement, answer in zip(ends, answers, strict=True)}

    def _apply(self, session: BrokerSession, settlement: Settlement) -> Settled:
        return settling.settle(session, settlement, self._store_dead_letter(session), self.clock.micros())

    def _store_dead_letter(self, session: BrokerSession) -> Callable[[Envelope], int]:
        def store(envelope: Envelope) -> int:
            try:
                put = self._as_put(envelope, self.clock.micros())
            except PayloadTooLarge as error:
                raise BackendRefused(str(error)) from error
            numbers: list[int] = []
            session.connection.put_all([put], numbers)
            return numbers[0]

        return store

    # Waiting and looking

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Poll for ready jobs on a connection of its own.  A blocking reservation would have to be given back."""
        deadline, pause = time.monotonic() + timeout, _LOOK_FIRST
        tubes = [self._tubes.of(queue) for queue in queues]
        while not any(self._asking().has_ready(tube) for tube in tubes):
            left = deadline - time.monotonic()
            if left <= 0 or self._closed.wait(min(left, jittered(pause))):
                return
            pause = min(pause * 1.5, _LOOK_LATER)

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """Return the server's counts: it counts a retry as a scheduled job, and does not know jobs that have ended."""
        counts = dict.fromkeys(State, 0)
        for name in self._names() if queue is None else [queue]:
            said = self._asking().stats_tube(self._tubes.of(name)) or {}
            for state, word in _STATES.items():
                counts[state] += int(said.get(word, 0))
        return counts

    def queues(self) -> Sequence[QueueState]:
        living = (State.AVAILABLE, State.SCHEDULED, State.EXECUTING)
        found = []
        for name in self._names():
            counts = self.counts(name)
            if live := sum(counts[state] for state in living):
                found.append(QueueState(name=name, paused=False, live=live))
        return found

    def health(self) -> list[Check]:
        return health.checks(self._asking(), self._tubes)

    def _names(self) -> list[str]:
        queues = (self._tubes.queue(tube) for tube in self._asking().tubes())
        return sorted(queue for queue in queues if queue is not None)

    # Connections

    def close(self) -> None:
        self._closed.set()
        with self._guard:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for connection in [*(each.connection for each in sessions), self._producer, self._asker]:
            if connection is not None:
                connection.close()

    def _forget_connections(self) -> None:
        for connection in [*(each.connection for each in self._sessions.values()), self._producer, self._asker]:
            if connection is not None:
                connection.forget()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._producer: Connection | None = None
        self._asker: Connection | None = None

    def _new_session(self) -> BrokerSession:
        self._refuse_if_closed()
        return BrokerSession(Connection(self._address), self._tubes, self.clock, self._limit)

    @contextmanager
    def _producing(self) -> Iterator[Connection]:
        """Yield the connection that puts, for one thread at a time: the connection has one current tube."""
        with self._guard:
            self._refuse_if_closed()
            producer = self._producer = self._fresh(self._producer)
        with producer.lock:
            yield producer

    def _asking(self) -> Connection:
        """Return the connection for questions.  Every thread may use it, and repeat a question."""
        with self._guard:
            self._refuse_if_closed()
            self._asker = self._fresh(self._asker)
            return self._asker

    def _fresh(self, connection: Connection | None) -> Connection:
        if connection is not None and not connection.stale():
            return connection
        if connection is not None:
            connection.close()
        return Connection(self._address)

    def _make_contact(self) -> None:
        self._asking().stats()

    def _stored(self, lease: Lease) -> bool:
        body = self._asking().peek(lease.receipt) if isinstance(lease.receipt, int) else None
        try:
            return body is not None and decode(body)[0].id == lease.envelope.id
        except NotOurs:
            return False
