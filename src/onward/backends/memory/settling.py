"""Ending leases: the fate table of the contract, holds and their waiters, and what a dead session leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Reaped, Run
from onward.backends.memory.store import HoldKey, Job, Pointer, Store
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.base.wording import counted
from onward.job.lease import (
    GONE,
    LEASE_LOST,
    UNEXPLAINED,
    UNKNOWN_CAUSE,
    Hold,
    Settled,
    Settlement,
    already_applied,
    applied,
    crash_pause,
)
from onward.job.states import FINISHED, TARGETS, State

__all__ = ["classify", "give_back", "settle", "take_holds"]


def settle(store: Store, settlements: Sequence[Settlement], owner: str, now: int) -> list[Settled]:
    """Apply those whose fence holds and say what the evidence says of the others; then end the holds of the former."""
    jobs = [store.live.get(settlement.lease.envelope.id) for settlement in settlements]
    answers = [_settle(store, settlement, owner, now) for settlement in settlements]
    for settlement, job, answer in zip(settlements, jobs, answers, strict=True):
        if job is not None and answer.applied:
            end_holds(store, job, now, confirmed=settlement.move == "ack")
    return answers


def _settle(store: Store, settlement: Settlement, owner: str, now: int) -> Settled:
    lease = settlement.lease
    job = store.live.get(lease.envelope.id)
    if job is None or lease.owner != owner or not _holds(job, lease.token, owner):
        return classify(store, settlement)
    if settlement.move == "crashed":
        return applied(_crash(store, job, now, settlement.reason or UNKNOWN_CAUSE))
    turned = job.cancel_reason is not None and settlement.move != "ack"
    state = State.CANCELLED if turned else TARGETS[settlement.move]
    if settlement.failure is not None or settlement.move == "nack":
        failure = settlement.failure or UNEXPLAINED
        _record(store, job, settlement.move, state, failure, at=now, duration_ms=settlement.duration_ms)
    job.attempts += settlement.ran
    job.interruptions += settlement.move == "release"
    if state in FINISHED:
        _finish(store, job, settlement, state, now)
    else:
        _stay(store, job, settlement, state, now)
    return applied(state)


def _holds(job: Job, token: int, owner: str) -> bool:
    return job.state is State.EXECUTING and job.delivery == token and job.owner == owner


def _finish(store: Store, job: Job, settlement: Settlement, state: State, now: int) -> None:
    reason = settlement.reason if state is TARGETS[settlement.move] else job.cancel_reason
    if settlement.move == "ack":
        job.tombstone = not settlement.keep
        job.result = settlement.result if settlement.keep else None
    store.finish(job, state, now, reason)


def _stay(store: Store, job: Job, settlement: Settlement, state: State, now: int) -> None:
    job.waits = settlement.waits
    if settlement.move == "release":
        store.place(job, state)
        return
    if settlement.spent is not None:
        job.spent = settlement.spent
    if settlement.move != "park":
        job.parked_since = None
    elif job.parked_since is None:
        job.parked_since = now
    store.place(job, state, available_at=now + round(settlement.delay * SECOND))


def classify(store: Store, settlement: Settlement) -> Settled:
    """What became of a settlement whose fence matches nothing: the record first, then the finished job."""
    job_id, token, move = settlement.lease.envelope.id, settlement.lease.token, settlement.move
    run = store.runs.get(job_id, {}).get(token)
    if run is not None:
        return already_applied(run.to) if run.move == move else LEASE_LOST
    if job_id not in store.live and job_id not in store.finished:
        return GONE
    job = store.finished.get(job_id)
    if job is None or job.delivery != token:
        return LEASE_LOST
    turned = job.state is State.CANCELLED and move != "ack"
    return already_applied(job.state) if turned or job.state is TARGETS[move] else LEASE_LOST


def give_back(store: Store, job: Job, now: int, cause: str, *, started: bool) -> Reaped:
    """Take a lease from a session that is no more."""
    if started:
        to = _crash(store, job, now, cause)
    else:
        job.interruptions += 1
        to = State.CANCELLED if job.cancel_reason is not None else State.AVAILABLE
        if to is State.CANCELLED:
            store.finish(job, to, now, job.cancel_reason)
        else:
            store.place(job, to)
    end_holds(store, job, now, confirmed=False)
    return Reaped(
        id=job.id,
        queue=job.queue,
        job=job.envelope.job,
        token=job.delivery,
        to=to,
        cause=cause,
        crashed=started,
        crashes=job.crashes,
    )


def _crash(store: Store, job: Job, now: int, cause: str) -> State:
    job.crashes += 1
    if job.cancel_reason is not None:
        to = State.CANCELLED
    elif job.crashes >= job.envelope.max_crashes:
        to = State.DISCARDED
    else:
        to = State.RETRYABLE
    _record(store, job, "crashed", to, Failure("Crash", cause), at=now, duration_ms=0)
    if to is State.CANCELLED:
        store.finish(job, to, now, job.cancel_reason)
    elif to is State.DISCARDED:
        store.finish(job, to, now, f"crashed {counted(job.crashes, 'time')}: {cause}")
    else:
        store.place(job, to, available_at=now + crash_pause(job.crashes))
    return to


def _record(store: Store, job: Job, move: str, to: State, failure: Failure, *, at: int, duration_ms: int) -> None:
    store.runs[job.id][job.delivery] = Run(
        token=job.delivery,
        attempt=job.attempts + 1,
        move=move,
        to=to,
        failure=failure,
        at=at,
        duration_ms=duration_ms,
    )


def take_holds(store: Store, job: Job, now: int) -> tuple[Hold, str | None]:
    """Take all keys of a job that was just claimed, or none of them."""
    keys = list(job.hold_keys())
    if not keys:
        return Hold.FREE, None
    blocked: tuple[Hold, str | None] | None = None
    for key in keys:
        pointer = store.holds.get(key)
        if pointer is None:
            continue
        if pointer.until is not None:
            if pointer.until > now:
                return Hold.DONE, pointer.job_id
        elif blocked is None and _valid(store, pointer):
            blocked = (Hold.BUSY, pointer.job_id)
    if blocked is not None:
        return blocked
    for key in keys:
        store.holds[key] = Pointer(job.id, job.delivery)
    return Hold.HELD, None


def forget_key(store: Store, key: HoldKey, now: int) -> tuple[Hold, str | None]:
    """Free a key that a success confirmed; one that a lease holds is its job's."""
    pointer = store.holds.get(key)
    if pointer is None:
        return Hold.FREE, None
    if pointer.until is None:
        return (Hold.BUSY, pointer.job_id) if _valid(store, pointer) else (Hold.FREE, None)
    del store.holds[key]
    return (Hold.DONE, pointer.job_id) if pointer.until > now else (Hold.FREE, None)


