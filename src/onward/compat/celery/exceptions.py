"""Celery's exceptions, by the names under which tasks catch and raise them.  Most are Onward's own."""

from __future__ import annotations

from onward.compat.celery.refusing import refusing
from onward.errors import BackendUnavailable, JobCancelledError, JobTimeout, OptionError, ResultTimeout
from onward.job.signals import Retry

__all__ = [
    "Ignore",
    "MaxRetriesExceededError",
    "OperationalError",
    "Reject",
    "Retry",
    "SoftTimeLimitExceeded",
    "TaskRevokedError",
    "TimeoutError",
]

__getattr__ = refusing(
    "exceptions",
    {
        "TimeLimitExceeded": "a run that is killed can catch nothing, and get() raises onward.JobDiscardedError",
        "WorkerLostError": "a job whose worker dies runs again; after max_crashes get() raises onward.JobDiscardedError",
        "ChordError": "get() of the body raises what the failed task raised",
        **dict.fromkeys(("ImproperlyConfigured", "NotConfigured", "NotRegistered"), "catch onward.OptionError"),
        "AlreadyRegistered": "catch onward.errors.DefinitionError",
        **dict.fromkeys(("BackendError", "BackendGetMetaError", "BackendStoreError"), "catch OperationalError"),
        **dict.fromkeys(("CeleryError", "TaskError", "InvalidTaskError"), "catch onward.OnwardError"),
        **dict.fromkeys(("SecurityError", "SecurityWarning"), "catch onward.errors.SignatureRejected"),
        "reraise": "write raise error.with_traceback(traceback)",
        **dict.fromkeys(
            (
                *("AlwaysEagerIgnored", "CDeprecationWarning", "CPendingDeprecationWarning", "CeleryCommandException"),
                *("CeleryWarning", "DuplicateNodenameWarning", "FixupWarning", "IncompleteStream", "QueueNotFound"),
                *("TaskPredicate", "Terminated", "WorkerShutdown", "WorkerTerminate"),
            ),
            "nothing here raises it: leave it out",
        ),
    },
)

SoftTimeLimitExceeded = JobTimeout
TaskRevokedError = JobCancelledError
OperationalError = BackendUnavailable
TimeoutError = ResultTimeout  # noqa: A001  Celery's name; it is a TimeoutError of Python's, too


class MaxRetriesExceededError(Exception):
    """The task called `retry` once more than it may, and gave no exception to raise instead."""


class Ignore(Exception):
    """Raised by a task that is to end here: its job is completed, without a result."""


class Reject(Exception):
    """Refused: a job is not given back to a queue by hand."""

    def __init__(self, *_: object, **__: object) -> None:
        raise OptionError(
            "Reject has no meaning here: raise onward.Discard(reason) to give the job up, onward.Snooze(60) to run it later"
        )
