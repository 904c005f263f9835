"""Onward: background jobs for Python.  A job that was accepted is never lost.

Doors for users: this module, `app`, `config`, `errors`, `telemetry`, `backend` and the room `testing`; all else is internal.
Read it the way a job goes: `client` enqueues, `job` and `security` seal, `backends` store; `supervisor` and `worker` claim,
`attempt` runs and settles; `operate` looks and steers.  `wiring` makes the parts, `contract` is what every store does, and
docs/tour.md follows a job.  Every room's `__init__` says what is there and in which order to read it.

A name of this module is imported when it is first used: a supervisor and `onward --help` need few of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from onward.version import __version__

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.bound_job import Job, JobHandle
    from onward.client.flow_handle import FlowHandle
    from onward.client.record import JobRecord
    from onward.errors import (
        ArgumentError,
        BackendError,
        BackendMisconfigured,
        BackendUnavailable,
        FlowError,
        InvalidLimit,
        InvalidName,
        InvalidSchedule,
        JobCancelledError,
        JobDiscardedError,
        JobStopped,
        JobTimeout,
        OnwardError,
        OptionError,
        PayloadTooLarge,
        ResultTimeout,
        ResultUnreadable,
        SchemaTooNew,
    )
    from onward.flow.breaker import Breaker
    from onward.flow.cron import daily_at, every, hourly_at, weekly_on
    from onward.flow.limits import Limit
    from onward.job.context import AsyncJobContext, JobContext
    from onward.job.retry import (
        Additive,
        Custom,
        Equal,
        Exponential,
        Fixed,
        Full,
        Linear,
        NoDelay,
        PlusMinus,
        RetryPolicy,
    )
    from onward.job.secrets import Secret
    from onward.job.signals import Discard, Retry, Snooze, Throttle
    from onward.job.states import State
    from onward.worker.inline import WorkerResult

__all__ = [
    "Additive",
    "ArgumentError",
    "AsyncJobContext",
    "BackendError",
    "BackendMisconfigured",
    "BackendUnavailable",
    "Breaker",
    "Custom",
    "Discard",
    "Equal",
    "Exponential",
    "Fixed",
    "FlowError",
    "FlowHandle",
    "Full",
    "InvalidLimit",
    "InvalidName",
    "InvalidSchedule",
    "Job",
    "JobCancelledError",
    "JobContext",
    "JobDiscardedError",
    "JobHandle",
    "JobRecord",
    "JobStopped",
    "JobTimeout",
    "Limit",
    "Linear",
    "NoDelay",
    "Onward",
    "OnwardError",
    "OptionError",
    "PayloadTooLarge",
    "PlusMinus",
    "ResultTimeout",
    "ResultUnreadable",
    "Retry",
    "RetryPolicy",
    "SchemaTooNew",
    "Secret",
    "Snooze",
    "State",
    "Throttle",
    "WorkerResult",
    "__version__",
    "daily_at",
    "every",
    "hourly_at",
    "weekly_on",
]

_HOMES = {
    "onward.app": "Onward",
    "onward.job.context": "AsyncJobContext JobContext",
    "onward.errors": (
        "ArgumentError BackendError BackendMisconfigured BackendUnavailable FlowError InvalidLimit InvalidName "
        "InvalidSchedule JobCancelledError JobDiscardedError JobStopped JobTimeout OnwardError OptionError "
        "PayloadTooLarge ResultTimeout ResultUnreadable SchemaTooNew"
    ),
    "onward.flow.cron": "daily_at every hourly_at weekly_on",
    "onward.flow.breaker": "Breaker",
    "onward.flow.limits": "Limit",
    "onward.client.bound_job": "Job JobHandle",
    "onward.job.secrets": "Secret",
    "onward.client.flow_handle": "FlowHandle",
    "onward.client.record": "JobRecord",
    "onward.job.retry": "Additive Custom Equal Exponential Fixed Full Linear NoDelay PlusMinus RetryPolicy",
    "onward.worker.inline": "WorkerResult",
    "onward.job.signals": "Discard Retry Snooze Throttle",
    "onward.job.states": "State",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
