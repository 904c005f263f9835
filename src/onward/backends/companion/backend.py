"""The contract's verbs over two systems, of which the store is always right.

Each verb writes the store first: it has a job's state, owner and counters.  The broker's messages only say that it is time
to look at a job.  A message is removed when the store says that its job has ended, and never before.  So a process that
dies between the two writes leaves one of these, and none of them loses a job or reports a wrong state:

    the store says       and the broker          what happens to it
    waiting, due         has a message           the message comes: it is claimed
    waiting, not due     has a message           the message comes early: it is put back until then
    executing            has a message           another's, or a second one: it is put back for a moment
    ended                has a message           it is removed
    waiting for a node   has a message           it is removed: the job gets another when its node opens
    nothing              has a message           another program put it there: it is stored, then claimed;
                                                 but if a schedule booked it, it was taken back: it is removed
    waiting, due         has none                the next sweep puts one there (`sweeping`)

Two messages about one job do no harm: the store hands it out once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import msgspec

from onward.backend import (
    Advising,
    Audit,
    Backend,
    Capabilities,
    Check,
    Claim,
    Counting,
    Enqueued,
    Envelope,
    Held,
    Hold,
    Lease,
    Look,
    Pruned,
    Query,
    QueuePage,
    QueueState,
    Reaped,
    Renewal,
    Replayed,
    Sample,
    Session,
    SessionState,
    Snapshot,
    StoredJob,
    Turn,
    TurnResult,
)
from onward.backends.companion import health
from onward.backends.companion.deliveries import Deliveries
from onward.backends.companion.flows import CompanionFlows
from onward.backends.companion.messages import REFUSALS, message
from onward.backends.companion.notes import CompanionNotes
from onward.backends.companion.putting import Putter
from onward.backends.companion.schedules import CompanionSchedules
from onward.backends.companion.sweeping import Sweep
from onward.base import forks
from onward.base.clock import SECOND, Clock, SystemClock
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.contract.companion import CompanionStore
from onward.errors import BackendError, BackendMisconfigured, BackendUnavailable, BackendUnreachable
from onward.job.states import FINISHED, LIVE, WAITING, State

__all__ = ["AccompaniedBackend"]

logger = get_logger("onward.companion")

_RESUMED = 0.5  # seconds between two looks at queues that are all paused


class AccompaniedBackend(CompanionFlows, CompanionSchedules, CompanionNotes, Backend):
    """A broker with its companion store."""

    def __init__(self, broker: Backend, store: CompanionStore, *, clock: Clock | None = None) -> None:
        self.broker = broker
        self.store = store
        self.clock = clock or SystemClock()
        self._putter = Putter(broker, store, self.clock)
        self._deliveries = Deliveries(broker, store, self._putter, self.clock)
        put = self._putter.put_missing
        self._sweep = Sweep(broker, store, self.clock, put) if isinstance(broker, Counting) else None
        self._closed = threading.Event()
        forks.call_in_child(self._deliveries.begin_anew)  # broker and store handle their connections

    @property
    def capabilities(self) -> Capabilities:
        return _together(self.broker.capabilities, self.store.capabilities)

    def connect(self) -> None:
        self.store.connect()
        self.broker.connect()

    # Enqueueing

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        """Store jobs, then put their messages.  An enqueue that returned is in both."""
        has_members = any(envelope.flow is not None for envelope in envelopes)
        with uninterrupted():
            if has_members:
                self._refuse_unfit(envelopes)
            answers = self.store.enqueue(envelopes, retried=retried, audit=audit)
            # An enqueue that is repeated may have failed before or after the broker: its message is put again.
            told = [
                envelope
                for envelope, answer in zip(envelopes, answers, strict=True)
                if answer.created or (retried and answer.existing_id == envelope.id)
            ]
            try:
                self._put(self._ready(told) if has_members else told)
            except (*REFUSALS, BackendMisconfigured):  # the broker stored nothing, and would not if it were asked again
                self._take_back(told)
                raise
            except (
                BackendUnreachable
            ) as error:  # the broker is; the store has the job, and a sweep will put its message
                raise BackendUnavailable(str(error)) from error
        return answers

    def _put(self, envelopes: Sequence[Envelope]) -> None:
        if envelopes:
            now = self.clock.micros()
            self.broker.enqueue([message(each, delay=_wait(each, now)) for each in envelopes])

    def _take_back(self, envelopes: Sequence[Envelope]) -> None:
        ids = [envelope.id for envelope in envelopes]
        for flow in {envelope.flow or "" for envelope in envelopes if envelope.plan is not None}:
            self.cancel_flow(flow, "the broker refused a job of it")
        self.store.cancel(ids, "the broker refused the job")
        self.store.purge(Query(ids=tuple(ids), states=frozenset({State.CANCELLED}), limit=len(ids)))

    # Working

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        with uninterrupted():
            held = self.store.open_session(session, adopts=adopts)
            if held is None:
                self._deliveries.let_go(adopts or "")
                return None
            self._deliveries.open(session, adopts, held)
            return held

    def turn(self, turn: Turn) -> TurnResult:
        """Settle in the store, update the broker, receive messages, claim their jobs in the store."""
        with uninterrupted():
            claim = self._open_part(turn.claim)
            made = self.store.turn(Turn(owner=turn.owner, settlements=turn.settlements, claim=_tidy(claim)))
            if not made.alive:
                self._deliveries.let_go(turn.owner)
                return made
            told = self._deliveries.settled(turn.owner, turn.settlements, made.settled, made.woken)
            if claim is None:
                self._deliveries.tell(turn.owner, told)
                return made
            released = frozenset(each.lease.envelope.id for each in turn.settlements if each.move == "release")
            taken = self._deliveries.claim(turn.owner, told, claim, released)
            return TurnResult(
                settled=made.settled,
                leases=taken.leases,
                alive=taken.alive,
                promoted=made.promoted,
                cancel_requested=taken.cancel_requested if taken.leases else made.cancel_requested,
            )

    def _open_part(self, claim: Claim | None) -> Claim | None:
        """Return the claim without paused queues; None if no queue is left."""
        if claim is None or claim.limit <= 0:
            return None
        paused = set(self.store.paused())
        queues = tuple(queue for queue in dict.fromkeys(claim.queues) if queue not in paused)
        return msgspec.structs.replace(claim, queues=queues) if queues else None

    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        """Renew the session in the store, and the messages that this process holds in the broker."""
        with uninterrupted():
            renewal = self.store.extend(owner, sample=sample)
            if renewal.alive:
                self._deliveries.renew(owner)
            else:
                self._deliveries.let_go(owner)
            return renewal

    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        """Reap in the store.  A dead process may have the message of a job that is given back: the job gets another."""
        with uninterrupted():
            reaped = self.store.reap(owner=owner, queue=queue, started=started, cause=cause)
            self._put_behind([each.id for each in reaped if each.to in FINISHED])
            if owner is not None:
                self._deliveries.give_back(owner, reaped)
                return reaped
            self._putter.put_waiting(each.id for each in reaped if each.to in LIVE)
            if self._sweep is not None:
                try:
                    self._sweep.run()
                except BackendError as error:
                    logger.warning("the search for jobs without a message failed and is repeated later: %s", error)
            return reaped

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        paused = set(self.store.paused())
        if open_ones := [queue for queue in queues if queue not in paused]:
            self.broker.wait(open_ones, timeout)
        else:
            self._closed.wait(min(timeout, _RESUMED))

    # Looking and steering: in the store alone

    def get(self, job_id: str) -> StoredJob | None:
        return self.store.get(job_id)

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        return self.store.get_many(ids)

    def list(self, query: Query) -> Sequence[StoredJob]:
        return self.store.list(query)

    def counts(self, queue: str | None = None) -> dict[State, int]:
        return self.store.counts(queue)

    def queues(self) -> Sequence[QueueState]:
        return self.store.queues()

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        return self.store.queues_with_work(prefix, after=after, limit=limit)

    def look(self, look: Look) -> Snapshot:
        return self.store.look(look)

    def sessions(self) -> Sequence[SessionState]:
        return self.store.sessions()

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        """Cancel in the store.  The message is removed when it comes."""
        with uninterrupted():
            states = self.store.cancel(ids, reason, audit=audit)
            self._put_behind([each for each, state in zip(ids, states, strict=True) if state is State.CANCELLED])
            return states

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        """Retry in the store.  The job's message is for later, so it gets another."""
        with uninterrupted():
            made_due = self.store.retry(ids, audit=audit)
            self._putter.put_waiting([each for each, due in zip(ids, made_due, strict=True) if due])
            return made_due

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        with uninterrupted():
            replayed = self.store.replay(query, fresh=fresh, audit=audit)
            again = self._putter.read(replayed.ids)
            self._putter.put_missing([job for job in again if job.flow is None and job.state in WAITING])
            self._put_reopened({job.flow for job in again if job.flow is not None})
            return replayed

    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        return self.store.purge(query, audit=audit)

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        return self.store.prune(cutoffs, queue=queue, dry_run=dry_run, after=after, limit=limit)

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        return self.store.forget_key(key, audit=audit)

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        return self.store.pause(queue, paused=paused, audit=audit)

    def progress(self, lease: Lease, progress: bytes) -> bool:
        return self.store.progress(lease, progress)

    def health(self) -> Sequence[Check]:
        return health.checks(self.broker, self.store)

    def advice(self) -> Sequence[str]:
        return [line for each in (self.broker, self.store) if isinstance(each, Advising) for line in each.advice()]

    # Ending

    def close(self) -> None:
        self._closed.set()
        self._deliveries.close()
        try:
            self.broker.close()
        finally:
            self.store.close()


def _together(broker: Capabilities, store: Capabilities) -> Capabilities:
    """Return the capabilities of the two together: the broker decides when a job comes, the store what becomes of it.

    A unique key would have to be taken in both at once: it is an error, as on a broker alone.
    """
    return msgspec.structs.replace(
        broker,
        deduplicates=False,
        promotes=False,
        remote_extend=store.remote_extend,
        fences_expired=store.fences_expired,
        sessions=store.sessions,
        holds=store.holds,
        knows_ids=store.knows_ids,
        remembers=store.remembers,
        notes=store.notes,
        schedules=store.schedules,
        flows=store.flows,
        groups_deaths=store.groups_deaths,
        audit=store.audit,
        durable=broker.durable and store.durable,
        shared=broker.shared and store.shared,
    )


def _tidy(claim: Claim | None) -> Claim | None:
    """Return a claim with limit 0: the store cancels what has expired in these queues, and promotes what is due."""
    if claim is None:
        return None
    return Claim(queues=claim.queues, limit=claim.limit, at_most=dict.fromkeys(claim.queues, 0))


def _wait(envelope: Envelope, now: int) -> float:
    return (max(now + envelope.delay, envelope.not_before or 0) - now) / SECOND
