"""Why an act on one job changed nothing, in words for people."""

from __future__ import annotations

from onward.client.record import JobRecord
from onward.job.states import State

__all__ = ["why_not_cancelled", "why_not_retried", "why_not_signalled"]

_TAKEN = "it has just been taken by a worker"
_KEPT = "it expired, its unique key is held by another job, or only a tombstone is left"
_NOT_RETRIED = {
    State.SCHEDULED: _TAKEN,
    State.RETRYABLE: _TAKEN,
    State.AVAILABLE: "it is already due; a worker will take it",
    State.EXECUTING: "it is running",
    State.COMPLETED: "it has completed; enqueue it again",
    State.DISCARDED: _KEPT,
    State.CANCELLED: _KEPT,
}


def why_not_retried(record: JobRecord) -> str:
    return _NOT_RETRIED.get(record.state, f"it is damaged: {record.damage}")


def why_not_cancelled(record: JobRecord) -> str:
    return f"there is nothing to cancel: it is {record.state}"


def why_not_signalled(record: JobRecord, again: str) -> str:
    """Return why a signal was not kept.  ``again``: how to replace a value, in the words of the caller's face."""
    return f"it is {record.state}" if record.is_finished else f"it was told before; {again} replaces the value"
