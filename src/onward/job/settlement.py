"""How a lease ends: a fenced move of one job, what it does to the job, and the store's answer.

A settlement is applied only if the job still is where the lease left it: same id, same token, same owner, still executing,
compared in the same statement that writes.  So a worker that lost its lease can change nothing, and a settlement repeated
after a lost answer is recognised.

`fate` returns what an applied settlement does, `judge` what became of one whose fence matches nothing.  Both are pure: every
store calls them, or says where it repeats them and why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple, TypedDict, Unpack

import msgspec

from onward.base import fingerprint
from onward.base.backoff import doubling
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.base.fingerprint import CRASHED
from onward.base.wording import counted
from onward.job.envelope import Envelope
from onward.job.lease import Lease
from onward.job.ran_by import RanBy
from onward.job.states import TARGETS, WAITING, State, state_named

__all__ = [
    "Answer",
    "Fate",
    "GateChange",
    "Leased",
    "Settled",
    "Settlement",
    "SettlingMove",
    "already_applied",
    "applied",
    "because",
    "crash_pause",
    "fate",
    "is_due_at_once",
    "judge",
    "on_record",
    "under",
]

SettlingMove = Literal["ack", "skip", "nack", "abandon", "snooze", "park", "cancelled", "release", "crashed"]


class RunRecord(TypedDict, total=False):
    """What is put on record of the run that a settlement ends.  The fields of `Settlement`."""

    failure: Failure | None
    duration_ms: int
    quotes: bool
    by: RanBy | None


class GateChange(NamedTuple):
    """Shuts a lane, or with ``render/`` all lanes of a job; for no time at all: opens it."""

    lane: str
    seconds: float
    probes: bool = False  # whether one run at a time shows afterwards if it may open


class Settlement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An outcome as a fenced move of one job.  Built only by the named constructors below; delays are seconds."""

    lease: Lease
    move: SettlingMove
    ran: bool  # whether a run was completed: then, and only then, `attempts` moves
    delay: float = 0
    result: bytes | None = None  # encoded JSON
    reason: str | None = None
    failure: Failure | None = None
    duration_ms: int = 0
    waits: int = 0
    spent: str | None = None
    keep: bool = True  # False: only a tombstone stays, no payload and no result
    dead_letter: Envelope | None = None  # enqueued in the same write
    quotes: bool = False  # whether its reason quotes the handler
    awaits: str | None = None  # the signal that makes it due before its time
    notes: tuple[tuple[str, bytes], ...] = ()  # name and value, written with the move
    gate: GateChange | None = None  # shuts or opens a lane in the same write
    by: RanBy | None = None  # the worker that ran it, for the record of a run that did not succeed

    @classmethod
    def ack(
        cls,
        lease: Lease,
        result: bytes | None = None,
        *,
        reason: str | None = None,
        failure: Failure | None = None,
        duration_ms: int = 0,
        keep: bool = True,
        quotes: bool = False,
        by: RanBy | None = None,
    ) -> Settlement:
        """Complete the job: it succeeded.  ``failure`` is recorded besides."""
        return cls(
            lease=lease,
            move="ack",
            ran=True,
            result=result,
            reason=reason,
            failure=failure,
            duration_ms=duration_ms,
            keep=keep,
            quotes=quotes,
            by=by,
        )

    @classmethod
    def skip(cls, lease: Lease, reason: str) -> Settlement:
        """Complete the job without a run: its idempotency key is done."""
        return cls(lease=lease, move="skip", ran=False, reason=reason)

    @classmethod
    def nack(
        cls,
        lease: Lease,
        delay: float = 0,
        *,
        ran: bool = True,
        spent: str | None = None,
        failure: Failure | None = None,
        duration_ms: int = 0,
        quotes: bool = False,
        by: RanBy | None = None,
    ) -> Settlement:
        """Retry the job after a delay: it failed.  ``spent``: it failed for good, but could not be dead-lettered yet."""
        return cls(
            lease=lease,
            move="nack",
            ran=ran,
            delay=delay,
            spent=spent,
            failure=failure,
            duration_ms=duration_ms,
            quotes=quotes,
            by=by,
        )

    @classmethod
    def abandon(
        cls,
        lease: Lease,
        reason: str,
        *,
        ran: bool = True,
        dead_letter: Envelope | None = None,
        **run: Unpack[RunRecord],
    ) -> Settlement:
        """Dead-letter the job: it failed for good."""
        return cls(lease=lease, move="abandon", ran=ran, reason=reason, dead_letter=dead_letter, **run)

    @classmethod
    def snooze(
        cls,
        lease: Lease,
        delay: float,
        *,
        waits: int = 0,
        awaits: str | None = None,
        notes: tuple[tuple[str, bytes], ...] = (),
    ) -> Settlement:
        """Put the job back until later, or until its signal comes.  ``waits``: how often another job held its key."""
        return cls(lease=lease, move="snooze", ran=False, delay=delay, waits=waits, awaits=awaits, notes=notes)

    @classmethod
    def park(cls, lease: Lease, delay: float, reason: str) -> Settlement:
        """Put the job back for another worker: this one does not know it."""
        return cls(lease=lease, move="park", ran=False, delay=delay, reason=reason, waits=lease.waits + 1)

    @classmethod
    def cancelled(cls, lease: Lease, reason: str, *, ran: bool = False, **run: Unpack[RunRecord]) -> Settlement:
        """Cancel the job: it was stopped, or expired before it started."""
        return cls(lease=lease, move="cancelled", ran=ran, reason=reason, **run)

    @classmethod
    def release(cls, lease: Lease) -> Settlement:
        """Give the job back unchanged.  The caller knows that its handler does not run."""
        return cls(lease=lease, move="release", ran=False, waits=lease.waits)

    @classmethod
    def crashed(cls, lease: Lease, cause: str, *, by: RanBy | None = None) -> Settlement:
        """Count a crash: the job's own process died."""
        return cls(lease=lease, move="crashed", ran=False, reason=cause, by=by)

    @classmethod
    def given_back(cls, lease: Lease, cause: str, *, started: bool, by: RanBy | None = None) -> Settlement:
        """Give back the job of a session that ended: with a crash if its handler had started."""
        return cls.crashed(lease, cause, by=by) if started else cls.release(lease)


