"""One attempt, read as a sentence: verify → open → decrypt → resolve → allow → hold → call → decide.

`prepare` takes a lease as far as it can go without running anybody's code: it is `Ready` to be called, or its `Attempt`
has already ended.  `run` (or `run_async`) calls the handler.  `conclude` turns what happened into an outcome.  Nothing here
talks to a store, and nothing here raises: whatever is wrong with a job is that job's outcome.  (A handler may complete its
job in a transaction of its own; what goes wrong after that is remarked, and changes nothing.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import msgspec

from onward.arguments import encode_value
from onward.clock import SECOND, Clock, from_micros
from onward.context import Block, Completed, JobContext
from onward.encryption import Encryption
from onward.envelope import Letter, Verify, open_sealed
from onward.errors import DecryptionKeyMissing, EnvelopeError, EnvelopeTooNew
from onward.failure import Failure, describe, storable
from onward.lease import LARGEST_COUNT, Hold, Lease
from onward.masking import scrubbed, scrubbed_text
from onward.outcome import Cancelled, Dead, Done, Outcome, Parked, RetryLater, Skipped, Snoozed, decide
from onward.registry import Entry, NotAllowed, Registry
from onward.retry import RetryPolicy
from onward.signals import Discard, Signal

__all__ = [
    "Attempt",
    "Ready",
    "Runtime",
    "Slot",
    "Terms",
    "conclude",
    "encoded_result",
    "parked",
    "prepare",
    "run",
    "run_async",
]

_LONGEST_PARKING = 600.0
_LONGEST_HOLD_WAIT = 30.0
_UNRUN = (Awaitable, Generator, AsyncGenerator)
_DONE = Done()

Report = Callable[[Lease, float, str | None], bool]
Transact = Callable[[Lease, JobContext], Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What an attempt needs from the application around it."""

    registry: Registry
    clock: Clock
    namespace: str
    default_max_retries: int
    default_retry: RetryPolicy
    queue_retry: Mapping[str, RetryPolicy]
    unknown_grace: float
    max_result: int
    report: Report
    transact: Transact
    remark: Callable[[Attempt], None]  # an error that a run met after its job was completed
    encryption: Encryption
    verify: Verify | None = None  # before anything of a job is read
    requires_signatures: bool = False
    rng: Random = field(default_factory=Random)


class Slot(Protocol):
    """Where a handler runs that can be interrupted.  If that happens while it is left, it is left again."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


class Terms(msgspec.Struct, frozen=True, gc=False):
    """A job's budget after envelope, definition and defaults have been weighed.  The envelope wins: it was frozen first."""

    max_retries: int
    retry: RetryPolicy
    discard_on: tuple[type[BaseException], ...]
    retry_on: tuple[type[BaseException], ...] | None
    timeout: float | None