def hold_of(store: Store, job: Job, now: int) -> tuple[Hold, str | None]:
    """What a lease that changes its owner holds: its pointers were taken when it was claimed."""
    keys = list(job.hold_keys())
    if not keys:
        return Hold.FREE, None
    pointers = [store.holds.get(key) for key in keys]
    if all(pointer is not None and (pointer.job_id, pointer.token) == (job.id, job.delivery) for pointer in pointers):
        return Hold.HELD, None
    return take_holds(store, job, now)


def _valid(store: Store, pointer: Pointer) -> bool:
    job = store.live.get(pointer.job_id)
    return job is not None and job.state is State.EXECUTING and job.delivery == pointer.token


def end_holds(store: Store, job: Job, now: int, *, confirmed: bool) -> None:
    """The lease is over: confirm or drop what it held, and wake who waits for it."""
    for key in job.hold_keys():
        pointer = store.holds.get(key)
        if pointer is None or (pointer.job_id, pointer.token, pointer.until) != (job.id, job.delivery, None):
            continue
        if confirmed and key[0] == "once":
            pointer.until = now + job.envelope.idempotency_ttl
            _wake(store, key, job, now, everybody=True)
        else:
            del store.holds[key]
            _wake(store, key, job, now, everybody=False)


def _wake(store: Store, key: HoldKey, ended: Job, now: int, *, everybody: bool) -> None:
    waiters = sorted(
        (
            job
            for job in store.live.values()
            if job.state is State.SCHEDULED
            and job.waits > 0
            and job.parked_since is None
            and job is not ended
            and key in job.hold_keys()
        ),
        key=lambda job: job.place,
    )
    for job in waiters if everybody else waiters[:1]:
        store.place(job, State.AVAILABLE, available_at=now)
