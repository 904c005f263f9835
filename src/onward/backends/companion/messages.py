"""The messages to the broker: each names its job, and carries its sealed bytes.

There may be several messages about one job, and one may come early or late: the store decides which of them starts the job.
A second message has an id of its own, because a broker may take one with the same id for a repetition, and store nothing.
"""

from __future__ import annotations

import re
import sys

import msgspec

from onward.backend import Lease, Settlement, StoredJob
from onward.base.clock import SECOND
from onward.base.lazy import secrets
from onward.errors import BackendRefused, EnvelopeError, InvalidName, PayloadTooLarge
from onward.job.envelope import Envelope, Sealed, open_sealed, seal
from onward.job.settlement import Settled, crash_pause
from onward.job.states import FINISHED, State

__all__ = [
    "REFUSALS",
    "after_settling",
    "another",
    "envelope_of",
    "is_booked",
    "job_id_of",
    "message",
    "until",
    "wait_of",
]

REFUSALS = (BackendRefused, PayloadTooLarge, InvalidName)  # of a message: nothing was stored, and never will be
_ANOTHER = re.compile("~[0-9a-f]{8}$")
LONGEST_DELAY = (
    86_400.0  # seconds: a message about a job that was cancelled meanwhile comes, and is removed, within a day
)


def message(envelope: Envelope, *, delay: float | None = None) -> Envelope:
    """Return the message of a job: without the options that only the store can keep.  ``delay``: in seconds."""
    if delay is None:
        delay = envelope.delay / SECOND
    return msgspec.structs.replace(
        envelope,
        delay=round(min(delay, LONGEST_DELAY) * SECOND),
        not_before=None,
        expires_at=None,
        unique_key=None,
        idempotency_key=None,
        single_instance=None,
    )


def another(envelope: Envelope) -> Envelope:
    """Return another message about a job that had one before."""
    return msgspec.structs.replace(envelope, id=f"{envelope.id}~{secrets.token_hex(4)}")


def job_id_of(message_id: str) -> str:
    """Return the id of the job that a message is about.

    >>> job_id_of("01b8dac5b400~1f00ba44"), job_id_of("01b8dac5b400")
    ('01b8dac5b400', '01b8dac5b400')
    """
    return _ANOTHER.sub("", message_id)


def envelope_of(sealed: Sealed, *, now: int) -> Envelope:
    """Return the envelope of a job that the store does not know, from its sealed bytes."""
    try:
        letter = open_sealed(sealed)
    except EnvelopeError:  # the worker that claims it discards it, with the reason
        return Envelope(sealed.id, sealed.queue, sealed.data, job="", enqueued_at=now, max_crashes=3)
    return msgspec.structs.replace(seal(letter, limit=sys.maxsize), data=sealed.data)


def is_booked(sealed: Sealed) -> bool:
    """Return whether a schedule has booked this job."""
    try:
        return open_sealed(sealed).schedule is not None
    except EnvelopeError:
        return False


def until(stored: StoredJob, now: int) -> float:
    """Return the seconds until a waiting job is due."""
    return 0.0 if stored.state is State.AVAILABLE else max(0.0, (stored.available_at - now) / SECOND)


def after_settling(settlement: Settlement, settled: Settled, held: Lease) -> Settlement:
    """Return the settlement of a message, after the store has settled its job."""
    state = settled.state if settled.counts else None
    if state in FINISHED:
        return Settlement.ack(held)
    delay = min(wait_of(settlement), LONGEST_DELAY)
    if state is State.RETRYABLE:
        return Settlement.nack(held, delay, ran=settlement.ran)
    if state is State.SCHEDULED:
        return Settlement.snooze(held, delay, waits=settlement.waits)
    # Given back; or the lease was lost, and the next process that receives the message asks the store.
    return Settlement.release(held)


def wait_of(settlement: Settlement) -> float:
    """Return the seconds until a settled job is due again."""
    if settlement.move == "crashed":
        return crash_pause(settlement.lease.crashes + 1) / SECOND
    return settlement.delay
