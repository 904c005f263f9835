"""What a run means: the decision, apart from everything that carries it out."""

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
from onward.job.signals import Discard, Retry, Snooze

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
]


class Done(msgspec.Struct, frozen=True, tag=True):
    """It succeeded."""


class Skipped(msgspec.Struct, frozen=True, tag=True):
    """It need not run."""

    reason: str


class RetryLater(msgspec.Struct, frozen=True, tag=True):
    """It failed and is tried again after ``delay`` seconds."""

    delay: float
    problem: str | None = None  # what was wrong with the policy that should have said how long


# Which counters a discard moves, by its cause.  "failed" and a dead letter stored at last count as failures; the others
# never were runs of the handler and have counters of their own.
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
REJECTIONS = frozenset({"rejected", "unreadable", "undecryptable"})  # nothing of the job was read


class Dead(msgspec.Struct, frozen=True, tag=True):
    """It is not tried again.  ``cause`` says which counter knows it; ``ran``, whether a run was completed."""

    reason: str
    cause: str = "failed"
    ran: bool = True
    quotes: bool = False  # whether the reason has words of the handler's in it


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    """It comes back later; nothing was burned."""

    delay: float
    waits: int = 0
    awaits: str | None = None  # the signal that makes it due sooner
    notes: tuple[tuple[str, bytes], ...] = ()


class Parked(msgspec.Struct, frozen=True, tag=True):
    """This worker cannot run it; another one may."""

    delay: float
    reason: str


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """It was stopped, or expired before it started."""

    reason: str
    ran: bool = False


class Released(msgspec.Struct, frozen=True, tag=True):
    """It goes back as it came."""


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """The process that it ran in, alone, died."""

    cause: str


Outcome = Done | Skipped | RetryLater | Dead | Snoozed | Parked | Cancelled | Released | Crashed


class Budget(Protocol):
    """What `decide` must know about a job, after envelope, definition and defaults have been weighed."""

    @property
    def max_retries(self) -> int: ...
    @property
    def retry(self) -> RetryPolicy: ...
    @property
    def discard_on(self) -> tuple[type[BaseException], ...]: ...
    @property
    def retry_on(self) -> tuple[type[BaseException], ...] | None: ...


def decide(error: BaseException | None, lease: Lease, job: Budget, rng: Random) -> Outcome:
    """Turn what happened into what happens next.  Pure: no clock, no I/O, no logging.

    Raises only what a signal of the user's own making raises.
    """
    if error is None:
        return Done()
    if type(error) is JobSuspended:
        return Snoozed(error.delay, awaits=error.awaits, notes=error.notes)
    # By type, here and below: a class may answer `isinstance` with code of its own.
    if issubclass(type(error), Snooze):
        return Snoozed(max(1.0, seconds(error.delay, "Snooze(delay)")))  # type: ignore[attr-defined]
    if issubclass(type(error), Discard):
        # Whole: it is scrubbed before it is cut.  A subclass of `str` may have methods of its own.
        return Dead(str.__str__(str(error.reason)))  # type: ignore[attr-defined]
    if issubclass(type(error), Retry):
        if lease.attempts >= job.max_retries:
            return Dead(_exhausted(lease.attempts + 1, job.max_retries))
        return RetryLater(seconds(error.after, "Retry(after)"))  # type: ignore[attr-defined]
    return failed(error, lease, job, rng)


def failed(error: BaseException, lease: Lease, job: Budget, rng: Random) -> Dead | RetryLater:
    """Return what becomes of a failure, whatever it is.  Never raises."""
    refusal, problem = None, None
    try:
        refusal = _not_retried(error, job)
    except BaseException as broken:  # noqa: BLE001  a metaclass may answer with anything
        problem = f"discard_on and retry_on cannot be asked about {kind_of(error)}: {kind_of(broken)}"
    if refusal is not None:
        return Dead(refusal)
    if lease.attempts >= job.max_retries:
        return Dead(_exhausted(lease.attempts + 1, job.max_retries))
    delay = planned(job.retry, lease.attempts + 1, job_id=lease.envelope.id, rng=rng)
    return RetryLater(delay.seconds, delay.problem or problem)


def _not_retried(error: BaseException, job: Budget) -> str | None:
    kind = type(error).__name__
    if _is_listed(error, job.discard_on):
        return f"{kind} is not retried: it is listed in discard_on"
    if job.retry_on is not None and not _is_listed(error, job.retry_on):
        return f"{kind} is not retried: only what retry_on lists is"
    return None


def _is_listed(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether a list names this error; `TimeoutError` or `Exception` means the job's own time-out, too."""
    return isinstance(error, kinds) or (isinstance(error, JobTimeout) and issubclass(TimeoutError, kinds))


def _exhausted(runs: int, max_retries: int) -> str:
    tries = counted(runs, "attempt")
    return f"gave up after {tries}: max_retries is {max_retries}"