class Answer(StrEnum):
    APPLIED = "applied"
    ALREADY_APPLIED = "already_applied"
    LEASE_LOST = "lease_lost"
    GONE = "gone"


_COUNTING = (Answer.APPLIED, Answer.ALREADY_APPLIED)


class Settled(msgspec.Struct, frozen=True):
    """What became of one settlement, and the state the job went to.

    ``gone``: no trace of the job is left.  For a repeated settlement that means it was applied, for a first one that the
    lease was lost.
    """

    answer: Answer
    state: State | None = None

    @property
    def applied(self) -> bool:
        return self.answer is Answer.APPLIED

    @property
    def already_applied(self) -> bool:
        return self.answer is Answer.ALREADY_APPLIED

    @property
    def lease_lost(self) -> bool:
        return self.answer is Answer.LEASE_LOST

    @property
    def gone(self) -> bool:
        return self.answer is Answer.GONE

    @property
    def counts(self) -> bool:
        """Whether the store holds this outcome, now or from an earlier try."""
        return self.answer in _COUNTING


# One object per kind of answer, not per job.
_APPLIED = {state: Settled(Answer.APPLIED, state) for state in State}
_ALREADY = {state: Settled(Answer.ALREADY_APPLIED, state) for state in State}
LEASE_LOST = Settled(Answer.LEASE_LOST)
GONE = Settled(Answer.GONE)


class Leased(NamedTuple):
    """The columns of a leased job that `fate` reads.  A store whose own statement keeps the last three leaves them out."""

    cancel_reason: str | None = None  # why it was asked to cancel
    crashes: int = 0
    max_crashes: int = 1
    waits: int = 0
    parked_since: int | None = None
    spent: str | None = None


