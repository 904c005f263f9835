"""The steps of an attempt before its handler: verify → open → decrypt → resolve → allow → hold.

A job that fails a step gets its outcome here: it is discarded, parked, put back or skipped without a run.

`resolve` has the steps that need no lease.  Workers call it for every job that they claim, and the check of a deployment
(`onward.operate.deploy`) for every job that waits: what one says, the other does.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from onward.attempt.attempt import Attempt, Ready, Runtime, Terms, has_waited, parked, scrubber, undecided
from onward.attempt.growing import flow_of
from onward.attempt.hooked import Hooked
from onward.attempt.notebook import steps_of
from onward.base.backoff import doubling
from onward.base.clock import SECOND, from_micros
from onward.base.failure import describe, kind_of, name_of, stated
from onward.base.fingerprint import REFUSED, REJECTED, UNKNOWN
from onward.base.wording import counted
from onward.errors import (
    DecryptionFailed,
    DecryptionKeyMissing,
    EnvelopeError,
    EnvelopeTooNew,
    SignatureRejected,
)
from onward.job.context import AsyncJobContext, JobContext
from onward.job.envelope import Letter, Sealed, open_sealed
from onward.job.lease import LARGEST_COUNT, Hold, Lease
from onward.job.outcome import Cancelled, Dead, Outcome, Skipped, Snoozed
from onward.job.registry import Entry, NotAllowed

__all__ = ["Obstacle", "ObstacleKind", "Resolved", "impossible", "overdrawn", "prepare", "resolve", "terms_of"]

_LONGEST_HOLD_WAIT = 30.0
_MOST_USUAL = 1000  # terms that are remembered: a program that can write to the store can make up any number of queues
_DONE, _BUSY = Hold.DONE, Hold.BUSY  # to look up a member of an enumeration takes as long as to call a function

ObstacleKind = Literal["too_new", "locked", "rejected", "unknown", "refused"]


def prepare(lease: Lease, runtime: Runtime) -> Ready | Attempt:
    """Verify and open a leased job and find its handler; or return the outcome of a job that cannot or need not run."""
    wrong = impossible(lease.token, lease.attempts, lease.crashes, lease.interruptions, lease.waits)
    if wrong is not None:
        dead, failure = Dead(wrong, cause="rejected", ran=False), stated("ImpossibleCounters", wrong, REJECTED)
        return Attempt(lease=lease, outcome=dead, failure=failure)
    try:
        return _prepared(lease, runtime)
    except Exception as error:  # noqa: BLE001  one job's bytes never end a worker
        return undecided(lease, runtime.default_max_retries, describe(error))


def _prepared(lease: Lease, runtime: Runtime) -> Ready | Attempt:
    found = resolve(lease.envelope, runtime)
    letter = found.letter
    if letter is not None and letter.enc is not None:
        lease = msgspec.structs.replace(lease, private=True)
    if letter is not None and lease.spent is not None:
        return _spent(lease, lease.spent, letter, runtime)
    if isinstance(found, Obstacle):
        return _stopped(lease, found, runtime)
    entry, letter, terms = found.entry, found.letter, found.terms
    lease, outcome = _not_now(lease, letter, terms, runtime)
    if outcome is not None:
        return Attempt(lease=lease, letter=letter, outcome=outcome)
    if runtime.registry.hooks is not None:
        entry = Hooked(entry, runtime.registry.hooks)
    context = _context(lease, letter, entry, terms, runtime) if entry.takes_context else None
    return Ready(lease, letter, entry, terms, context)


def _stopped(lease: Lease, obstacle: Obstacle, runtime: Runtime) -> Attempt:
    """Return the outcome of a job that cannot run here: it is parked for another worker, or discarded."""
    letter, reason = obstacle.letter, obstacle.reason
    if letter is None:
        assert obstacle.error is not None
        return _unopened(lease, obstacle.error, runtime)
    if obstacle.kind == "unknown":
        return _unknown(lease, letter, reason, runtime)
    dead, failure = Dead(reason, cause="refused", ran=False), stated(name_of(NotAllowed), reason, REFUSED)
    return Attempt(lease=lease, letter=letter, outcome=dead, failure=failure)


def _unopened(lease: Lease, error: EnvelopeError, runtime: Runtime) -> Attempt:
    """Park a job for a worker that has its key or its version, but not for ever; discard any other.

    What is too new waits for ever unless signatures are required: then it cannot be verified.
    """
    waits = isinstance(error, EnvelopeTooNew | DecryptionKeyMissing)
    ends = runtime.requires_signatures or not isinstance(error, EnvelopeTooNew)
    if not waits or (ends and has_waited(lease, runtime)):
        return _rejected(lease, error, runtime)
    return Attempt(lease=lease, outcome=parked(lease, str(error)))


def _rejected(lease: Lease, error: EnvelopeError, runtime: Runtime) -> Attempt:
    """Discard bytes that are not a job.  Where signatures are required, what cannot be verified counts as not signed."""
    cause = "unreadable"
    if isinstance(error, DecryptionFailed):
        cause = "undecryptable"
    elif isinstance(error, SignatureRejected) or runtime.requires_signatures:
        cause = "rejected"
    failure = stated(kind_of(error), str(error), REJECTED)
    return Attempt(lease=lease, outcome=Dead(str(error), cause=cause, ran=False), failure=failure)


def _spent(lease: Lease, stored: str, letter: Letter, runtime: Runtime) -> Attempt:
    """Store only the dead letter of a job that was given up before."""
    reason = runtime.encryption.read_reason(letter.id, letter.queue, stored) or stored
    dead = Dead(reason, cause="spent", ran=False, quotes=reason != stored)
    return Attempt(lease=lease, letter=letter, outcome=dead)


def _unknown(lease: Lease, letter: Letter, reason: str, runtime: Runtime) -> Attempt:
    """Park a job for a worker that knows it, but not for ever: a deployment that is half done must lose no job."""
    if has_waited(lease, runtime):
        failure = stated("UnknownJob", reason, UNKNOWN)
        return Attempt(lease=lease, letter=letter, outcome=Dead(reason, cause="unknown", ran=False), failure=failure)
    return Attempt(lease=lease, letter=letter, outcome=parked(lease, reason))


def _not_now(lease: Lease, letter: Letter, terms: Terms, runtime: Runtime) -> tuple[Lease, Outcome | None]:
    """Return why the handler is not called; of a schedule's job, its lease knows the tick that it runs for."""
    if letter.expires_at is not None and letter.expires_at <= runtime.clock.micros():
        return lease, Cancelled("expired")
    hold = lease.hold
    if hold is _DONE:
        return lease, Skipped(f"its idempotency key was done by job {lease.holder}")
    if letter.schedule is not None:
        lease, skipped = runtime.occurrences.judge(lease, letter.schedule)
        if skipped is not None:
            return lease, skipped
        hold = lease.hold
    if hold is _BUSY:
        return lease, Snoozed(doubling(1.0, lease.waits + 1, _LONGEST_HOLD_WAIT), waits=lease.waits + 1)
    spent = overdrawn(lease.attempts, terms)
    return lease, None if spent is None else Dead(spent, cause="spent", ran=False)


