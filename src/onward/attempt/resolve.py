"""The steps of an attempt that need no lease: verify → open → decrypt → find → allow.

Workers call `resolve` for every job that they claim, and the check of a deployment (`onward.operate.deploy`) for every job
that waits: what one says, the other does.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from onward.attempt.attempt import Runtime, Terms
from onward.base.wording import counted
from onward.errors import DecryptionKeyMissing, EnvelopeError, EnvelopeTooNew
from onward.job.envelope import Letter, Sealed, open_sealed
from onward.job.lease import LARGEST_COUNT
from onward.job.registry import Entry

__all__ = ["Obstacle", "ObstacleKind", "Resolved", "impossible", "overdrawn", "resolve"]

ObstacleKind = Literal["too_new", "locked", "rejected", "unknown", "refused"]


class Resolved(msgspec.Struct, frozen=True, gc=False):
    """A job with the code that its name stands for, and its budget."""

    letter: Letter
    entry: Entry
    terms: Terms


class Obstacle(msgspec.Struct, frozen=True):
    """Why a job cannot run in this application."""

    kind: ObstacleKind
    reason: str
    letter: Letter | None = None  # None: it could not be opened
    error: EnvelopeError | None = None  # then this says why


def resolve(sealed: Sealed, runtime: Runtime) -> Resolved | Obstacle:
    """Verify and open a job, and find its handler; or return why that cannot be done."""
    try:
        letter = open_sealed(sealed, namespace=runtime.namespace, verify=runtime.verify)
        if letter.enc is not None:
            letter = runtime.encryption.open(letter)
    except EnvelopeTooNew as error:
        return Obstacle("too_new", str(error), error=error)
    except DecryptionKeyMissing as error:
        return Obstacle("locked", str(error), error=error)
    except EnvelopeError as error:
        return Obstacle("rejected", str(error), error=error)
    entry = runtime.registry.find(letter.job)
    if entry is None:
        return Obstacle("unknown", f"job {letter.job!r} is not registered here: is its module imported?", letter)
    refused = runtime.registry.refusal(entry, letter.job, letter.queue)
    if refused is not None:
        return Obstacle("refused", refused, letter)
    return Resolved(letter, entry, _terms(letter, entry, runtime))


def impossible(token: int, attempts: int, crashes: int, interruptions: int, waits: int) -> str | None:
    """Return what is wrong with counters that no worker writes; None if they are possible."""
    counters = attempts, crashes, interruptions, waits
    if 0 < token <= LARGEST_COUNT and min(counters) >= 0 and max(counters) <= LARGEST_COUNT:
        return None
    return (
        f"its counters hold what no worker writes: delivery {token}, attempts {attempts}, crashes {crashes}, "
        f"interruptions {interruptions}, waits {waits}"
    )


def overdrawn(attempts: int, terms: Terms) -> str | None:
    """Return why a job that has failed so often is not run again; None if its budget allows another attempt."""
    if attempts <= terms.max_retries:
        return None
    return f"its budget of {counted(terms.max_retries + 1, 'attempt')} is spent"


def _terms(letter: Letter, entry: Entry, runtime: Runtime) -> Terms:
    definition = entry.definition
    retries = letter.max_retries if letter.max_retries is not None else definition.max_retries
    retry = letter.retry if letter.retry is not None else definition.retry
    if retry is None:
        retry = runtime.queue_retry.get(letter.queue, runtime.default_retry)
    return Terms(
        max_retries=runtime.default_max_retries if retries is None else retries,
        retry=retry,
        discard_on=definition.discard_on,
        retry_on=definition.retry_on,
        timeout=letter.timeout if letter.timeout is not None else definition.timeout,
    )
