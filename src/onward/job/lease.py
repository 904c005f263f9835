"""Permission to run one attempt of a job.

A lease belongs to a session (its ``owner``) and carries a fencing token that grows with every claim.  It ends in exactly
one settlement (`onward.job.settlement`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from onward.job.envelope import Sealed

__all__ = ["LARGEST_COUNT", "LAST_INSTANT", "Hold", "Lease"]

# No worker writes a value beyond these: a counter grows by one at a time, an instant is a date that Python knows.
LARGEST_COUNT = 2**31 - 1
LAST_INSTANT = 253_402_300_799_999_999  # the last microsecond of the year 9999


class Hold(StrEnum):
    """What became of the job's idempotency key and single-instance lock when it was claimed."""

    FREE = "free"  # it carries none
    HELD = "held"  # this lease holds it, as long as it lasts
    BUSY = "busy"  # another job's lease holds it
    DONE = "done"  # a job with this idempotency key has succeeded


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The permission to run one attempt of one job, while its session is alive."""

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
    lane: str | None = None
    probe: float = 0  # seconds for which its job was shut: its success opens the job, its failure shuts it again
    member: bool = False  # whether its job belongs to a flow: its end may open others
    tick: int | None = None  # of a schedule's job that was looked at: the newest tick that it runs for
    receipt: object = None  # private to the backend that issued it