def _context(lease: Lease, letter: Letter, entry: Entry, terms: Terms, runtime: Runtime) -> JobContext:
    now = runtime.clock.micros()
    deadline = None if terms.timeout is None else from_micros(now + round(terms.timeout * SECOND))
    context = (AsyncJobContext if entry.is_async else JobContext)(
        id=letter.id,
        job=letter.job,
        name=letter.name or letter.job,
        queue=letter.queue,
        attempt=lease.attempts + 1,
        max_retries=terms.max_retries,
        payload=letter.payload,
        meta=letter.meta,
        delivery=lease.token,
        deadline=deadline,
        report=lambda fraction, note: (
            runtime.fenced(lease, lambda now: runtime.report(now, fraction, note)) is not False
        ),
        transact=lambda context, connection: runtime.transact(lease, context, connection),
        scrub=lambda: scrubber(letter, runtime),
        steps=lambda context: steps_of(context, lease, runtime, prepared_at=now),
    )
    if letter.flow is not None:
        context.make_flow = lambda context: flow_of(context, lease, letter, runtime)
    tick = letter.scheduled_for if lease.tick is None else lease.tick
    context.scheduled_for = None if tick is None else from_micros(tick)
    return context


# Without a lease.


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
    if letter.timeout is not None or letter.retry is not None:
        return _allowed(letter, entry, runtime)
    # Nearly always: then all that follows is the same for every job of this name, queue and number of retries.
    usual = entry, letter.job, letter.queue, letter.max_retries
    terms = runtime.usual_terms.get(usual)
    if terms is not None:
        return Resolved(letter, entry, terms)
    found = _allowed(letter, entry, runtime)
    if isinstance(found, Resolved):
        if len(runtime.usual_terms) >= _MOST_USUAL:
            runtime.usual_terms.clear()
        runtime.usual_terms[usual] = found.terms
    return found


def _allowed(letter: Letter, entry: Entry, runtime: Runtime) -> Resolved | Obstacle:
    """Return a job with its budget; or why its handler may not run on its queue."""
    refused = runtime.registry.refusal(entry, letter.job, letter.queue)
    if refused is not None:
        return Obstacle("refused", refused, letter)
    return Resolved(letter, entry, terms_of(letter, entry, runtime))


def impossible(token: int, attempts: int, crashes: int, interruptions: int, waits: int) -> str | None:
    """Return what is wrong with counters that no worker writes; None if they are possible."""
    most = LARGEST_COUNT  # compared one by one, which takes a third of what `min` and `max` take for every job
    if (
        0 < token <= most
        and 0 <= attempts <= most
        and 0 <= crashes <= most
        and 0 <= interruptions <= most >= waits >= 0
    ):
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


def terms_of(letter: Letter, entry: Entry, runtime: Runtime) -> Terms:
    """Return how often and when a job is retried: as it was sealed, else as its job, its queue or the application says."""
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