class Ready(msgspec.Struct, frozen=True, gc=False):
    """A lease whose handler can be called."""

    lease: Lease
    letter: Letter
    entry: Entry
    terms: Terms
    context: JobContext | None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A lease with its outcome, and what is to be recorded of it."""

    lease: Lease
    outcome: Outcome
    letter: Letter | None = None  # None: it could not be opened
    failure: Failure | None = None
    result: bytes | None = None
    note: str | None = None  # why a completed job has no result
    duration_ms: int = 0


def prepare(lease: Lease, runtime: Runtime) -> Ready | Attempt:
    """Everything that can be said before the handler is called."""
    if not _is_possible(lease):
        return _impossible(lease)
    try:
        letter = open_sealed(lease.envelope, namespace=runtime.namespace, verify=runtime.verify)
        if letter.enc is not None:
            letter = runtime.encryption.open(letter)
            lease = msgspec.structs.replace(lease, private=True)
    except EnvelopeTooNew as error:
        return _too_new(lease, error, runtime)
    except DecryptionKeyMissing as error:
        return _locked(lease, error, runtime)
    except EnvelopeError as error:
        return _rejected(lease, error)
    if lease.spent is not None:
        return _spent(lease, lease.spent, letter, runtime)
    entry = runtime.registry.find(letter.job)
    if entry is None:
        return _unknown(lease, letter, runtime)
    refused = runtime.registry.refusal(entry, letter.job, letter.queue)
    if refused is not None:
        failure = Failure("NotAllowed", refused)
        return Attempt(lease=lease, letter=letter, outcome=Dead(refused, cause="refused", ran=False), failure=failure)
    terms = _terms(letter, entry, runtime)
    outcome = _not_now(lease, letter, terms, runtime.clock)
    if outcome is not None:
        return Attempt(lease=lease, letter=letter, outcome=outcome)
    context = _context(lease, letter, terms, runtime) if entry.takes_context else None
    return Ready(lease, letter, entry, terms, context)


def run(ready: Ready, runtime: Runtime, slot: Slot | None = None) -> Attempt:
    """Call a sync handler.  Only between entering and leaving its slot can it be interrupted."""
    started = time.perf_counter_ns()
    value: Any = None
    error: BaseException | None = None
    returned = False
    try:
        try:
            if slot is not None:
                slot.enter()
            value = ready.entry.invoke(ready.context, ready.letter.payload)
            returned = True
        except BaseException as raised:  # noqa: BLE001  whatever a handler raises is a failed attempt, and no more
            error = raised
        if slot is not None:
            slot.leave()
    except BaseException as late:  # it was on its way when the handler came to its end
        if slot is None:
            raise
        slot.leave()
        if not returned and error is None:
            error = late
    try:
        return _concluded(ready, runtime, value, error, started)
    finally:
        error = None  # its traceback knows this very frame, and only the garbage collector would get rid of the two


async def run_async(ready: Ready, runtime: Runtime) -> Attempt:
    """Call an async handler, and cancel it at its deadline."""
    deadline = asyncio.timeout(ready.terms.timeout)
    started = time.perf_counter_ns()
    value: Any = None
    error: BaseException | None = None
    try:
        async with deadline:
            value = await ready.entry.invoke(ready.context, ready.letter.payload)
    except BaseException as raised:  # noqa: BLE001  see above
        error = raised
        if isinstance(raised, TimeoutError) and deadline.expired():
            error = TimeoutError(f"it was cancelled at its time-out of {ready.terms.timeout:g} s")
    try:
        return _concluded(ready, runtime, value, error, started)
    finally:
        error = None  # see above


def _concluded(ready: Ready, runtime: Runtime, value: Any, error: BaseException | None, started: int) -> Attempt:
    duration_ms = (time.perf_counter_ns() - started) // 1_000_000
    try:
        attempt = conclude(ready, runtime, value, error, duration_ms)
    except BaseException as broken:  # noqa: BLE001  closing or encoding what it returned runs code of its own
        attempt = conclude(ready, runtime, None, broken, duration_ms)
    if attempt.failure is not None and isinstance(attempt.outcome, Done):
        runtime.remark(attempt)
    return attempt


def conclude(ready: Ready, runtime: Runtime, value: Any, error: BaseException | None, duration_ms: int) -> Attempt:
    """Turn what a handler returned or raised into an outcome."""
    if ready.context is not None and ready.context.completed is not None:
        return _completed(ready, ready.context.completed, value, error, duration_ms)
    if value is None and error is None:  # nearly always
        return Attempt(lease=ready.lease, letter=ready.letter, outcome=_DONE, duration_ms=duration_ms)
    if error is None and isinstance(value, Signal):
        error = value
    if value is not None and isinstance(value, _UNRUN):
        error = _never_run(value)
    if isinstance(error, NotAllowed):
        outcome: Outcome = Dead(storable(str(error)), cause="refused", ran=False)
    else:
        try:
            outcome = decide(error, ready.lease, ready.terms, runtime.rng)
        except Exception as broken:  # noqa: BLE001  a signal of the user's own making may lack what ours have
            error = broken
            outcome = decide(broken, ready.lease, ready.terms, runtime.rng)
    result, note = encoded_result(value, runtime.max_result) if isinstance(outcome, Done) else (None, None)
    if isinstance(outcome, Dead):
        reason = scrubbed_text(outcome.reason, ready.letter.payload, ready.letter.secrets)
        outcome = msgspec.structs.replace(outcome, reason=reason, quotes=isinstance(error, Discard | NotAllowed))
    failure = _failure(error, ready.letter) if error is not None and isinstance(outcome, Dead | RetryLater) else None
    return Attempt(
        lease=ready.lease,
        letter=ready.letter,
        outcome=outcome,
        failure=failure,
        result=result,
        note=note,
        duration_ms=duration_ms,
    )


def _completed(
    ready: Ready, completed: Completed, value: Any, error: BaseException | None, duration_ms: int
) -> Attempt:
    """Its transaction is committed, and so is its success, whatever the handler did then."""
    if isinstance(value, _UNRUN):
        error = _never_run(value)
    return Attempt(
        lease=ready.lease,
        letter=ready.letter,
        outcome=_DONE,
        failure=None if error is None or isinstance(error, Signal) else _failure(error, ready.letter),
        result=completed.result,
        note=completed.note,
        duration_ms=duration_ms,
    )


def _failure(error: BaseException, letter: Letter) -> Failure:
    """What is kept and told of an error: not what its job's arguments keep secret."""
    return scrubbed(describe(error), letter.payload, letter.secrets)


def _never_run(value: Any) -> Exception:
    """A plain function around an async one returns a coroutine: nobody awaits it, so its work was not done."""
    if isinstance(value, Coroutine | Generator):
        value.close()
    return TypeError(f"the handler returned a {type(value).__name__}, which was never run: define it with `async def`")


def parked(lease: Lease, reason: str) -> Parked:
    """Put aside, longer each time."""
    return Parked(min(10.0 * float(2 ** min(lease.waits, 10)), _LONGEST_PARKING), storable(reason))


