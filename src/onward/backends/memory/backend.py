"""The contract's verbs over plain dictionaries, under one lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import msgspec

from onward.backend import (
    LOSSY,
    Audit,
    Backend,
    Claim,
    Enqueued,
    Envelope,
    Held,
    Lease,
    Reaped,
    Renewal,
    Session,
    Turn,
    TurnResult,
)
from onward.backends.memory import flows, lanes, settling
from onward.backends.memory.flows import MemoryFlows
from onward.backends.memory.inspection import MemoryInspection
from onward.backends.memory.lanes import MemoryLanes
from onward.backends.memory.notes import MemoryNotes
from onward.backends.memory.overview import MemoryOverview
from onward.backends.memory.samples import MemorySamples
from onward.backends.memory.schedules import MemorySchedules
from onward.backends.memory.store import MemoryJob, MemoryStore, OpenSession
from onward.backends.memory.transfer import MemoryTransfer
from onward.base.clock import SECOND, Clock, SystemClock
from onward.base.interruption import uninterrupted
from onward.errors import BackendError, BackendMisconfigured
from onward.flow.walk import Cursors
from onward.job.states import State

__all__ = ["MemoryBackend"]


class MemoryBackend(
    MemoryInspection,
    MemoryOverview,
    MemorySamples,
    MemoryFlows,
    MemoryLanes,
    MemoryNotes,
    MemorySchedules,
    MemoryTransfer,
    Backend,
):
    """A store in this process's memory: no other process sees it, and it ends with the process."""

    capabilities = msgspec.structs.replace(LOSSY, shared=False)

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._store = MemoryStore()
        self._cursors = Cursors()
        self._changed = threading.Condition()
        self._pid = os.getpid()
        self._closed = False

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        with self._writing() as now:
            answers = [self._add(envelope, now, retried=retried) for envelope in envelopes]
            self._store.audit.add(audit, [answer.id for answer in answers if answer.created] or None)
            return answers

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        with self._writing() as now:
            if adopts is not None and not {adopts, session.owner} & self._store.sessions.keys():
                return None
            lease_for = round(session.lease_for.total_seconds() * SECOND)
            lanes.declare(self._store, session.limits)
            opened = self._store.sessions[session.owner] = OpenSession(session, now + lease_for)
            if adopts is None:
                return []
            self._store.sessions.pop(adopts, None)
            for job_id in list(self._store.leased.get(adopts, ())):
                self._store.place(self._store.live[job_id], State.EXECUTING, owner=session.owner)
            held = sorted(self._store.leased.get(session.owner, ()))
            return [self._lease(self._store.live[job_id], opened, now, adopted=True) for job_id in held]

    def turn(self, turn: Turn) -> TurnResult:
        with self._writing() as now:
            session = self._store.sessions.get(turn.owner)
            if session is None:
                settled = [settling.classify(self._store, settlement) for settlement in turn.settlements]
                return TurnResult(settled=settled, leases=[], alive=False)
            settled = settling.settle(self._store, turn.settlements, turn.owner, now)
            for settlement, answer in zip(turn.settlements, settled, strict=True):
                if settlement.dead_letter is not None and answer.applied and answer.state is State.DISCARDED:
                    self._add(settlement.dead_letter, now)
            leases: list[Lease] = []
            promoted, more, awaits_slots = 0, False, False
            if turn.claim is not None and turn.claim.limit > 0:
                promoted = self._expire_and_promote(turn.claim, now)
                released = {
                    each.lease.envelope.id
                    for each, answer in zip(turn.settlements, settled, strict=True)
                    if each.move == "release" and answer.applied
                }
                picks, more, awaits_slots = self._candidates(turn.claim, released, now)
                leases = [self._take(job, turn.owner, session, now, probe=probe) for job, probe in picks]
            return TurnResult(
                settled=settled,
                leases=leases,
                promoted=promoted,
                more=more,
                awaits_slots=awaits_slots,
                cancel_requested=self._asked_to_cancel(turn.owner),
            )

    def _renew(self, owner: str) -> Renewal:
        with self._writing() as now:
            session = self._store.sessions.get(owner)
            if session is None:
                return Renewal(alive=False)
            session.expires_at = now + round(session.session.lease_for.total_seconds() * SECOND)
            return Renewal(alive=True, cancel_requested=self._asked_to_cancel(owner))

    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        with self._writing() as now:
            if owner is None and queue is None:
                flows.sweep(self._store, now)
            sessions = self._store.sessions
            dead = [name for name, each in sessions.items() if each.expires_at <= now] if owner is None else [owner]
            if queue is not None:
                dead = [name for name in dead if self._leased(name, queue)]
            ended = {name: each for name in dead if (each := sessions.pop(name, None)) is not None}
            abandoned = [name for name in self._store.leased if name not in sessions] if owner is None else dead
            begun = None if started is None else set(started)
            why = cause or ("its session expired" if owner is None else "its process died")
            return [
                settling.give_back(
                    self._store,
                    job,
                    now,
                    why,
                    started=begun is None or (job.id, job.delivery) in begun,
                    by=ended[name].session.ran_by() if name in ended else None,
                )
                for name in abandoned
                for job in self._leased(name, queue)
            ]

    def _leased(self, owner: str, queue: str | None) -> list[MemoryJob]:
        jobs = [self._store.live[job_id] for job_id in sorted(self._store.leased.get(owner, ()))]
        return [job for job in jobs if queue in (None, job.queue)]

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._closed:
                pause = min(deadline - time.monotonic(), self._until_due(queues))
                if pause <= 0:
                    return
                self._changed.wait(pause)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def empty(self) -> None:
        with self._writing():
            self._store = MemoryStore()

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """Hold the lock; yields the time, read once the lock is held."""
        if os.getpid() != self._pid:
            raise BackendMisconfigured(
                "memory:// belongs to the process that made it, and this process is a fork of it: no other process would "
                "see jobs enqueued here; use sqlite:///file"
            )
        with uninterrupted(), self._changed:
            if self._closed:
                raise BackendError("this backend is closed")
            now = self.clock.micros()
            yield now
            if self._store.flows.touched:
                flows.look(self._store, now)
            self._changed.notify_all()

    def _add(self, envelope: Envelope, now: int, *, retried: bool = False) -> Enqueued:
        store = self._store
        if envelope.id in store.live or (retried and envelope.id in store.finished):
            return Enqueued(envelope.id, created=False, existing_id=envelope.id)
        holder = store.live.get(store.unique.get(envelope.unique_key or "", ""))
        if holder is not None and envelope.unique_key is not None:
            if envelope.unique_strategy == "ignore_new":
                return Enqueued(envelope.id, created=False, existing_id=holder.id)
            self._replace(holder, envelope.id, now)
        if envelope.flow is not None and flows.add_waiting(store, envelope, now):
            return Enqueued(envelope.id)
        available_at = max(now + envelope.delay, envelope.not_before or 0)
        due = State.AVAILABLE if available_at <= now else State.SCHEDULED
        store.add(MemoryJob(envelope, due, available_at))
        return Enqueued(envelope.id)

    def _replace(self, holder: MemoryJob, by: str, now: int) -> None:
        reason = f"replaced by {by}"
        if holder.state is State.EXECUTING:
            self._store.free_key(holder)
            holder.cancel_reason = holder.cancel_reason or reason
        else:
            self._store.finish(holder, State.CANCELLED, now, reason)

    def _expire_and_promote(self, claim: Claim, now: int) -> int:
        promoted = 0
        for queue in dict.fromkeys(claim.queues):
            if queue in self._store.paused:
                continue
            expired = [job_id for at, job_id in islice(self._store.expiring[queue], claim.limit) if at <= now]
            for job_id in expired:
                self._store.finish(self._store.live[job_id], State.CANCELLED, now, "expired")
            due = [job_id for at, job_id in islice(self._store.later[queue], claim.limit) if at <= now]
            for job_id in due:
                self._store.place(self._store.live[job_id], State.AVAILABLE)
            promoted += len(due) + lanes.promote_booked(self._store, queue, now)
        return promoted

    def _candidates(
        self, claim: Claim, released: set[str], now: int
    ) -> tuple[list[tuple[MemoryJob, float]], bool, bool]:
        """Return the next jobs in claim order, whether to claim again, and whether others wait for slots."""
        if any(lanes.has_lanes(self._store, queue) for queue in claim.queues):
            found = lanes.walk_lanes(self._store, self._cursors, claim, released, now)
            return [(pick.job, pick.probe / SECOND) for pick in found.picks], found.more, found.awaits_slots
        return [(job, 0) for job in self._plain_candidates(claim, released, now)], False, False

    def _plain_candidates(self, claim: Claim, released: set[str], now: int) -> list[MemoryJob]:
        """Return the next jobs where none has a lane; a suspect only if it comes first, and then alone."""
        chosen: list[MemoryJob] = []
        for queue in dict.fromkeys(claim.queues):
            if queue in self._store.paused:
                continue
            most = len(chosen) + claim.at_most.get(queue, claim.limit)
            for _, _, job_id in self._store.ready[queue]:
                job = self._store.live[job_id]
                if len(chosen) >= most:
                    break
                if job_id in released or job.expired(now):
                    continue
                if job.crashes > 0:
                    return chosen or [job]
                chosen.append(job)
                if len(chosen) == claim.limit:
                    return chosen
        return chosen

    def _take(self, job: MemoryJob, owner: str, session: OpenSession, now: int, *, probe: float) -> Lease:
        job.delivery += 1
        job.started_at = now
        self._store.place(job, State.EXECUTING, owner=owner)
        return self._lease(job, session, now, probe=probe)

    def _lease(
        self, job: MemoryJob, session: OpenSession, now: int, *, adopted: bool = False, probe: float = 0
    ) -> Lease:
        take = settling.hold_of if adopted else settling.take_holds
        hold, holder = take(self._store, job, now)
        return Lease(
            envelope=job.envelope,
            token=job.delivery,
            owner=session.session.owner,
            expires_at=session.expires_at,
            claimed_at=job.started_at or now,
            attempts=job.attempts,
            crashes=job.crashes,
            interruptions=job.interruptions,
            hold=hold,
            holder=holder,
            waits=job.waits,
            parked_since=job.parked_since,
            spent=job.spent,
            lane=job.lane,
            probe=probe,
            member=job.envelope.flow is not None,
        )

    def _asked_to_cancel(self, owner: str) -> tuple[Held, ...]:
        held = (self._store.live[job_id] for job_id in sorted(self._store.leased.get(owner, ())))
        return tuple((job.id, job.delivery) for job in held if job.cancel_reason is not None)

    def _until_due(self, queues: Sequence[str]) -> float:
        """Return the seconds until the next job of these queues may be claimed; 0 if one may be now."""
        open_queues = [queue for queue in queues if queue not in self._store.paused]
        due = [at for queue in open_queues if (at := self._next_due(queue)) is not None]
        return max(0, min(due) - self.clock.micros()) / SECOND if due else threading.TIMEOUT_MAX

    def _next_due(self, queue: str) -> int | None:
        """Return when a claim of this queue finds a job: 0 if it would now, None if no instant is known."""
        store = self._store
        if lanes.has_lanes(store, queue):
            known = (lanes.opens_at(store, queue, self.clock.micros()), store.waits_until(queue))
            return min((at for at in known if at is not None), default=None)
        return 0 if store.ready.get(queue) else store.waits_until(queue)
