"""Onward: background jobs for Python.  A job that was accepted is never lost.

A job's path through the files, top to bottom:

    1 define     app.py and job.py, with definition.py, arguments.py, registry.py
    2 enqueue    client.py
    3 seal       envelope.py, signing.py
    4 store      group_commit.py, backends/*: enqueue
    5 claim      worker/pump.py, backends/*: turn (process_once and drain: runner.py)
    6 run        worker/runners.py or worker/coroutines.py, _attempt.py
    7 decide     outcome.py, retry.py
    8 settle     _settle.py, backends/*: the next turn; _ledger.py counts and tells
    9 recover    supervisor/keeper.py or worker/session.py, backends/*: extend, reap

What is named here is imported when it is first used: a supervisor and `onward --help` need little of it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from onward.version import __version__

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.context import JobContext
    from onward.errors import (
        ArgumentError,
        BackendError,
        BackendMisconfigured,
        BackendUnavailable,
        InvalidName,
        JobCancelled,
        JobDiscarded,
        JobStopped,
        JobTimeout,
        OnwardError,
        OptionError,
        PayloadTooLarge,
        ResultTimeout,
        ResultUnreadable,
        SchemaTooNew,
    )
    from onward.handle import JobHandle
    from onward.job import Job
    from onward.masking import Secret
    from onward.record import JobRecord
    from onward.retry import (
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
    from onward.runner import WorkerResult
    from onward.signals import Discard, Retry, Snooze
    from onward.states import State

__all__ = [
    "Additive",
    "ArgumentError",
    "BackendError",
    "BackendMisconfigured",
    "BackendUnavailable",
    "Custom",
    "Discard",
    "Equal",
    "Exponential",
    "Fixed",
    "Full",
    "InvalidName",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobDiscarded",
    "JobHandle",
    "JobRecord",
    "JobStopped",
    "JobTimeout",
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
    "WorkerResult",
    "__version__",
]

_HOMES = {
    "onward.app": ("Onward",),
    "onward.context": ("JobContext",),
    "onward.errors": (
        "ArgumentError",
        "BackendError",
        "BackendMisconfigured",
        "BackendUnavailable",
        "InvalidName",
        "JobCancelled",
        "JobDiscarded",
        "JobStopped",
        "JobTimeout",
        "OnwardError",
        "OptionError",
        "PayloadTooLarge",
        "ResultTimeout",
        "ResultUnreadable",
        "SchemaTooNew",
    ),
    "onward.handle": ("JobHandle",),
    "onward.job": ("Job",),
    "onward.masking": ("Secret",),
    "onward.record": ("JobRecord",),
    "onward.retry": (
        "Additive",
        "Custom",
        "Equal",
        "Exponential",
        "Fixed",
        "Full",
        "Linear",
        "NoDelay",
        "PlusMinus",
        "RetryPolicy",
    ),
    "onward.runner": ("WorkerResult",),
    "onward.signals": (
        "Discard",
        "Retry",
        "Snooze",
    ),
    "onward.states": ("State",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
