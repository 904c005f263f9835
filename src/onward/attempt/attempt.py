"""One attempt, step by step: verify → open → decrypt → resolve → allow → hold → call → decide.

`prepare` (`onward.attempt.prepare`) does all steps before the handler: the lease is `Ready` to be called, or its `Attempt`
has already ended.  `run` (or `run_async`) calls the handler.  `conclude` turns what happened into an outcome.  No function
here talks to a store, and none raises: whatever is wrong with a job is that job's outcome, and if even deciding that fails,
it is a failed attempt with a critical line in the log.  (A handler may complete its job in a transaction of its own; an
error after that is recorded, and changes nothing.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, Protocol

import msgspec

from onward.attempt.commits import afound_out, found_out
from onward.attempt.occurrences import Occurrences
from onward.attempt.overrun import swallowed, told_to_a_task
from onward.base.backoff import doubling
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure, describe, describe_behind, kind_of, message_of, stated, storable
from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.base.wording import a
from onward.contract.notes import Notes
from onward.errors import (
    JobTimeout,
)
from onward.job.arguments import DoesNotFit
from onward.job.context import JobContext, TransactionBlock
from onward.job.envelope import Letter, Verify
from onward.job.lease import Lease
from onward.job.outcome import Dead, Done, Outcome, Parked, RetryLater, decide, failed
from onward.job.registry import Entry, NotAllowed, Registry
from onward.job.results import Results
from onward.job.retry import DEFAULT_POLICY, RetryPolicy
from onward.job.run_parts import FlowsOfRuns
from onward.job.scrubbing import Scrub
from onward.job.secrets import MASK
from onward.job.signals import Discard, Retry, Signal
from onward.security.encryption import Encryption
from onward.security.note_seals import NoteSeals

__all__ = [
    "Attempt",
    "Interruptible",
    "Ready",
    "Runtime",
    "Terms",
    "conclude",
    "has_waited",
    "parked",
    "run",
    "run_async",
    "scrubber",
    "undecided",
]

logger = get_logger("onward.job")

_LONGEST_PARKING = 600.0
_UNRUN = (Awaitable, Generator, AsyncGenerator)
_DONE = Done()
_FAILED = (Dead, RetryLater)  # a tuple: to make a union of types takes longer than to ask for one

Report = Callable[[Lease, float, str | None], bool]
Transact = Callable[[Lease, JobContext, Any], TransactionBlock]
Fenced = Callable[[Lease, Callable[[Lease], bool]], bool | None]


def as_claimed(lease: Lease, write: Callable[[Lease], bool]) -> bool | None:
    """Write under the lease as it was claimed: by an engine whose sessions are not adopted."""
    return write(lease)


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an application that an attempt needs."""

    registry: Registry
    clock: Clock
    namespace: str
    default_max_retries: int
    default_retry: RetryPolicy
    queue_retry: Mapping[str, RetryPolicy]
    unknown_grace: float
    results: Results
    report: Report
    transact: Transact
    note_after_completion: Callable[[Attempt], None]  # an error that a run met after its job was completed
    encryption: Encryption
    notes: Notes
    note_seals: NoteSeals
    notes_tried_for: float  # seconds, while the store is away
    occurrences: Occurrences
    flows: FlowsOfRuns
    verify: Verify | None = None  # before anything of a job is read
    requires_signatures: bool = False
    # Writes under the lease as it is now: its session may have been adopted.  False: it is lost; None: not known now.
    fenced: Fenced = as_claimed
    # The budgets of jobs whose envelopes name no time-out and no policy (`onward.attempt.prepare.resolve`).
    usual_terms: dict[tuple[Entry, str, str, int | None], Terms] = msgspec.field(default_factory=dict)
    rng: Random = msgspec.field(default_factory=Random)


class Interruptible(Protocol):
    """The place where a handler runs that can be interrupted.  If `leave` itself is interrupted, it is called again."""

    def enter(self) -> None: ...

    def leave(self) -> type[BaseException] | None:
        """Make the thread uninterruptible, and return what the handler was interrupted by."""
        ...


class Terms(msgspec.Struct, frozen=True, gc=False):
    """A job's budget: what its envelope says, then its definition, then the defaults.  The envelope was frozen first."""

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
    """A lease with its outcome, and what the store records of it."""

    lease: Lease
    outcome: Outcome
    letter: Letter | None = None  # None: it could not be opened
    failure: Failure | None = None
    result: bytes | None = None
    note: str | None = None  # why a completed job has no result
    swallowed: Failure | None = None  # an interruption that its handler did not end by
    duration_ms: int = 0
    blamed: bool | None = None  # whether its job's breaker counts it as failed; None: not at all


