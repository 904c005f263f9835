"""The states of tasks, by Celery's names."""

from __future__ import annotations

__all__ = [
    "EXCEPTION_STATES",
    "FAILURE",
    "PENDING",
    "PROPAGATE_STATES",
    "READY_STATES",
    "RETRY",
    "REVOKED",
    "STARTED",
    "SUCCESS",
    "UNREADY_STATES",
]

PENDING = "PENDING"
STARTED = "STARTED"
RETRY = "RETRY"
SUCCESS = "SUCCESS"
FAILURE = "FAILURE"
REVOKED = "REVOKED"

READY_STATES = frozenset({SUCCESS, FAILURE, REVOKED})
EXCEPTION_STATES = frozenset({RETRY, FAILURE, REVOKED})
PROPAGATE_STATES = frozenset({FAILURE, REVOKED})
UNREADY_STATES = frozenset({PENDING, STARTED, RETRY})
