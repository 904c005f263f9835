"""Permission to run one attempt, and the fenced moves that end it.

A lease belongs to a session (its ``owner``) and carries a fencing token that grows with every claim.  It ends in exactly
one settlement.  A settlement is applied only if the job still is where the lease left it: same id, same token, same owner,
still executing, compared in the same statement that writes.  So a worker that lost its lease can change nothing, and a
settlement repeated after a lost answer is recognised.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from onward.base.backoff import doubling
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.job.envelope import Envelope, Sealed
from onward.job.states import State

__all__ = ["LARGEST_COUNT", "LAST_INSTANT", "Answer", "Hold", "Lease", "Settled", "Settlement", "SettlingMove"]

# What no worker could have written is outside of these: a counter grows by one at a time, an instant is a date of Python's.
LARGEST_COUNT = 2**31 - 1
LAST_INSTANT = 253_402_300_799_999_999  # the last microsecond of the year 9999


class Hold(StrEnum):
    """What became of the job's idempotency key and single-instance lock when it was claimed."""

    FREE = "free"  # it carries none
    HELD = "held"  # ours while the lease is
    BUSY = "busy"  # another job's lease holds it
    DONE = "done"  # a job with this idempotency key has succeeded


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Permission to run one attempt of one job, while its session lives."""

    envelope: Sealed
    token: int  # the delivery number: grows with every claim, so a late writer is told apart
    owner: str
    expires_at: int  # the session's expiry when this was claimed; renewals move the session, not the lease
    claimed_at: int
    attempts: int = 0  # runs completed before this one; the backend counts, the worker only reads
    crashes: int = 0
    interruptions: int = 0
    hold: Hold = Hold.FREE
    holder: str | None = None  # the job that holds, or has finished, the key
    waits: int = 0  # how often in a row it was put back without a run: held key, unknown job
    parked_since: int | None = None
    spent: str | None = None  # why it is already dead, if only its dead letter could not be stored
    private: bool = False  # its arguments came encrypted: so what is stored of it is, too
    receipt: object = None  # private to the backend that issued it


SettlingMove = Literal["ack", "skip", "nack", "abandon", "snooze", "park", "cancelled", "release", "crashed"]


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
    quotes: bool = False  # whether its reason has words of the handler's in it

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
    ) -> Settlement:
        """It succeeded.  ``failure``: what is put on record beside that."""
        return cls(
            lease=lease,
            move="ack",
            ran=True,
            result=result,
            reason=reason,
            failure=failure,
            duration_ms=duration_ms,
            keep=keep,
        )

    @classmethod
    def skip(cls, lease: Lease, reason: str) -> Settlement:
        """It need not run: its idempotency key is done."""
        return cls(lease=lease, move="skip", ran=False, reason=reason)

    @classmethod
    def nack(
        cls,
        lease: Lease,
        delay: float = 0,
        *,
        failure: Failure | None = None,
        duration_ms: int = 0,
        ran: bool = True,
        spent: str | None = None,
    ) -> Settlement:
        """It failed and will be tried again.  ``spent``: it failed for good, but could not be dead-lettered yet."""
        return cls(
            lease=lease, move="nack", ran=ran, delay=delay, failure=failure, duration_ms=duration_ms, spent=spent
        )

    @classmethod
    def abandon(
        cls,
        lease: Lease,
        reason: str,
        *,
        ran: bool = True,
        failure: Failure | None = None,
        duration_ms: int = 0,
        dead_letter: Envelope | None = None,
    ) -> Settlement:
        """It failed for good: dead-letter it."""
        return cls(
            lease=lease,
            move="abandon",
            ran=ran,
            reason=reason,
            failure=failure,
            duration_ms=duration_ms,
            dead_letter=dead_letter,
        )

    @classmethod
    def snooze(cls, lease: Lease, delay: float, *, waits: int = 0) -> Settlement:
        """Not now.  ``waits`` counts on when it waits for somebody else's hold."""
        return cls(lease=lease, move="snooze", ran=False, delay=delay, waits=waits)

    @classmethod
    def park(cls, lease: Lease, delay: float, reason: str) -> Settlement:
        """Nobody here knows this job; perhaps somebody will."""
        return cls(lease=lease, move="park", ran=False, delay=delay, reason=reason, waits=lease.waits + 1)

    @classmethod
    def cancelled(
        cls, lease: Lease, reason: str, *, ran: bool = False, failure: Failure | None = None, duration_ms: int = 0
    ) -> Settlement:
        """It was stopped, or expired before it started."""
        return cls(lease=lease, move="cancelled", ran=ran, reason=reason, failure=failure, duration_ms=duration_ms)

    @classmethod
    def release(cls, lease: Lease) -> Settlement:
        """Given back unharmed, by somebody who knows that its code does not run."""
        return cls(lease=lease, move="release", ran=False, waits=lease.waits)

    @classmethod
    def crashed(cls, lease: Lease, cause: str) -> Settlement:
        """The process that it ran in, alone, died."""
        return cls(lease=lease, move="crashed", ran=False, reason=cause)


class Answer(StrEnum):
    APPLIED = "applied"
    ALREADY_APPLIED = "already_applied"
    LEASE_LOST = "lease_lost"
    GONE = "gone"


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
        return self.answer in (Answer.APPLIED, Answer.ALREADY_APPLIED)


# One object per kind of answer, not per job.
_APPLIED = {state: Settled(Answer.APPLIED, state) for state in State}
_ALREADY = {state: Settled(Answer.ALREADY_APPLIED, state) for state in State}
LEASE_LOST = Settled(Answer.LEASE_LOST)
GONE = Settled(Answer.GONE)


# What a nack records that was given no failure, and a crash that was given no cause.
UNEXPLAINED = Failure("Failure", "no details were given")
UNKNOWN_CAUSE = "its process died"


def crash_pause(crashes: int) -> int:
    """Microseconds until a crashed job is due: at once the first time, for it may have been another's crash; then longer.

    >>> [crash_pause(k) // SECOND for k in (1, 2, 3, 4, 20)]
    [0, 10, 20, 40, 600]
    """
    return 0 if crashes <= 1 else int(doubling(10, crashes - 1, 600)) * SECOND


def under(settlement: Settlement, owner: str) -> Settlement:
    """The same for the session that has the lease by now."""
    return msgspec.structs.replace(settlement, lease=msgspec.structs.replace(settlement.lease, owner=owner))


def applied(state: State) -> Settled:
    return _APPLIED[state]


def already_applied(state: State) -> Settled:
    return _ALREADY[state]
