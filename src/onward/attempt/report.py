"""From the store's answers to counters, events and log lines.

Counters move once, when a settlement is applied or found applied, by the state the job went to.  Always
``failed = requeued + failed_permanently``: what never was a run of the handler has a counter of its own.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onward.attempt.attempt import Attempt
from onward.backend import Reaped
from onward.base.durations import spoken
from onward.base.failure import Failure
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.job.envelope import Sealed
from onward.job.outcome import Cancelled, Dead, RetryLater
from onward.job.settlement import Settled, Settlement
from onward.job.states import State
from onward.telemetry import (
    JobCancelled,
    JobCompleted,
    JobDeduplicated,
    JobDiscarded,
    JobEvent,
    JobFailed,
    JobLeaseLost,
    JobParked,
    JobRescued,
    JobSnoozed,
    Metrics,
    Telemetry,
)

__all__ = ["REJECTIONS", "Ledger"]

logger = get_logger("onward.job")

_UNVERIFIED_EVERY = 60.0  # seconds between two lines that say the same

# Which counters a discard moves, by its cause.  "failed" and a dead letter stored at last count as failures; the others
# never were runs of the handler and have counters of their own.
_DISCARDS = {
    "failed": ("jobs_failed", "jobs_failed_permanently"),
    "spent": ("jobs_failed", "jobs_failed_permanently"),
    "rejected": ("jobs_rejected_signature",),
    "unreadable": ("jobs_unreadable",),
    "undecryptable": ("jobs_undecryptable",),
    "refused": ("jobs_refused",),
    "unknown": ("jobs_unknown",),
    "misfit": ("jobs_misfit",),
}

_SWALLOWED = {"JobTimeout": "jobs_overran", "JobStopped": "jobs_cancel_ignored"}
REJECTIONS = frozenset({"rejected", "unreadable", "undecryptable"})  # nothing of the job was read


class Ledger:
    """Counts, tells and logs what was settled.  A settlement repeated after a lost answer is counted once, when answered."""

    def __init__(self, metrics: Metrics, telemetry: Telemetry) -> None:
        self._metrics = metrics
        self._telemetry = telemetry
        self._warned: dict[tuple[str, str], float] = {}  # queue and problem -> when that was last said

    def fetched(self, queue: str, count: int = 1) -> None:
        self._metrics.add("jobs_fetched", queue, count)

    def unverified(self, sealed: Sealed, problem: str) -> None:
        """A job is run that would be refused if signatures were required.  All are counted; not every one gets a line."""
        self._metrics.add("jobs_unverified", sealed.queue)
        now, key = time.monotonic(), (sealed.queue, problem)
        if now - self._warned.get(key, -_UNVERIFIED_EVERY) < _UNVERIFIED_EVERY:
            return
        if len(self._warned) >= 1000:  # whoever writes to the store can make up names
            self._warned.clear()
        self._warned[key] = now
        _say(
            logging.WARNING,
            "job.unverified %s in queue %s runs although %s: with signing='require' it would be refused",
            sealed.id,
            sealed.queue,
            problem,
            extra={"job_id": sealed.id, "queue": sealed.queue, "event": "job.unverified"},
        )

    def settled(self, attempts: Sequence[Attempt], made: Sequence[Settlement], answers: Sequence[Settled]) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        # Successes are nearly all there is: where nobody listens to them they are counted, and that is all.
        unheard = not self._telemetry.wants(JobCompleted) and not logger.isEnabledFor(logging.DEBUG)
        for attempt, item, answer in zip(attempts, made, answers, strict=True):
            queue = attempt.lease.envelope.queue
            if attempt.swallowed is not None:
                counts[_SWALLOWED[attempt.swallowed.kind], queue] += 1
                _log_swallowed(attempt, attempt.swallowed)
            if unheard and item.move == "ack" and answer.state is State.COMPLETED:
                counts["jobs_succeeded", queue] += 1
                continue
            for name in _counters(attempt, item, answer):
                counts[name, queue] += 1
            if item.dead_letter is not None and answer.state is State.DISCARDED:
                counts["jobs_enqueued", item.dead_letter.queue] += 1
            try:
                self._tell(attempt, item, answer)
                _log(attempt, item, answer)
            except Exception:  # it is settled: what is told of it does not end a worker
                logger.exception("the end of job %s could not be told", attempt.lease.envelope.id)
        self._metrics.add_all(counts)

    def reaped(self, reaped: Sequence[Reaped]) -> None:
        for each in reaped:
            if each.crashed:
                self._metrics.add("jobs_crashed", each.queue)
                _say(
                    logging.CRITICAL if each.to is State.DISCARDED else logging.ERROR,
                    "job.crashed %s %s: %s (crash %d, now %s)",
                    each.job,
                    each.id,
                    each.cause,
                    each.crashes,
                    each.to,
                    extra={"job_id": each.id, "job": each.job, "queue": each.queue, "event": "job.crashed"},
                )
            common: dict[str, Any] = {"id": each.id, "job": each.job, "queue": each.queue}
            if each.to is State.CANCELLED:  # it had been asked for
                self._metrics.add("jobs_cancelled", each.queue)
                self._telemetry.emit(JobCancelled(**common, reason=each.cause))
            elif each.to is State.DISCARDED:
                reason = f"crashed {counted(each.crashes, 'time')}"
                self._telemetry.emit(
                    JobDiscarded(**common, attempt=0, duration_ms=0, error=each.cause, kind="Crash", reason=reason)
                )
            else:
                self._telemetry.emit(JobRescued(**common, cause=each.cause, crashes=each.crashes))

    def _tell(self, attempt: Attempt, item: Settlement, answer: Settled) -> None:
        kind = _EVENTS.get(_happened(attempt, item, answer))
        if kind is not None and self._telemetry.wants(kind):
            self._telemetry.emit(_event(kind, attempt, item))


def _happened(attempt: Attempt, item: Settlement, answer: Settled) -> str:
    if not answer.counts:
        return "lost"
    if _was_dropped(attempt, item):
        return "abandon"
    if _was_cancelled(answer):
        return "cancelled"
    # No retry follows a refused dead letter, and the discard is told when it is stored at last.
    return item.move if item.spent is None else "spent"


def _was_cancelled(answer: Settled) -> bool:
    return answer.state is State.CANCELLED


def _was_dropped(attempt: Attempt, item: Settlement) -> bool:
    """Whether it failed for good, and its dead letter was refused: `drop_on_dlq_failure`."""
    return item.move == "cancelled" and not isinstance(attempt.outcome, Cancelled)


def _counters(attempt: Attempt, item: Settlement, answer: Settled) -> tuple[str, ...]:
    if not answer.counts:
        return ("leases_lost",)
    if _was_dropped(attempt, item):
        return (*_DISCARDS[_cause(attempt)], "jobs_dlq_failed")
    if _was_cancelled(answer):
        return ("jobs_cancelled",)
    match item.move:
        case "ack":
            return ("jobs_succeeded",)
        case "skip":
            return ("jobs_skipped_idempotent",)
        case "nack":
            return ("jobs_dlq_failed",) if item.spent is not None else ("jobs_failed", "jobs_requeued")
        case "abandon":
            return _DISCARDS[_cause(attempt)]
        case "snooze":
            return ("jobs_snoozed",)
        case "park":
            return ("jobs_parked",)
        case _:
            return ()


def _cause(attempt: Attempt) -> str:
    return attempt.outcome.cause if isinstance(attempt.outcome, Dead) else "failed"


_EVENTS: dict[str, type[JobEvent]] = {
    "ack": JobCompleted,
    "skip": JobDeduplicated,
    "nack": JobFailed,
    "abandon": JobDiscarded,
    "snooze": JobSnoozed,
    "park": JobParked,
    "cancelled": JobCancelled,
    "lost": JobLeaseLost,
}


def _event(kind: type[JobEvent], attempt: Attempt, item: Settlement) -> JobEvent:
    lease = attempt.lease
    failure = item.failure or attempt.failure or Failure("", "")
    facts: dict[str, Any] = {
        "id": lease.envelope.id,
        "job": _job_of(attempt),
        "queue": lease.envelope.queue,
        "attempt": lease.attempts + _was_attempted(attempt),
        "duration_ms": item.duration_ms,
        "error": failure.message,
        "kind": failure.kind,
        "delay": item.delay,
        "reason": item.reason,
        "existing_id": lease.holder,
    }
    return kind(**{name: facts[name] for name in kind.__struct_fields__})


def _was_attempted(attempt: Attempt) -> bool:
    return not isinstance(attempt.outcome, Dead) or attempt.outcome.ran


def _job_of(attempt: Attempt) -> str:
    return attempt.letter.job if attempt.letter is not None else "?"


def _log(attempt: Attempt, item: Settlement, answer: Settled) -> None:
    """Failures, discards and lost leases get one line each; a success only where somebody debugs."""
    level, event = _line(item, answer, attempt)
    if not logger.isEnabledFor(level):
        return
    problem = attempt.outcome.problem if isinstance(attempt.outcome, RetryLater) else None
    if problem is not None:
        _say(logging.ERROR, "retry policy of %s: %s", _job_of(attempt), problem)
    lease = attempt.lease
    failure = item.failure or attempt.failure
    facts = {"job": _job_of(attempt), "attempt": lease.attempts + 1}
    _say(
        level,
        _TEMPLATES[event] if _was_attempted(attempt) else _UNRUN.get(event, _TEMPLATES[event]),
        {
            **facts,
            "id": lease.envelope.id,
            "took": spoken(item.duration_ms / 1000),
            "delay": spoken(item.delay),
            "why": _why(item, failure),
        },
        extra={
            **facts,
            "event": event,
            "job_id": lease.envelope.id,
            "queue": lease.envelope.queue,
            "duration_ms": item.duration_ms,
        },
        traceback=failure.traceback.rstrip() if failure is not None and event == "job.discarded" else "",
    )


def _log_swallowed(attempt: Attempt, swallowed: Failure) -> None:
    event = _SWALLOWED[swallowed.kind].replace("jobs_", "job.")
    _say(
        logging.WARNING,
        "%s %s %s attempt %d: %s",
        event,
        _job_of(attempt),
        attempt.lease.envelope.id,
        attempt.lease.attempts + 1,
        swallowed.message,
        extra={
            "event": event,
            "job_id": attempt.lease.envelope.id,
            "job": _job_of(attempt),
            "queue": attempt.lease.envelope.queue,
            "attempt": attempt.lease.attempts + 1,
            "duration_ms": attempt.duration_ms,
        },
    )


# One template per event: tools group lines by it.
_TEMPLATES = {
    "job.completed": "job.completed %(job)s %(id)s attempt %(attempt)d in %(took)s",
    "job.skipped": "job.skipped %(job)s %(id)s: %(why)s",
    "job.failed": "job.failed %(job)s %(id)s attempt %(attempt)d in %(took)s, retry in %(delay)s: %(why)s",
    "job.discarded": "job.discarded %(job)s %(id)s attempt %(attempt)d in %(took)s: %(why)s",
    "job.dropped": "job.dropped %(job)s %(id)s attempt %(attempt)d in %(took)s: %(why)s",
    "job.dead_letter_refused": "job.dead_letter_refused %(job)s %(id)s, again in %(delay)s: %(why)s",
    "job.snoozed": "job.snoozed %(job)s %(id)s attempt %(attempt)d in %(took)s, again in %(delay)s",
    "job.parked": "job.parked %(job)s %(id)s, looked at again in %(delay)s: %(why)s",
    "job.cancelled": "job.cancelled %(job)s %(id)s attempt %(attempt)d: %(why)s",
    "job.released": "job.released %(job)s %(id)s",
    "job.crashed": "job.crashed %(job)s %(id)s attempt %(attempt)d in %(took)s: %(why)s",
    "lease.lost": "lease.lost %(job)s %(id)s attempt %(attempt)d in %(took)s: %(why)s",
}
_UNRUN = {"job.discarded": "job.discarded %(job)s %(id)s, which was not run: %(why)s"}


def _why(item: Settlement, failure: Failure | None) -> str:
    why = item.reason or ""
    if failure is not None and failure.message != why:
        error = f"{failure.kind}: {failure.message}".removesuffix(": ")
        why = f"{why}; {error}" if why else error
    return why or f"it was to be settled by {item.move}"


def _say(
    level: int, message: str, *args: object, extra: Mapping[str, object] | None = None, traceback: str = ""
) -> None:
    if traceback:
        logger.log_traceback(level, message, *args, extra=extra, traceback=traceback)
    else:
        logger.log(level, message, *args, extra=extra)


def _line(item: Settlement, answer: Settled, attempt: Attempt) -> tuple[int, str]:
    if not answer.counts:
        return logging.WARNING, "lease.lost"
    if _was_dropped(attempt, item):
        return logging.CRITICAL, "job.dropped"
    if _was_cancelled(answer):
        return logging.INFO, "job.cancelled"
    match item.move:
        case "abandon":
            return logging.CRITICAL, "job.discarded"
        case "nack":
            return (logging.ERROR, "job.dead_letter_refused") if item.spent else (logging.WARNING, "job.failed")
        case "park":
            # Loud the first time; after that it only waits.
            return (logging.WARNING if attempt.lease.parked_since is None else logging.DEBUG), "job.parked"
        case _:
            return logging.DEBUG, _QUIET[item.move]


_QUIET = {
    "ack": "job.completed",
    "skip": "job.skipped",
    "snooze": "job.snoozed",
    "release": "job.released",
    "cancelled": "job.cancelled",
    "crashed": "job.crashed",
}
