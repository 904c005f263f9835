"""The contract said once more, as plainly as it can be: what backends are compared with.

Two dictionaries of jobs, one of sessions, one of holds, and loops.  Nothing is fast here, nothing is shared with a backend,
and every method reads like the paragraph of `onward.backend` that it says again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from onward.backend import Enqueued, Held, Reaped, Renewal, Run, Session, Turn, TurnResult
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.job.envelope import Envelope
from onward.job.lease import Hold, Lease
from onward.job.settlement import Answer, Settled, Settlement
from onward.job.states import State
from onward.testing.machine.model_claims import ModelClaims
from onward.testing.machine.model_flows import ModelFlows
from onward.testing.machine.model_job import GOES_TO, HoldKey, ModelJob
from onward.testing.machine.model_notes import ModelNotes
from onward.testing.machine.model_schedules import ModelSchedules

__all__ = ["Model"]


@dataclass
class _Pointer:
    job_id: str
    token: int
    until: int | None = None  # set once it is confirmed


@dataclass
class _Row:
    expires_at: int
    lease_for: int


class Model(ModelClaims, ModelSchedules, ModelFlows, ModelNotes):
    """What a store knows, and the verbs of `Backend`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.records: dict[Held, Run] = {}
        self.sessions: dict[str, _Row] = {}
        self.holds: dict[HoldKey, _Pointer] = {}

    @property
    def now(self) -> int:
        return self.clock.micros()

    def moments(self) -> list[int]:
        """Return when something that is known now will be due or over."""
        instants = [row.expires_at for row in self.sessions.values()]
        instants += [pointer.until for pointer in self.holds.values() if pointer.until is not None]
        for job in self.live.values():
            instants += [0 if job.awaits_node else job.available_at, job.envelope.expires_at or 0]
        instants += self.left_open_until()
        instants += self.instants()
        return sorted({instant for instant in instants if instant > self.now})

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        return self._add_all(envelopes, retried=retried)

    def _add(self, envelope: Envelope, *, retried: bool = False) -> Enqueued:
        if envelope.id in self.live or (retried and envelope.id in self.finished):
            return Enqueued(envelope.id, created=False, existing_id=envelope.id)
        holder = self.holder_of(envelope.unique_key)
        if holder is not None:
            if envelope.unique_strategy == "ignore_new":
                return Enqueued(envelope.id, created=False, existing_id=holder.id)
            self.events[f"replaced, {holder.state}"] += 1
            if holder.waiting:
                self.finish(holder, State.CANCELLED, f"replaced by {envelope.id}")
            else:
                holder.unique_key = None
                holder.asked = holder.asked or f"replaced by {envelope.id}"
        waiting = self.add_member(envelope) if envelope.flow is not None else None
        if waiting is not None:
            self.live[envelope.id] = waiting
            return Enqueued(envelope.id)
        available_at = max(self.now + envelope.delay, envelope.not_before or 0)
        state = State.AVAILABLE if available_at <= self.now else State.SCHEDULED
        self.live[envelope.id] = ModelJob(envelope, state, available_at, envelope.unique_key)
        return Enqueued(envelope.id)

    def holder_of(self, unique_key: str | None) -> ModelJob | None:
        return next((job for job in self.live.values() if unique_key and job.unique_key == unique_key), None)

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        if adopts is not None and adopts not in self.sessions and session.owner not in self.sessions:
            return None
        self.declare(session.limits)
        lease_for = round(session.lease_for.total_seconds() * SECOND)
        self.sessions[session.owner] = _Row(self.now + lease_for, lease_for)
        if adopts is None:
            return []
        self.sessions.pop(adopts, None)
        for job in self.held_by(adopts):
            job.owner = session.owner
        return [self._lease(job, *self._take_holds(job)) for job in self.held_by(session.owner)]

    def turn(self, turn: Turn) -> TurnResult:
        if turn.owner not in self.sessions:
            return TurnResult(settled=[self._classify(each) for each in turn.settlements], leases=[], alive=False)
        settled = self._settle_all(turn.settlements, turn.owner)
        released = {
            each.lease.envelope.id
            for each, answer in zip(turn.settlements, settled, strict=True)
            if each.move == "release" and answer.applied
        }
        promoted, leases = 0, []
        if turn.claim is not None:
            promoted = self._expire_and_promote(turn.claim)
            leases = [self._take(job, turn.owner) for job in self._next_in_line(turn.claim, released)]
            self._book(turn.claim, released)
        asked = self._asked(turn.owner)
        self.look()
        return TurnResult(settled=settled, leases=leases, promoted=promoted, cancel_requested=asked)

    def extend(self, owner: str) -> Renewal:
        row = self.sessions.get(owner)
        if row is None:
            return Renewal(alive=False)
        row.expires_at = self.now + row.lease_for
        return Renewal(alive=True, cancel_requested=self._asked(owner))

    def _asked(self, owner: str) -> tuple[Held, ...]:
        return tuple((job.id, job.delivery) for job in self.held_by(owner) if job.asked is not None)

    def held_by(self, owner: str) -> list[ModelJob]:
        held = [job for job in self.live.values() if job.state is State.EXECUTING and job.owner == owner]
        return sorted(held, key=lambda job: job.place)

    # Settling.

    def holds_lease(self, lease: Lease, owner: str) -> bool:
        """Compare state, token and owner: the fence."""
        job = self.live.get(lease.envelope.id)
        fence = (State.EXECUTING, lease.token, lease.owner)
        return job is not None and (job.state, job.delivery, job.owner) == fence and lease.owner == owner

    def _settle_all(self, settlements: Sequence[Settlement], owner: str) -> list[Settled]:
        jobs = [self.live.get(each.lease.envelope.id) for each in settlements]
        answers = [self._settle(each, owner) for each in settlements]
        for each, job, answer in zip(settlements, jobs, answers, strict=True):
            if job is not None and answer.answer is Answer.APPLIED:
                self._end_holds(job, confirmed=each.move == "ack")
                if each.gate is not None:
                    self.change_gate(each.gate)
        return answers

    def _settle(self, settlement: Settlement, owner: str) -> Settled:
        if not self.holds_lease(settlement.lease, owner):
            return self._classify(settlement)
        job = self.live[settlement.lease.envelope.id]
        if settlement.move == "crashed":
            state = self._crash(job, settlement.reason or "")
            if state in {State.CANCELLED, State.DISCARDED}:
                self.finish(job, state, job.asked if state is State.CANCELLED else f"crashed {settlement.reason}")
            else:
                job.state, job.owner = state, None
            return Settled(Answer.APPLIED, state)
        turned = job.asked is not None and settlement.move != "ack"
        state = State.CANCELLED if turned else GOES_TO[settlement.move]
        self.events["turned into cancelled"] += turned
        if settlement.move == "nack" or settlement.failure is not None:
            failure = settlement.failure or Failure("", "")
            self._record(job, settlement.move, state, failure, settlement.duration_ms)
        job.attempts += settlement.ran
        job.interruptions += settlement.move == "release"
        if state is State.CANCELLED:
            self.finish(job, state, settlement.reason if settlement.move == "cancelled" else job.asked)
        elif state in {State.COMPLETED, State.DISCARDED}:
            self._end_by(job, state, settlement)
        else:
            self._put_back(job, state, settlement)
        return Settled(Answer.APPLIED, state)

    def _end_by(self, job: ModelJob, state: State, settlement: Settlement) -> None:
        self.finish(job, state, settlement.reason)
        if settlement.move == "ack":
            kept = settlement.keep or self.flow_of(job.envelope) is not None
            job.tombstone = not kept
            job.result = settlement.result if kept else None
        if state is State.DISCARDED and settlement.dead_letter is not None:
            self._add(settlement.dead_letter)
            self.events["dead letter"] += 1

    def _put_back(self, job: ModelJob, state: State, settlement: Settlement) -> None:
        job.state, job.owner = state, None
        if settlement.move == "release":
            return
        job.available_at = self.now + round(settlement.delay * SECOND)
        job.waits = settlement.waits if settlement.move in {"snooze", "park"} else 0
        job.spent = settlement.spent or job.spent
        job.awaits = settlement.awaits
        for name, value in settlement.notes:
            self.write(job, name, value)
        self.heed_signal(job)
        if settlement.move != "park":
            job.parked_since = None
        elif job.parked_since is None:
            job.parked_since = self.now

    def finish(self, job: ModelJob, state: State, reason: str | None) -> None:
        job.state, job.reason, job.finished_at = state, reason, self.now
        job.unique_key = job.asked = None
        job.died = self._died(job) if state is State.DISCARDED else None
        self.finished[job.id] = self.live.pop(job.id)
        self.note_end(job)

    def _died(self, job: ModelJob) -> str:
        """Return the fingerprint of the newest record of a job's runs."""
        runs = {token: run for (job_id, token), run in self.records.items() if job_id == job.id}
        if not runs:
            return "unexplained"
        newest = runs[max(runs)]
        return "crashed" if newest.move == "crashed" else newest.failure.fingerprint or "unexplained"

    def _record(self, job: ModelJob, move: str, to: State, failure: Failure, duration_ms: int = 0) -> None:
        self.records[job.id, job.delivery] = Run(
            token=job.delivery,
            attempt=job.attempts + 1,
            move=move,
            to=to,
            failure=failure,
            at=self.now,
            duration_ms=duration_ms,
            owner=job.owner,
        )

    def _classify(self, settlement: Settlement) -> Settled:
        job_id, token = settlement.lease.envelope.id, settlement.lease.token
        record = self.records.get((job_id, token))
        if record is not None:
            if record.move == settlement.move:
                return Settled(Answer.ALREADY_APPLIED, record.to)
            return Settled(Answer.LEASE_LOST)
        finished = self.finished.get(job_id)
        if finished is not None and finished.delivery == token:
            turned = finished.state is State.CANCELLED and settlement.move != "ack"
            if turned or finished.state is GOES_TO[settlement.move]:
                return Settled(Answer.ALREADY_APPLIED, finished.state)
        traces = {*self.live, *self.finished, *(job_id for job_id, _ in self.records)}
        return Settled(Answer.LEASE_LOST if job_id in traces else Answer.GONE)

    # Claiming.

    def _take(self, job: ModelJob, owner: str) -> Lease:
        probe = self.probe_of(job)
        job.state, job.owner, job.started_at, job.booked = State.EXECUTING, owner, self.now, False
        job.delivery += 1
        return replace(self._lease(job, *self._take_holds(job)), probe=probe)

    def _lease(self, job: ModelJob, hold: Hold, holder: str | None) -> Lease:
        assert job.owner is not None
        assert job.started_at is not None
        return Lease(
            envelope=job.envelope,
            token=job.delivery,
            owner=job.owner,
            expires_at=self.sessions[job.owner].expires_at,
            claimed_at=job.started_at,
            attempts=job.attempts,
            crashes=job.crashes,
            interruptions=job.interruptions,
            hold=hold,
            holder=holder,
            waits=job.waits,
            parked_since=job.parked_since,
            spent=job.spent,
            lane=job.envelope.lane,
            member=job.envelope.flow is not None,
        )

    # Holds.

    def _take_holds(self, job: ModelJob) -> tuple[Hold, str | None]:
        """Take all of a job's keys or none; what it holds already it goes on holding."""
        if not job.keys:
            return Hold.FREE, None
        mine = _Pointer(job.id, job.delivery)
        others = [pointer for pointer in map(self._valid, job.keys) if pointer is not None and pointer != mine]
        done = [pointer.job_id for pointer in others if pointer.until is not None]
        busy = [pointer.job_id for pointer in others if pointer.until is None]
        if done or busy:
            return (Hold.DONE, done[0]) if done else (Hold.BUSY, busy[0])
        self.holds |= {key: _Pointer(job.id, job.delivery) for key in job.keys}
        return Hold.HELD, None

    def _valid(self, key: HoldKey) -> _Pointer | None:
        pointer = self.holds.get(key)
        if pointer is None:
            return None
        if pointer.until is not None:
            return pointer if self.now < pointer.until else None
        job = self.live.get(pointer.job_id)
        runs = job is not None and job.state is State.EXECUTING and job.delivery == pointer.token
        return pointer if runs else None

    def _end_holds(self, job: ModelJob, *, confirmed: bool) -> None:
        for key in job.keys:
            pointer = self.holds.get(key)
            if pointer != _Pointer(job.id, job.delivery):
                continue
            if confirmed and key[0] == "idempotency":
                pointer.until = self.now + job.envelope.idempotency_ttl
                self._wake(self._waiters(key, job))
            else:
                del self.holds[key]
                self._wake(self._waiters(key, job)[:1])

    def _waiters(self, key: HoldKey, ended: ModelJob) -> list[ModelJob]:
        waiters = [
            job
            for job in self.live.values()
            if job.state is State.SCHEDULED and job.waits > 0 and job.parked_since is None and key in job.keys
        ]
        return sorted((job for job in waiters if job is not ended), key=lambda job: job.place)

    def _wake(self, jobs: list[ModelJob]) -> None:
        for job in jobs:
            job.state, job.available_at = State.AVAILABLE, self.now
        self.events["waiter woken"] += len(jobs)

    # Reaping.

    def reap(
        self, *, owner: str | None = None, started: Sequence[Held] | None = None, cause: str | None = None
    ) -> list[Reaped]:
        if owner is None:
            self.close_left_open()
        dead = {name for name, row in self.sessions.items() if row.expires_at <= self.now} if owner is None else {owner}
        for name in dead & self.sessions.keys():
            del self.sessions[name]
        lost = [job for job in self.live.values() if job.state is State.EXECUTING]
        reaped = [
            self._give_back(job, cause or "", started=started is None or (job.id, job.delivery) in started)
            for job in lost
            if job.owner in dead or (owner is None and job.owner not in self.sessions)
        ]
        self.look()
        return reaped

    def _give_back(self, job: ModelJob, cause: str, *, started: bool) -> Reaped:
        if started:
            to = self._crash(job, cause)
        else:
            job.interruptions += 1
            to = State.AVAILABLE if job.asked is None else State.CANCELLED
        if to is State.CANCELLED:
            self.finish(job, to, job.asked)
        elif to is State.DISCARDED:
            self.finish(job, to, f"crashed {cause}")
        else:
            job.state, job.owner = to, None
        self._end_holds(job, confirmed=False)
        return Reaped(
            id=job.id,
            queue=job.envelope.queue,
            job=job.envelope.job,
            token=job.delivery,
            to=to,
            cause=cause,
            crashed=started,
            crashes=job.crashes,
        )

    def _crash(self, job: ModelJob, cause: str) -> State:
        job.crashes += 1
        if job.asked is not None:
            to = State.CANCELLED
        elif job.crashes >= job.envelope.max_crashes:
            to = State.DISCARDED
        else:
            to = State.RETRYABLE
            pause = 0 if job.crashes == 1 else min(10 * 2 ** (job.crashes - 2), 600)
            job.available_at = self.now + pause * SECOND
        self._record(job, "crashed", to, Failure("", cause))
        return to
