"""The outcomes of a run, and the pure function that decides between them."""

from __future__ import annotations

from random import Random
from typing import Protocol

import msgspec

from onward.base.durations import seconds
from onward.base.failure import kind_of
from onward.base.wording import counted
from onward.errors import JobSuspended, JobTimeout
from onward.job.lease import Lease
from onward.job.retry import RetryPolicy, planned
from onward.job.signals import Discard, Retry, Snooze, Throttle

__all__ = [
    "DISCARDS",
    "REJECTIONS",
    "Budget",
    "Cancelled",
    "Crashed",
    "Dead",
    "Done",
    "Outcome",
    "Parked",
    "Released",
    "RetryLater",
    "Skipped",
    "Snoozed",
    "decide",
    "failed",
    "is_final",
    "is_listed",
    "waits",
]


class Done(msgspec.Struct, frozen=True, tag=True):
    """The run succeeded."""


class Skipped(msgspec.Struct, frozen=True, tag=True):
    """The job need not run."""

    reason: str


class RetryLater(msgspec.Struct, frozen=True, tag=True):
    """The run failed; the job is tried again after ``delay`` seconds."""

    delay: float
    problem: str | None = None  # what was wrong with the policy that should have said how long


# Which counters a discard moves, by its cause.  "failed" and "spent" count as failures; the others were no runs of the
# handler and have counters of their own.
DISCARDS = {
    "failed": ("jobs_failed", "jobs_failed_permanently"),
    "spent": ("jobs_failed", "jobs_failed_permanently"),
    "rejected": ("jobs_rejected_signature",),
    "unreadable": ("jobs_unreadable",),
    "undecryptable": ("jobs_undecryptable",),
    "refused": ("jobs_refused",),
    "unknown": ("jobs_unknown",),
    "misfit": ("jobs_misfit",),
}
REJECTIONS = frozenset({"rejected", "unreadable", "undecryptable"})  # the worker read nothing of the job


class Dead(msgspec.Struct, frozen=True, tag=True):
    """The job is not tried again.  ``cause`` says which counters move; ``ran``, whether a run was completed."""

    reason: str
    cause: str = "failed"
    ran: bool = True
    quotes: bool = False  # whether the reason quotes the handler


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    """The job comes back later; no attempt is counted."""

    delay: float
    waits: int = 0
    awaits: str | None = None  # the signal that makes it due sooner
    notes: tuple[tuple[str, bytes], ...] = ()
    throttles: bool = False  # whether nothing else of its lane starts until then


class Parked(msgspec.Struct, frozen=True, tag=True):
    """This worker cannot run the job; another one may."""

    delay: float
    reason: str


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """The job was stopped, or expired before it started."""

    reason: str
    ran: bool = False


class Released(msgspec.Struct, frozen=True, tag=True):
    """The job goes back to its queue unchanged."""


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """The job's own process died."""

    cause: str


Outcome = Done | Skipped | RetryLater | Dead | Snoozed | Parked | Cancelled | Released | Crashed


class Refusals(Protocol):
    """The errors that a job is not retried after, from its definition."""

    @property
    def discard_on(self) -> tuple[type[BaseException], ...]: ...
    @property
    def retry_on(self) -> tuple[type[BaseException], ...] | None: ...


class Budget(Refusals, Protocol):
    """What `decide` must know about a job, from its envelope, its definition and the defaults."""

    @property
    def max_retries(self) -> int: ...
    @property
    def retry(self) -> RetryPolicy: ...


def decide(error: BaseException | None, lease: Lease, job: Budget, rng: Random) -> Outcome:
    """Return the outcome of a run.  Pure: no clock, no I/O, no logging.

    Raises only what a signal class of the user's raises.
    """
    if error is None:
        return Done()
    if (suspended := _suspension(error)) is not None:
        return Snoozed(suspended.delay, awaits=suspended.awaits, notes=suspended.notes)
    # By type, here and below: a class may override `isinstance`.
    if issubclass(type(error), Snooze):
        delay = max(1.0, seconds(error.delay, "Snooze(delay)"))  # type: ignore[attr-defined]
        return Snoozed(delay, throttles=issubclass(type(error), Throttle))
    if issubclass(type(error), Discard):
        # The whole reason: it is scrubbed before it is cut.  A subclass of `str` may override methods.
        return Dead(str.__str__(str(error.reason)))  # type: ignore[attr-defined]
    if issubclass(type(error), Retry):
        if lease.attempts >= job.max_retries:
            return Dead(_exhausted(lease.attempts + 1, job.max_retries))
        return RetryLater(seconds(error.after, "Retry(after)"))  # type: ignore[attr-defined]
    return failed(error, lease, job, rng)


def _suspension(error: BaseException) -> JobSuspended | None:
    """Return the suspension that ended a run, also out of a group of nothing else: a `TaskGroup` raises one."""
    if type(error) is JobSuspended:
        return error
    if type(error) is BaseExceptionGroup:
        found = [_suspension(each) for each in error.exceptions]
        return None if None in found else found[0]
    return None


def waits(error: BaseException) -> bool:
    """Return whether a run that raised this goes on later, and has not failed: a sleep, a wait or a snooze."""
    return _suspension(error) is not None or issubclass(type(error), Snooze)


def is_final(error: BaseException, attempt: int, max_retries: int, job: Refusals) -> bool:
    """Return whether no retry follows a run that failed with this.  Raises what a metaclass of the user's raises."""
    if attempt > max_retries or issubclass(type(error), Discard):
        return True
    return not issubclass(type(error), Retry) and _not_retried(error, job) is not None


def failed(error: BaseException, lease: Lease, job: Budget, rng: Random) -> Dead | RetryLater:
    """Return the outcome of a run that raised.  Never raises."""
    refusal, problem = None, None
    try:
        refusal = _not_retried(error, job)
    except BaseException as broken:  # noqa: BLE001  a metaclass may answer with anything
        problem = f"discard_on and retry_on cannot be compared with {kind_of(error)}: {kind_of(broken)}"
    if refusal is not None:
        return Dead(refusal)
    if lease.attempts >= job.max_retries:
        return Dead(_exhausted(lease.attempts + 1, job.max_retries))
    delay = planned(job.retry, lease.attempts + 1, job_id=lease.envelope.id, rng=rng)
    return RetryLater(delay.seconds, delay.problem or problem)


def _not_retried(error: BaseException, job: Refusals) -> str | None:
    kind = type(error).__name__
    if is_listed(error, job.discard_on):
        return f"{kind} is not retried: it is listed in discard_on"
    if job.retry_on is not None and not is_listed(error, job.retry_on):
        return f"{kind} is not retried: only what retry_on lists is"
    return None


def is_listed(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Return whether a list names this error; `TimeoutError` or `Exception` means the job's own time-out, too."""
    return isinstance(error, kinds) or (isinstance(error, JobTimeout) and issubclass(TimeoutError, kinds))


def _exhausted(runs: int, max_retries: int) -> str:
    tries = counted(runs, "attempt")
    return f"gave up after {tries}: max_retries is {max_retries}"
