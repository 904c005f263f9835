"""Celery's signals: refused where they are imported, each with what to write instead."""

from __future__ import annotations

from typing import Any

from onward.errors import OptionError

__all__: list[str] = []

_INSTEAD = {
    **dict.fromkeys(("task_prerun", "task_postrun"), "wrap the runs of all tasks, @app.jobs.around"),
    **dict.fromkeys(
        ("task_received", "task_sent"),
        "subscribe to the start of runs, app.jobs.on(onward.telemetry.JobStarted, function)",
    ),
    "task_success": "subscribe to app.jobs.on(onward.telemetry.JobCompleted, function)",
    "task_failure": "subscribe to app.jobs.on(onward.telemetry.JobDiscarded, function), and JobFailed for retried runs",
    "task_internal_error": "subscribe to app.jobs.on(onward.telemetry.JobDiscarded, function)",
    "task_retry": "subscribe to app.jobs.on(onward.telemetry.JobFailed, function)",
    "task_revoked": "subscribe to app.jobs.on(onward.telemetry.JobCancelled, function)",
    **dict.fromkeys(
        ("task_rejected", "task_unknown"), "subscribe to app.jobs.on(onward.telemetry.JobParked, function)"
    ),
    "before_task_publish": "add data to every job where it is enqueued, @app.jobs.stamp",
    "after_task_publish": "subscribe to app.jobs.on(onward.telemetry.JobEnqueued, function)",
    **dict.fromkeys(("beat_init", "beat_embedded_init"), "workers book schedules themselves: there is no beat"),
    **dict.fromkeys(
        ("setup_logging", "after_setup_logger", "after_setup_task_logger"),
        "set up logging at the top of the module that `onward worker` imports",
    ),
}
# By the beginnings of their names.
_OF_PROCESSES = {
    ("worker_", "celeryd_"): "open what a process needs where a task first uses it, and keep it in its module",
    ("eventlet_", "heartbeat_"): "there is nothing of the kind; `onward worker list` and `onward top` show the workers",
}


def __getattr__(name: str) -> Any:
    found = (told for starts, told in _OF_PROCESSES.items() if name.startswith(starts))
    instead = _INSTEAD.get(name) or next(found, None)
    if instead is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise OptionError(f"there is no signal {name!r} here: {instead}")