def run(ready: Ready, runtime: Runtime, slot: Interruptible | None = None) -> Attempt:
    """Call a sync handler.  Only between entering and leaving its slot can it be interrupted."""
    started = time.perf_counter_ns()
    value: Any = None
    error: BaseException | None = None
    returned = False
    told: type[BaseException] | None = None
    try:
        try:
            if slot is not None:
                slot.enter()
            # In a context of its own: the next handler does not see the variables that one sets.
            value = copy_context().run(ready.entry.invoke, ready.context, ready.letter.payload)
            returned = True
        except BaseException as raised:  # noqa: BLE001  whatever a handler raises is a failed attempt, and no more
            error = raised
        if slot is not None:
            told = slot.leave()
    except BaseException as late:  # an interruption that arrived just after the handler had ended
        if slot is None:
            raise
        slot.leave()
        if issubclass(type(late), KeyboardInterrupt):  # Ctrl-C, in the caller's own thread
            raise
        if not returned and error is None:
            error = late
    if ready.context is not None and ready.context.open_completion is not None:
        error = found_out(ready.context, ready.context.open_completion.find_out, error)
    try:
        return _ended(ready, runtime, value, error, started, told=told)
    except BaseException:  # noqa: BLE001  not from this code: a trace function that the handler left raises once
        return _ended(ready, runtime, value, error, started, told=told)
    finally:
        error = None  # its traceback refers to this frame: only the garbage collector could free the two


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
        if issubclass(type(raised), TimeoutError) and deadline.expired():
            error = JobTimeout(f"the job's task was cancelled at its time-out of {ready.terms.timeout:g} s")
    if ready.context is not None and ready.context.open_completion is not None:
        error = await afound_out(ready.context, ready.context.open_completion.afind_out, error)
    try:
        return _ended(ready, runtime, value, error, started, told=told_to_a_task(deadline))
    finally:
        error = None  # see above


def _ended(
    ready: Ready,
    runtime: Runtime,
    value: Any,
    error: BaseException | None,
    started: int,
    *,
    told: type[BaseException] | None,
) -> Attempt:
    """Conclude a run, and record an interruption that it ignored.  Never raises."""
    duration_ms = (time.perf_counter_ns() - started) // 1_000_000
    terms = ready.terms
    if (
        value is None
        and error is None
        and told is None
        and ready.context is None
        and terms.timeout is None
        and ready.entry.definition.breaker is None
    ):  # nearly always: nothing is left to conclude
        return Attempt(lease=ready.lease, letter=ready.letter, outcome=_DONE, duration_ms=duration_ms)
    attempt = conclude(ready, runtime, value, error, duration_ms)
    if told is not None or terms.timeout is not None:
        timeout, is_async = terms.timeout, ready.entry.is_async
        ignored = swallowed(error, told, timeout=timeout, duration_ms=duration_ms, is_async=is_async)
        if ignored is not None:
            attempt = msgspec.structs.replace(attempt, swallowed=ignored)
    if ready.context is not None and ready.context.completed is not None and (attempt.failure or attempt.swallowed):
        try:
            runtime.note_after_completion(attempt)
        except Exception:
            logger.exception("job %s is completed; an error after that could not be recorded", ready.letter.id)
    return attempt


def conclude(ready: Ready, runtime: Runtime, value: Any, error: BaseException | None, duration_ms: int) -> Attempt:
    """Turn what a handler returned or raised into an outcome.  Never raises."""
    try:
        try:
            attempt = _concluded(ready, runtime, value, error, duration_ms)
        except BaseException as broken:  # noqa: BLE001  closing or encoding what a handler returned runs its own code
            attempt = _concluded(ready, runtime, None, broken, duration_ms)
    except BaseException as unexpected:  # noqa: BLE001  one job's code never ends a worker
        failure, letter = describe(unexpected, scrubber(ready.letter, runtime)), ready.letter
        return undecided(ready.lease, ready.terms.max_retries, failure, letter=letter, duration_ms=duration_ms)
    return attempt


def undecided(
    lease: Lease, max_retries: int, failure: Failure, *, letter: Letter | None = None, duration_ms: int = 0
) -> Attempt:
    """Make a failed attempt of an error in Onward's own code, without calling the job's policy or its code."""
    job_id, told = lease.envelope.id, f"{failure.kind}: {failure.message}"
    logger.log_traceback(
        logging.CRITICAL, "the engine failed on job %s: %s", job_id, told, traceback=failure.traceback.rstrip()
    )
    if lease.attempts < max_retries:
        outcome: Outcome = RetryLater(DEFAULT_POLICY.plan(lease.attempts + 1, job_id=job_id).seconds)
    else:
        outcome = Dead(f"the engine failed on it: {failure.kind}")
    return Attempt(lease=lease, letter=letter, outcome=outcome, failure=failure, duration_ms=duration_ms)


