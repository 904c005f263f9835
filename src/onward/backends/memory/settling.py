"""Ending leases: the fate table of the contract, holds and their waiters, and the leases of dead sessions."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Reaped, Run
from onward.backends.memory import notes
from onward.backends.memory.lanes import change_gate
from onward.backends.memory.store import HoldKey, MemoryJob, MemoryStore, Pointer
from onward.job.lease import Hold, Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Leased, Settled, Settlement, applied, fate, judge
from onward.job.states import FINISHED, State

__all__ = ["classify", "give_back", "holder_of", "settle", "take_holds"]


def settle(store: MemoryStore, settlements: Sequence[Settlement], owner: str, now: int) -> list[Settled]:
    """Apply those whose fence holds and answer the others by evidence; then end the holds of the former."""
    jobs = [store.live.get(settlement.lease.envelope.id) for settlement in settlements]
    answers = [_settle(store, settlement, owner, now) for settlement in settlements]
    for settlement, job, answer in zip(settlements, jobs, answers, strict=True):
        if job is not None and answer.applied:
            end_holds(store, job, now, confirmed=settlement.move == "ack")
            if settlement.gate is not None:
                change_gate(store, settlement.gate, now)
    return answers


def _settle(store: MemoryStore, settlement: Settlement, owner: str, now: int) -> Settled:
    lease = settlement.lease
    job = store.live.get(lease.envelope.id)
    if job is None or lease.owner != owner or not _holds(job, lease.token, owner):
        return classify(store, settlement)
    return applied(_apply(store, job, settlement, now))


def _holds(job: MemoryJob, token: int, owner: str) -> bool:
    return job.state is State.EXECUTING and job.delivery == token and job.owner == owner


def _apply(store: MemoryStore, job: MemoryJob, settlement: Settlement, now: int) -> State:
    leased = Leased(job.cancel_reason, job.crashes, job.envelope.max_crashes, job.waits, job.parked_since, job.spent)
    what = fate(settlement, leased, now)
    if what.failure is not None:
        store.runs[job.id][job.delivery] = Run(
            token=job.delivery,
            attempt=job.attempts + 1,
            move=settlement.move,
            to=what.to,
            failure=what.failure,
            at=now,
            duration_ms=settlement.duration_ms,
            owner=job.owner,
            by=settlement.by,
        )
    job.attempts += what.attempts
    job.crashes += what.crashes
    job.interruptions += what.interruptions
    if what.to in FINISHED:
        if settlement.move == "ack":
            kept = settlement.keep or store.flows.knows(job.envelope)  # those behind it may want its result
            job.tombstone = not kept
            job.result = settlement.result if kept else None
        store.finish(job, what.to, now, what.reason)
        return what.to
    job.waits, job.parked_since, job.spent, job.awaits = what.waits, what.parked_since, what.spent, what.awaits
    store.place(job, what.to, available_at=what.due)
    if what.to is State.SCHEDULED:
        notes.snoozed(store, job, settlement, now)
    return what.to


def classify(store: MemoryStore, settlement: Settlement) -> Settled:
    """Answer a settlement whose fence matches nothing, by evidence."""
    job_id, token = settlement.lease.envelope.id, settlement.lease.token
    run, job = store.runs.get(job_id, {}).get(token), store.finished.get(job_id)
    finished_as = job.state if job is not None and job.delivery == token else None
    move, went_to = (None, "") if run is None else (run.move, run.to)
    return judge(settlement, move, went_to, finished_as, traced=job is not None or job_id in store.live)


def give_back(
    store: MemoryStore, job: MemoryJob, now: int, cause: str, *, started: bool, by: RanBy | None = None
) -> Reaped:
    """Give back a lease of a session that has ended."""
    lease = Lease(envelope=job.envelope, token=job.delivery, owner=job.owner or "", expires_at=0, claimed_at=0)
    to = _apply(store, job, Settlement.given_back(lease, cause, started=started, by=by), now)
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


def take_holds(store: MemoryStore, job: MemoryJob, now: int) -> tuple[Hold, str | None]:
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


def holder_of(store: MemoryStore, key: HoldKey, now: int) -> Pointer | None:
    """Return the lease that holds a key, or whose success is remembered under it."""
    pointer = store.holds.get(key)
    if pointer is None:
        return None
    holds = _valid(store, pointer) if pointer.until is None else pointer.until > now
    return pointer if holds else None


def forget_key(store: MemoryStore, key: HoldKey, now: int) -> tuple[Hold, str | None]:
    """Free a key that a success confirmed; a key that a lease holds stays."""
    pointer = store.holds.get(key)
    if pointer is None:
        return Hold.FREE, None
    if pointer.until is None:
        return (Hold.BUSY, pointer.job_id) if _valid(store, pointer) else (Hold.FREE, None)
    del store.holds[key]
    return (Hold.DONE, pointer.job_id) if pointer.until > now else (Hold.FREE, None)


def hold_of(store: MemoryStore, job: MemoryJob, now: int) -> tuple[Hold, str | None]:
    """Return what a lease that changes its owner holds: its pointers were taken when it was claimed."""
    keys = list(job.hold_keys())
    if not keys:
        return Hold.FREE, None
    pointers = [store.holds.get(key) for key in keys]
    if all(pointer is not None and (pointer.job_id, pointer.token) == (job.id, job.delivery) for pointer in pointers):
        return Hold.HELD, None
    return take_holds(store, job, now)


def _valid(store: MemoryStore, pointer: Pointer) -> bool:
    job = store.live.get(pointer.job_id)
    return job is not None and job.state is State.EXECUTING and job.delivery == pointer.token


def end_holds(store: MemoryStore, job: MemoryJob, now: int, *, confirmed: bool) -> None:
    """Confirm or drop the holds of an ended lease, and make the jobs due that wait for them."""
    for key in job.hold_keys():
        pointer = store.holds.get(key)
        if pointer is None or (pointer.job_id, pointer.token, pointer.until) != (job.id, job.delivery, None):
            continue
        if confirmed and key[0] == "once":
            pointer.until = now + job.envelope.idempotency_ttl
            _wake(store, key, job, now, all_of_them=True)
        else:
            del store.holds[key]
            _wake(store, key, job, now, all_of_them=False)


def _wake(store: MemoryStore, key: HoldKey, ended: MemoryJob, now: int, *, all_of_them: bool) -> None:
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
    for job in waiters if all_of_them else waiters[:1]:
        store.place(job, State.AVAILABLE, available_at=now)
