"""When a job would run again, if every run fails: from its policy, without jitter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from onward.attempt.attempt import Runtime
from onward.attempt.prepare import terms_of
from onward.client.record import JobRecord
from onward.errors import EnvelopeError
from onward.job.envelope import Sealed, open_sealed
from onward.job.retry import planned
from onward.job.states import State

__all__ = ["retry_times"]

_MOST = 20
_LIVE = (State.SCHEDULED, State.AVAILABLE, State.RETRYABLE, State.EXECUTING)


def retry_times(runtime: Runtime, record: JobRecord) -> Sequence[datetime]:
    """Return the instants of the retries to come, twenty at most; none of a job that is over or is not known here."""
    entry = runtime.registry.find(record.job)
    if entry is None or record.state not in _LIVE or not record.raw:
        return []
    try:
        terms = terms_of(open_sealed(Sealed(record.id, record.queue, record.raw)), entry, runtime)
    except EnvelopeError:
        return []
    policy = terms.retry
    if hasattr(policy, "jitter"):
        policy = msgspec.structs.replace(policy, jitter=None)
    started = record.started_at if record.state is State.EXECUTING else None
    at = max(started or record.available_at, datetime.now(UTC))
    found: list[datetime] = []
    for number in range(record.attempts + 1, min(terms.max_retries, record.attempts + _MOST) + 1):
        try:
            at += timedelta(seconds=planned(policy, number, job_id=record.id).seconds)
        except OverflowError:
            break
        found.append(at)
    return found