def _concluded(ready: Ready, runtime: Runtime, value: Any, error: BaseException | None, duration_ms: int) -> Attempt:
    if ready.context is not None and ready.context.completed is not None:
        return _completed(ready, runtime, value, error, duration_ms)
    if error is None and ready.context is not None:
        error = ready.context.left_open()
    if value is None and error is None:  # nearly always
        blamed = None if ready.entry.definition.breaker is None else False
        return Attempt(lease=ready.lease, letter=ready.letter, outcome=_DONE, duration_ms=duration_ms, blamed=blamed)
    if error is None and isinstance(value, Signal):
        error = value
    if value is not None and isinstance(value, _UNRUN):
        error = _never_run(value)
    if error is not None and issubclass(type(error), DoesNotFit):
        return _misfit(ready, error, runtime)
    if error is not None and issubclass(type(error), NotAllowed):
        outcome: Outcome = Dead(message_of(error, scrubber(ready.letter, runtime)), cause="refused", ran=False)
    else:
        try:
            outcome = _DONE if error is None else decide(error, ready.lease, ready.terms, runtime.rng)
        except BaseException as broken:  # noqa: BLE001  a signal class of the user's may lack attributes
            error = broken
            outcome = failed(broken, ready.lease, ready.terms, runtime.rng)
    scrub = partial(_scrubbed, ready.letter, runtime)
    result, note = runtime.results.encode(ready.letter.job, value, scrub) if isinstance(outcome, Done) else (None, None)
    if isinstance(outcome, Dead):
        quotes = issubclass(type(error), Discard | NotAllowed)
        outcome = msgspec.structs.replace(outcome, reason=storable(scrub(outcome.reason)), quotes=quotes)
    return Attempt(
        lease=ready.lease,
        letter=ready.letter,
        outcome=outcome,
        failure=_failure(error, ready.letter, runtime) if isinstance(outcome, _FAILED) else None,
        result=result,
        note=note,
        duration_ms=duration_ms,
        blamed=_blamed(ready, error, outcome),
    )


def _blamed(ready: Ready, error: BaseException | None, outcome: Outcome) -> bool | None:
    """Return whether the breaker of a job counts a run as failed; None if it has none, or the run was not completed."""
    breaker = ready.entry.definition.breaker
    if breaker is None or not isinstance(outcome, Done | RetryLater | Dead):
        return None
    return bool(breaker.blames(error))


def _completed(ready: Ready, runtime: Runtime, value: Any, error: BaseException | None, duration_ms: int) -> Attempt:
    """Conclude a run whose transaction is committed: the job succeeded, whatever its handler did after that."""
    assert ready.context is not None
    assert ready.context.completed is not None
    completed = ready.context.completed
    if isinstance(value, _UNRUN):
        error = _never_run(value)
    return Attempt(
        lease=ready.lease,
        letter=ready.letter,
        outcome=_DONE,
        failure=None if issubclass(type(error), Signal) else _failure(error, ready.letter, runtime),
        result=completed.result,
        note=completed.note,
        duration_ms=duration_ms,
        blamed=_blamed(ready, None, _DONE),
    )


def _failure(error: BaseException | None, letter: Letter, runtime: Runtime) -> Failure | None:
    """Return an error as it is stored and logged, without the secrets of its job's arguments."""
    if error is None:
        return None
    scrub = scrubber(letter, runtime)
    if issubclass(type(error), Retry) and error.__cause__ is not None:
        return describe_behind(error, error.__cause__, scrub)  # by which dead letters are told apart
    return describe(error, scrub)


def scrubber(letter: Letter, runtime: Runtime) -> Scrub:
    """Return the function that scrubs texts about a job.  If its secrets cannot be determined, it masks all of a text."""
    try:
        return runtime.registry.scrubber(letter)
    except BaseException:  # noqa: BLE001  decoding arguments may run code of the user's
        return lambda _: MASK


def _scrubbed(letter: Letter, runtime: Runtime, text: str) -> str:
    return scrubber(letter, runtime)(text)


def _never_run(value: Any) -> Exception:
    """Return the error of a handler that returned a coroutine: without an await its work was not done."""
    if isinstance(value, Coroutine | Generator):
        value.close()
    return TypeError(f"the handler returned {a(kind_of(value))}, which was never run: define it with `async def`")


def parked(lease: Lease, reason: str) -> Parked:
    """Return the outcome of a parked job: it comes back after a delay that grows each time."""
    return Parked(doubling(10.0, lease.waits + 1, _LONGEST_PARKING), storable(reason))


def _misfit(ready: Ready, error: BaseException, runtime: Runtime) -> Attempt:
    """Park a job whose arguments do not fit, for a worker with the version that they were made for; not for ever."""
    lease, letter = ready.lease, ready.letter
    reason = message_of(error, scrubber(letter, runtime))
    if has_waited(lease, runtime):
        dead = Dead(reason, cause="misfit", ran=False, quotes=True)
        return Attempt(lease=lease, letter=letter, outcome=dead, failure=stated(kind_of(error), reason))
    return Attempt(lease=lease, letter=letter, outcome=parked(lease, reason))


def has_waited(lease: Lease, runtime: Runtime) -> bool:
    """Return whether a job has been parked for as long as a job may be."""
    since = lease.parked_since
    return since is not None and lease.claimed_at - since >= runtime.unknown_grace * SECOND