def _is_possible(lease: Lease) -> bool:
    """Whether a worker could have counted so."""
    return (
        0 < lease.token <= LARGEST_COUNT
        and 0 <= lease.attempts <= LARGEST_COUNT
        and 0 <= lease.crashes <= LARGEST_COUNT
        and 0 <= lease.interruptions <= LARGEST_COUNT
        and 0 <= lease.waits <= LARGEST_COUNT
    )


def _impossible(lease: Lease) -> Attempt:
    counted = f"delivery {lease.token}, attempts {lease.attempts}, crashes {lease.crashes}, waits {lease.waits}"
    reason = f"its counters hold what no worker writes: {counted}"
    return Attempt(
        lease=lease, outcome=Dead(reason, cause="rejected", ran=False), failure=Failure("ImpossibleCounters", reason)
    )


def _rejected(lease: Lease, error: EnvelopeError) -> Attempt:
    failure = Failure(type(error).__name__, storable(str(error)))
    return Attempt(lease=lease, outcome=Dead(str(error), cause="rejected", ran=False), failure=failure)


def _too_new(lease: Lease, error: EnvelopeTooNew, runtime: Runtime) -> Attempt:
    """It waits for a worker of its version.  Where signatures are required, not for ever: nobody can say whose it is."""
    if runtime.requires_signatures and _has_waited(lease, runtime):
        return _rejected(lease, error)
    return Attempt(lease=lease, outcome=parked(lease, str(error)))


def _locked(lease: Lease, error: DecryptionKeyMissing, runtime: Runtime) -> Attempt:
    """A worker without the keys must not discard what others could run: it waits for them, but not for ever."""
    if _has_waited(lease, runtime):
        return _rejected(lease, error)
    return Attempt(lease=lease, outcome=parked(lease, str(error)))


def _spent(lease: Lease, stored: str, letter: Letter, runtime: Runtime) -> Attempt:
    """Only its dead letter is still to be stored."""
    reason = runtime.encryption.read_reason(letter.id, letter.queue, stored) or stored
    dead = Dead(reason, cause="spent", ran=False, quotes=reason != stored)
    return Attempt(lease=lease, letter=letter, outcome=dead)


def _unknown(lease: Lease, letter: Letter, runtime: Runtime) -> Attempt:
    """A half-deployed fleet must lose nothing: wait for a worker that knows the job, but not for ever."""
    reason = f"job {letter.job!r} is not registered here: is its module imported?"
    if _has_waited(lease, runtime):
        failure = Failure("UnknownJob", reason)
        return Attempt(lease=lease, letter=letter, outcome=Dead(reason, cause="unknown", ran=False), failure=failure)
    return Attempt(lease=lease, letter=letter, outcome=parked(lease, reason))


def _has_waited(lease: Lease, runtime: Runtime) -> bool:
    """Whether it has been parked for as long as anything is."""
    since = lease.parked_since
    return since is not None and lease.claimed_at - since >= runtime.unknown_grace * SECOND


def _terms(letter: Letter, entry: Entry, runtime: Runtime) -> Terms:
    definition = entry.definition
    retries = letter.max_retries if letter.max_retries is not None else definition.max_retries
    return Terms(
        max_retries=runtime.default_max_retries if retries is None else retries,
        retry=letter.retry or definition.retry or runtime.queue_retry.get(letter.queue) or runtime.default_retry,
        discard_on=definition.discard_on,
        retry_on=definition.retry_on,
        timeout=letter.timeout if letter.timeout is not None else definition.timeout,
    )


def _not_now(lease: Lease, letter: Letter, terms: Terms, clock: Clock) -> Outcome | None:
    if letter.expires_at is not None and letter.expires_at <= clock.micros():
        return Cancelled("expired")
    if lease.hold is Hold.DONE:
        return Skipped(f"its idempotency key was done by job {lease.holder}")
    if lease.hold is Hold.BUSY:
        return Snoozed(min(float(2 ** min(lease.waits, 10)), _LONGEST_HOLD_WAIT), waits=lease.waits + 1)
    if lease.attempts > terms.max_retries:
        return Dead(f"its budget of {terms.max_retries + 1} attempts is spent", cause="spent", ran=False)
    return None


def _context(lease: Lease, letter: Letter, terms: Terms, runtime: Runtime) -> JobContext:
    deadline = None
    if terms.timeout is not None:
        deadline = from_micros(runtime.clock.micros() + round(terms.timeout * SECOND))
    return JobContext(
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
        report=lambda fraction, note: runtime.report(lease, fraction, note),
        transact=lambda context: runtime.transact(lease, context),
    )


def encoded_result(value: Any, limit: int) -> tuple[bytes | None, str | None]:
    """A result that cannot be stored does not undo the success: the job is completed, and says why it has none."""
    if value is None:
        return None, None
    try:
        encoded = encode_value(value)
    except Exception as error:  # noqa: BLE001  a result may raise anything while it is encoded
        return None, storable(f"no result: {type(error).__name__}: {error}", 500)
    if len(encoded) > limit:
        return None, f"no result: it takes {len(encoded):,} bytes and the limit is {limit:,}"
    return encoded, None
