"""A job as Django shows it: a `TaskResult`."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from onward.client.record import JobRecord, RunError
from onward.integrations.django.tasks import rebuilt
from onward.integrations.django.versions import TaskError, TaskResult, TaskResultStatus
from onward.job.states import State

__all__ = ["error_of", "local", "new_result", "result_of"]

_STATUS = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.AVAILABLE: TaskResultStatus.READY,
    State.RETRYABLE: TaskResultStatus.READY,
    State.EXECUTING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.DISCARDED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
_ENDED_BY = {State.CANCELLED: "onward.errors.JobCancelledError", State.DISCARDED: "onward.errors.JobDiscardedError"}


def new_result(task: Any, alias: str, args: Any, kwargs: Any, **known: Any) -> Any:
    """Make the result of a call that is about to be enqueued, or that runs.  Raises for what has no JSON form."""
    fields: dict[str, Any] = {
        "id": "",
        "status": TaskResultStatus.READY,
        "enqueued_at": None,
        "started_at": None,
        "finished_at": None,
        "last_attempted_at": None,
        "errors": [],
        "worker_ids": [],
        **known,
    }
    try:
        return TaskResult(task=task, args=args, kwargs=kwargs, backend=alias, **fields)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{error}.  The arguments of {task.module_path} travel as JSON: pass text, numbers, lists and dicts; of a model "
            f"its primary key, of a date its isoformat()"
        ) from None


def result_of(task: Any, alias: str, record: JobRecord) -> Any:
    """Make the result of a job from what the store knows of it."""
    payload = record.reveal()
    payload = payload if isinstance(payload, dict) else {}
    made = new_result(
        rebuilt(
            task, backend=alias, priority=record.priority, queue_name=record.queue, run_after=local(record.not_before)
        ),
        alias,
        payload.get("args") or [],
        payload.get("kwargs") or {},
        id=record.id,
        status=_STATUS[record.state],
        enqueued_at=local(record.enqueued_at),
        started_at=local(_first_start(record)),
        finished_at=local(record.finished_at),
        last_attempted_at=local(record.started_at),
        errors=_errors(record),
        worker_ids=_worker_ids(record),
    )
    object.__setattr__(made, "_return_value", record.result)
    return made


def local(instant: datetime | None) -> datetime | None:
    """Return an instant as Django's settings have it: aware, or naive in the default zone."""
    return instant if instant is None or settings.USE_TZ else timezone.make_naive(instant)


def _first_start(record: JobRecord) -> datetime | None:
    if not record.errors or record.started_at is None:
        return record.started_at
    first = record.errors[0]
    return min(record.started_at, first.at - timedelta(milliseconds=first.duration_ms))


def _worker_ids(record: JobRecord) -> list[str]:
    """Return who ran each run: those that failed, and the one that runs or has succeeded."""
    ran = [error.owner or "unknown" for error in record.errors]
    if record.state in (State.EXECUTING, State.COMPLETED) and record.started_at is not None:
        ran.append(record.owner or "unknown")
    return ran


def _errors(record: JobRecord) -> list[Any]:
    errors = [_error(error) for error in record.errors]
    if not errors and record.state in _ENDED_BY:  # it ended without a run
        errors = [TaskError(exception_class_path=_ENDED_BY[record.state], traceback=record.reason or "")]
    return errors


def _error(error: RunError) -> Any:
    return error_of(error.kind, error.traceback or error.message)


def error_of(kind: str, traceback: str) -> Any:
    """Make an error from the name of its class: a crash has none, and is Onward's."""
    if "." in kind:
        return TaskError(exception_class_path=kind, traceback=traceback)
    path = f"builtins.{kind}" if hasattr(builtins, kind) else "onward.errors.JobDiscardedError"
    return TaskError(exception_class_path=path, traceback=traceback)
