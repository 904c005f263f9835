"""A task in a worker: its function, called with what was enqueued, Django's signals and its connections around it.

The hooks are the outermost of the application, so that `task_finished` tells what its other hooks made of a run too.  A
sync task runs in a handler thread, whose connections are kept as Django keeps those of a request.  An async task has a
thread of its own for the ORM (`ThreadSensitiveContext`), whose connections are closed when the task ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any

from onward.app import Onward
from onward.base.failure import describe
from onward.errors import BackendError
from onward.integrations.django.closing import close_old, own_thread_for_sync_code
from onward.integrations.django.results import error_of, local, new_result, result_of
from onward.integrations.django.tasks import rebuilt
from onward.integrations.django.versions import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from onward.integrations.quietly import has_failed
from onward.job.context import JobContext
from onward.job.outcome import is_final

__all__ = ["OnwardTaskContext", "Runs", "handler_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnwardTaskContext(TaskContext):  # type: ignore[misc, unused-ignore]
    """What a task with ``takes_context=True`` gets: Django's context, and the `JobContext` of its run."""

    onward: JobContext


@dataclass(slots=True)
class _Run:
    """One run of a task, and what Django is told of it."""

    ctx: JobContext
    task: Any
    result: Any

    def context(self) -> OnwardTaskContext:
        return OnwardTaskContext(task_result=self.result, onward=self.ctx)

    def returned(self, value: Any) -> Any:
        """Keep what the function returned.  What has no JSON form is an error of the run."""
        try:
            normal = normalize_json(value)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{error}.  The result of {self.task.module_path} travels as JSON: return plain data"
            ) from None
        object.__setattr__(self.result, "_return_value", normal)
        return normal

    def ends(self, status: Any) -> None:
        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", local(datetime.now(UTC)))


_current: ContextVar[_Run] = ContextVar("onward_django_run")


def handler_of(task: Any) -> Callable[..., Any]:
    """Return the handler of a task's job."""
    function, takes_context = task.func, task.takes_context

    def run(args: list[Any], kwargs: dict[str, Any]) -> Any:
        run = _current.get()
        first = (run.context(),) if takes_context else ()
        return run.returned(function(*first, *args, **kwargs))

    async def arun(args: list[Any], kwargs: dict[str, Any]) -> Any:
        run = _current.get()
        first = (run.context(),) if takes_context else ()
        return run.returned(await function(*first, *args, **kwargs))

    return arun if iscoroutinefunction(function) else run


class Runs:
    """The hooks around the runs of one alias."""

    def __init__(self, alias: str, jobs: Onward, find: Callable[[str], Any | None]) -> None:
        self._alias = alias
        self._jobs = jobs
        self._registry = jobs.client.letters.registry
        self._find = find

    def around(self, ctx: JobContext) -> Iterator[None]:
        """Enter a sync run.  An async one has its own hook."""
        entry = self._registry.find(ctx.job)
        if entry is not None and entry.is_async:
            yield
            return
        close_old()
        try:
            run = self._begin(ctx)
            if run is None:
                yield
                return
            task_started.send_robust(self._sender, task_result=run.result)
            try:
                yield
            except BaseException as error:
                if self._fails(run, error):
                    task_finished.send_robust(self._sender, task_result=run.result)
                raise
            run.ends(TaskResultStatus.SUCCESSFUL)
            task_finished.send_robust(self._sender, task_result=run.result)
        finally:
            close_old()

    async def around_async(self, ctx: JobContext) -> AsyncIterator[None]:
        """Enter an async run."""
        async with own_thread_for_sync_code():
            run = self._begin(ctx)
            if run is None:
                yield
                return
            await task_started.asend_robust(self._sender, task_result=run.result)
            try:
                yield
            except BaseException as error:
                if self._fails(run, error):
                    await task_finished.asend_robust(self._sender, task_result=run.result)
                raise
            run.ends(TaskResultStatus.SUCCESSFUL)
            await task_finished.asend_robust(self._sender, task_result=run.result)

    @property
    def _sender(self) -> type:
        return type(task_backends[self._alias])

    def _begin(self, ctx: JobContext) -> _Run | None:
        """Return the run of a task; None for a job that is none."""
        entry = self._registry.find(ctx.job)
        task = None if entry is None else self._find(entry.definition.name)
        if task is None:
            return None
        run = _Run(ctx, task, self._result(ctx, task))
        _current.set(run)
        return run

    def _result(self, ctx: JobContext, task: Any) -> Any:
        # Only the store knows the runs before this one, and only a task with a context can ask for them.
        if task.takes_context:
            try:
                record = self._jobs.get(ctx.id)
            except BackendError:
                record = None
            if record is not None:
                return result_of(task, self._alias, record)
        payload, now = ctx.payload, local(datetime.now(UTC))
        return new_result(
            rebuilt(task, backend=self._alias, queue_name=ctx.queue),
            self._alias,
            payload["args"],
            payload["kwargs"],
            id=ctx.id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=local(_made_at(ctx.id)),
            started_at=now,
            last_attempted_at=now,
            worker_ids=[f"{socket.gethostname()}:{os.getpid()}"] * ctx.attempt,
        )

    def _fails(self, run: _Run, error: BaseException) -> bool:
        """Note the error of a run; return whether the task has failed for good."""
        ctx, entry = run.ctx, self._registry.find(run.ctx.job)
        if entry is None or not has_failed(ctx, error):
            return False
        failure = describe(error, ctx.scrub)
        run.result.errors.append(error_of(failure.kind, failure.traceback))
        if not is_final(error, ctx.attempt, ctx.max_retries, entry.definition):
            return False
        run.ends(TaskResultStatus.FAILED)
        return True


def _made_at(job_id: str) -> datetime:
    """Return the instant that is in the id of a job, to the millisecond."""
    return datetime.fromtimestamp(int(job_id.replace("-", "")[:12], 16) / 1000, UTC)
