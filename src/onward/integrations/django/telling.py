"""Tasks that end without a run that could tell: a crash, an expiry, a cancellation.  `task_finished` is sent once for each.

The signal is sent by the thread of Onward's events, in the process that saw the end: a worker that gave back the jobs of a
dead one, or the program that cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onward.app import Onward
from onward.errors import JobCancelledError, JobDiscardedError, JobEnded
from onward.integrations.django.closing import close_old
from onward.integrations.django.results import result_of
from onward.integrations.django.versions import task_backends, task_finished
from onward.integrations.quietly import quietly
from onward.telemetry import JobCancelled, JobDiscarded, JobEvent

__all__ = ["tell_of_ends"]


def tell_of_ends(alias: str, jobs: Onward, find: Callable[[str], Any | None]) -> None:
    """Send `task_finished` for tasks of this alias that are discarded or cancelled without a run of their own."""
    tell = partial(_tell_quietly, alias, jobs, find)
    jobs.on(JobDiscarded, lambda event: None if _ran(event) else tell(event))
    jobs.on(JobCancelled, tell)


def _ran(event: JobDiscarded) -> bool:
    """Return whether the job ended with a run, whose hook has told."""
    return event.attempt > 0 and event.kind != "Crash"


def _tell_quietly(alias: str, jobs: Onward, find: Callable[[str], Any | None], event: JobEvent) -> None:
    quietly(_tell, alias, jobs, find, event)


def _tell(alias: str, jobs: Onward, find: Callable[[str], Any | None], event: JobEvent) -> None:
    task = find(event.job)
    record = None if task is None else jobs.get(event.id)
    if task is None or record is None or record.meta.get("django") != alias:
        return
    kind = JobCancelledError if isinstance(event, JobCancelled) else JobDiscardedError
    try:
        raise kind(event.id, record.reason or "it ended without a run", reason=record.reason)
    except JobEnded:  # Django's own receiver logs the error that is being handled
        task_finished.send_robust(type(task_backends[alias]), task_result=result_of(task, alias, record))
    finally:
        close_old()
