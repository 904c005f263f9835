"""From the store's answers to counters, events and log lines.

`Reporter` moves counters once, when the store answers that a settlement is applied, by the state that the job went to.
Always ``failed = requeued + failed_permanently``: an outcome without a run of the handler has a counter of its own.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onward import telemetry
from onward.attempt.attempt import Attempt, Ready
from onward.backend import Reaped
from onward.base.durations import spoken
from onward.base.failure import Failure, name_of
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.errors import JobStopped, JobTimeout
from onward.job.envelope import Sealed
from onward.job.outcome import DISCARDS, REJECTIONS, Cancelled, Dead, RetryLater
from onward.job.settlement import Settled, Settlement
from onward.job.states import DEAD_LETTER_REFUSED, DROPPED, LEASE_GONE, SETTLING, SettlingRow, State
from onward.telemetry import JobCancelled, JobCompleted, JobDiscarded, JobEvent, JobRescued, Metrics, Telemetry
from onward.telemetry.counters import UNREAD
from onward.telemetry.numbers import Pair

__all__ = ["Reporter", "status"]

logger = get_logger("onward.job")

_COMPLETED, _CANCELLED = State.COMPLETED, State.CANCELLED  # looked up once, not for every job
_MILLISECOND = 1000  # microseconds
_UNVERIFIED_EVERY = 60.0  # seconds between two lines that say the same

_SWALLOWED = {name_of(JobTimeout): "jobs_overran", name_of(JobStopped): "jobs_cancel_ignored"}
# The events of the settling moves.  Moves that do not end a lease have events of their own, below.
_EVENTS: dict[str, type[JobEvent]] = {
    row.event: getattr(telemetry, row.event)
    for row in (*SETTLING.values(), LEASE_GONE, DROPPED, DEAD_LETTER_REFUSED)
    if row.event is not None
}


class Reporter:
    """Counts, publishes and logs settlements.  One that is repeated after a lost answer is counted once, when answered."""

    def __init__(self, metrics: Metrics, telemetry: Telemetry) -> None:
        self._metrics = metrics
        self._telemetry = telemetry
        self._warned: dict[tuple[str, str], float] = {}  # queue and problem -> when that was last logged

    @property
    def is_counting(self) -> bool:
        return self._metrics.enabled

    def fetched(self, opened: Iterable[Ready | Attempt], *, inherited: bool = False) -> None:
        """Count jobs that were claimed, and how long each had been due.  ``inherited``: another process had claimed them."""
        again: dict[tuple[str, Pair], int] = {}
        first: dict[Pair, list[int]] = {}
        for each in opened:
            lease, letter = each.lease, each.letter
            if letter is None or lease.token != 1 or inherited:
                key = ("jobs_fetched", (lease.envelope.queue, UNREAD if letter is None else letter.job))
                again[key] = again.get(key, 0) + 1
                continue
            pair = (lease.envelope.queue, letter.job)
            waits = first.get(pair)
            if waits is None:
                waits = first[pair] = []
            due = letter.enqueued_at if letter.not_before is None else max(letter.enqueued_at, letter.not_before)
            waited = (lease.claimed_at - due) // _MILLISECOND
            waits.append(waited if waited > 0 else 0)  # noqa: FURB136  `max` takes three times as long
        self._metrics.add_all(again, first_deliveries=first)

    def counted_elsewhere(self, counts: Mapping[tuple[str, Pair], int]) -> None:
        """Count what a handler has counted in a process of its own: the jobs that it has enqueued."""
        self._metrics.add_all(counts)

    def unverified(self, sealed: Sealed, problem: str) -> None:
        """Count a job that runs and would be refused if signatures were required; log the first of a minute."""
        self._metrics.add("jobs_unverified", sealed.queue)
        now, key = time.monotonic(), (sealed.queue, problem)
        if now - self._warned.get(key, -_UNVERIFIED_EVERY) < _UNVERIFIED_EVERY:
            return
        if len(self._warned) >= 1000:  # a program that can write to the store can make up any number of names
            self._warned.clear()
        self._warned[key] = now
        _write(
            logging.WARNING,
            "job.unverified %s in queue %s runs although %s: with signing='require' it would be refused",
            sealed.id,
            sealed.queue,
            problem,
            extra={"job_id": sealed.id, "queue": sealed.queue, "event": "job.unverified"},
        )

    def settled(self, attempts: Sequence[Attempt], made: Sequence[Settlement], answers: Sequence[Settled]) -> None:
        counts: defaultdict[tuple[str, Pair], int] = defaultdict(int)
        successes: dict[Pair, list[int]] = {}
        other_runs: defaultdict[Pair, list[int]] = defaultdict(list)
        # Most settlements are successes: without a subscriber and without DEBUG they are only counted.
        only_counted = not self._telemetry.wants(JobCompleted) and not logger.isEnabledFor(logging.DEBUG)
        for attempt, item, answer in zip(attempts, made, answers, strict=True):
            letter = attempt.letter
            pair = (attempt.lease.envelope.queue, UNREAD if letter is None else letter.job)
            if attempt.swallowed is not None:
                counts[_SWALLOWED[attempt.swallowed.kind], pair] += 1
                _log_swallowed(attempt, attempt.swallowed)
            if item.move == "ack" and answer.state is _COMPLETED:
                runs = successes.get(pair)
                if runs is None:
                    runs = successes[pair] = []
                runs.append(item.duration_ms)
                if only_counted:
                    continue
                row = SETTLING["ack"]
            else:
                row = _row(attempt, item, answer)
                for name in _counters(attempt, row):
                    counts[name, pair] += 1
                if item.ran and answer.counts:
                    other_runs[pair].append(item.duration_ms)
            if item.dead_letter is not None and answer.state is State.DISCARDED:
                counts["jobs_enqueued", (item.dead_letter.queue, item.dead_letter.job)] += 1
            self._publish(attempt, item, row)
        self._metrics.add_all(counts, successes=successes, other_runs=other_runs)

    def _publish(self, attempt: Attempt, item: Settlement, row: SettlingRow) -> None:
        """Make an event and a log line of a settlement."""
        try:
            kind = None if row.event is None else _EVENTS[row.event]
            if kind is not None and self._telemetry.wants(kind):
                self._telemetry.emit(_event(kind, attempt, item))
            _log(attempt, item, row)
        except Exception:  # the job is settled: an error in reporting it does not end a worker
            logger.exception("the end of job %s could not be reported", attempt.lease.envelope.id)

    def reaped(self, reaped: Sequence[Reaped]) -> None:
        for each in reaped:
            if each.crashed:
                self._metrics.add("jobs_crashed", each.queue, job=each.job)
                _write(
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
            if each.to is State.CANCELLED:  # a cancellation had been requested
                self._metrics.add("jobs_cancelled", each.queue, job=each.job)
                self._telemetry.emit(JobCancelled(**common, reason=each.cause))
            elif each.to is State.DISCARDED:
                reason = f"crashed {counted(each.crashes, 'time')}"
                self._telemetry.emit(
                    JobDiscarded(**common, attempt=0, duration_ms=0, error=each.cause, kind="Crash", reason=reason)
                )
            else:
                self._telemetry.emit(JobRescued(**common, cause=each.cause, crashes=each.crashes))


def status(attempt: Attempt, item: Settlement, answer: Settled) -> str:
    """Return the word of `WorkerResult.status`."""
    row = _row(attempt, item, answer)
    return "rejected" if row is SETTLING["abandon"] and _cause(attempt) in REJECTIONS else row.status


def _row(attempt: Attempt, item: Settlement, answer: Settled) -> SettlingRow:
    """Return the row of the move table for a settlement, by the state that the job went to."""
    if not answer.counts:
        return LEASE_GONE
    if item.move == "cancelled" and not isinstance(attempt.outcome, Cancelled):
        return DROPPED  # the job failed for good, and the store refused its dead letter: `drop_on_dlq_failure`
    if answer.state is _CANCELLED:
        return SETTLING["cancelled"]
    # No retry follows a refused dead letter; the discard is reported once the dead letter is stored.
    return SETTLING[item.move] if item.spent is None else DEAD_LETTER_REFUSED


def _counters(attempt: Attempt, row: SettlingRow) -> tuple[str, ...]:
    """Return the counters that a settlement moves; of a discard its cause says which."""
    return (*DISCARDS[_cause(attempt)], *row.counters) if row.event == "JobDiscarded" else row.counters


def _cause(attempt: Attempt) -> str:
    return attempt.outcome.cause if isinstance(attempt.outcome, Dead) else "failed"


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
    return attempt.letter.job if attempt.letter is not None else UNREAD


def _log(attempt: Attempt, item: Settlement, row: SettlingRow) -> None:
    """Write one line for a failure, a discard or a lost lease; for a success only where DEBUG is on."""
    # A parked job is logged at its own level the first time, later at DEBUG.
    parked_again = row is SETTLING["park"] and attempt.lease.parked_since is not None
    level = logging.DEBUG if parked_again else row.level
    if not logger.isEnabledFor(level):
        return
    problem = attempt.outcome.problem if isinstance(attempt.outcome, RetryLater) else None
    if problem is not None:
        _write(logging.ERROR, "retry policy of %s: %s", _job_of(attempt), problem)
    lease = attempt.lease
    failure = item.failure or attempt.failure
    facts = {"job": _job_of(attempt), "attempt": lease.attempts + 1}
    discarded = row is SETTLING["abandon"]
    line = ", which was not run: %(why)s" if discarded and not _was_attempted(attempt) else row.line
    _write(
        level,
        f"{row.log} %(job)s %(id)s{line}",  # one text per event: tools group lines by it
        {
            **facts,
            "id": lease.envelope.id,
            "took": spoken(item.duration_ms / 1000),
            "delay": spoken(item.delay),
            "why": _why(item, failure),
        },
        extra={
            **facts,
            "event": row.log,
            "job_id": lease.envelope.id,
            "queue": lease.envelope.queue,
            "duration_ms": item.duration_ms,
        },
        traceback=failure.traceback.rstrip() if failure is not None and discarded else "",
    )


def _log_swallowed(attempt: Attempt, swallowed: Failure) -> None:
    event = _SWALLOWED[swallowed.kind].replace("jobs_", "job.")
    _write(
        logging.WARNING,
        f"{event} %s %s attempt %d: %s",  # one text per event
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


def _why(item: Settlement, failure: Failure | None) -> str:
    why = item.reason or ""
    if failure is not None and failure.message != why:
        error = f"{failure.kind}: {failure.message}".removesuffix(": ")
        why = f"{why}; {error}" if why else error
    return why or f"the move was {item.move}"


def _write(
    level: int, message: str, *args: object, extra: Mapping[str, object] | None = None, traceback: str = ""
) -> None:
    if traceback:
        logger.log_traceback(level, message, *args, extra=extra, traceback=traceback)
    else:
        logger.log(level, message, *args, extra=extra)