class Fate(NamedTuple):
    """What an applied settlement does to a job."""

    to: State
    reason: str | None
    failure: Failure | None  # goes on record
    attempts: int  # what this counter grows by, and the next two
    crashes: int
    interruptions: int
    due: int | None  # None: when it was before, so it keeps its place
    waits: int
    parked_since: int | None
    spent: str | None
    awaits: str | None = None  # of a job that goes to `scheduled`; its notes are written then, and only then


def fate(settlement: Settlement, leased: Leased, now: int) -> Fate:
    """Return what a settlement does to its job: the table of the contract."""
    move, to, reason = settlement.move, TARGETS[settlement.move], because(settlement)
    failure, crashes = on_record(settlement), leased.crashes + 1
    if move == "crashed":
        reason = f"crashed {counted(crashes, 'time')}: {reason}"
        if crashes >= leased.max_crashes:
            to = State.DISCARDED
    if leased.cancel_reason is not None and move not in ("ack", "cancelled"):
        to, reason = State.CANCELLED, leased.cancel_reason
    if move == "crashed":
        return Fate(to, reason, failure, 0, 1, 0, now + crash_pause(crashes), *leased[3:])
    if move == "release":
        return Fate(to, reason, failure, 0, 0, 1, None, *leased[3:])
    parked_since = None if move != "park" else now if leased.parked_since is None else leased.parked_since
    spent = leased.spent if settlement.spent is None else settlement.spent
    due, waits, awaits = now + round(settlement.delay * SECOND), settlement.waits, settlement.awaits
    return Fate(to, reason, failure, int(settlement.ran), 0, 0, due, waits, parked_since, spent, awaits)


def judge(settlement: Settlement, move: str | None, went_to: str, finished_as: str | None, traced: bool) -> Settled:
    """Return what became of a settlement whose fence matches nothing: by the record, then by the finished job.

    ``move``, ``went_to``: of the record; ``traced``: whether the store knows the id at all.
    """
    if move is not None:
        return already_applied(state_named(went_to)) if move == settlement.move else LEASE_LOST
    if not traced:
        return GONE
    turned = finished_as == State.CANCELLED and settlement.move != "ack"
    if finished_as is not None and (turned or finished_as == TARGETS[settlement.move]):
        return already_applied(state_named(finished_as))
    return LEASE_LOST


def on_record(settlement: Settlement) -> Failure | None:
    """Return the failure to record: every failure, every nack and every crash has one."""
    if settlement.move == "crashed":
        return Failure("Crash", settlement.reason or UNKNOWN_CAUSE, fingerprint=CRASHED)
    return settlement.failure or (UNEXPLAINED if settlement.move == "nack" else None)


def because(settlement: Settlement) -> str | None:
    """Return the reason of a settlement; a crash has one in any case."""
    return settlement.reason or (UNKNOWN_CAUSE if settlement.move == "crashed" else None)


def is_due_at_once(settlement: Settlement, to: State | None) -> bool:
    """Return whether a job that went there can be claimed now, so that idle workers are woken."""
    return to in WAITING and settlement.delay <= 0


# The failure of a nack that was given none, and the cause of a crash that was given none.
UNEXPLAINED = Failure("Failure", "no details were given", fingerprint=fingerprint.UNEXPLAINED)
UNKNOWN_CAUSE = "its process died"


def crash_pause(crashes: int) -> int:
    """Return the microseconds until a crashed job is due: 0 the first time, when another job may have crashed the process.

    >>> [crash_pause(k) // SECOND for k in (1, 2, 3, 4, 20)]
    [0, 10, 20, 40, 600]
    """
    return 0 if crashes <= 1 else int(doubling(10, crashes - 1, 600)) * SECOND


def under(settlement: Settlement, owner: str) -> Settlement:
    """Return the same settlement for the session that holds the lease now."""
    return msgspec.structs.replace(settlement, lease=msgspec.structs.replace(settlement.lease, owner=owner))


def applied(state: State) -> Settled:
    return _APPLIED[state]


def already_applied(state: State) -> Settled:
    return _ALREADY.get(state) or Settled(Answer.ALREADY_APPLIED, state)  # a damaged row may name an unknown state
