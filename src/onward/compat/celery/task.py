"""A task: the function, Celery's ways to call and enqueue it, and how a worker runs it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast

from onward.compat.celery import feeding
from onward.compat.celery.canvas import Signature
from onward.compat.celery.current import CURRENT
from onward.compat.celery.exceptions import Ignore, MaxRetriesExceededError
from onward.compat.celery.options import aware, check_call, check_task
from onward.compat.celery.plain import plain
from onward.compat.celery.protocols import OfApplication
from onward.compat.celery.result import AsyncResult as Result
from onward.errors import ArgumentError, BackendUnavailable, OptionError
from onward.job.context import AsyncJobContext, JobContext
from onward.job.secrets import is_telling, place
from onward.job.signals import Discard, Retry

__all__ = ["TAKES_PAYLOAD", "Task", "TaskRequest", "handler_of", "secret_places"]

TAKES_PAYLOAD = "onward_celery_payload"  # marks handlers whose arguments are those of a task, in a list and a table

_context: ContextVar[JobContext | None] = ContextVar("onward_celery_context", default=None)
_args: ContextVar[Sequence[Any]] = ContextVar("onward_celery_args", default=())  # of the run, what it is fed among them

_NOT_HERE = {
    "apply": "call the task, or set app.conf.task_always_eager = True in tests",
    "map": "use group(task.s(item) for item in items)",
    "starmap": "use group(task.s(*items) for items in rows)",
    "chunks": "use group(task.s(part) for part in parts)",
    "update_state": "report progress, self.onward.progress(0.5, 'half'): every view of the job shows it",
    "replace": "let the task enqueue the other one, or return what it would return",
    "add_to_chord": "add to the flow, self.onward.flow.add(…)",
    "delay_on_commit": "enqueue in the transaction: with app.jobs.transaction(connection) as tx: tx.enqueue(…)",
    "apply_async_on_commit": "enqueue in the transaction: with app.jobs.transaction(connection) as tx: tx.enqueue(…)",
    "send_event": "subscribe to events, app.jobs.on(…)",
    "backend": "ask AsyncResult(id)",
    **dict.fromkeys(
        ("on_failure", "on_success", "on_retry", "after_return", "before_start"),
        "subscribe to events, app.jobs.on(onward.telemetry.JobDiscarded, function), or wrap runs, @app.jobs.around",
    ),
}
_NOT_IN_REQUEST = {
    "hostname": "self.app.onward.get(self.request.id).owner",
    "task": "self.name",
    "headers": "self.onward.meta",
    "eta": "self.app.onward.get(self.request.id).not_before",
    "timelimit": "self.onward.deadline",
    "is_eager": "self.request.called_directly",
    **dict.fromkeys(("root_id", "parent_id", "group", "group_index", "chain", "chord"), "self.onward.flow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """What a task knows of its run: ``self.request``."""

    id: str | None = None
    retries: int = 0
    called_directly: bool = True
    delivery_info: dict[str, Any] = field(default_factory=dict)
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, ctx: JobContext | None) -> TaskRequest:
        if ctx is None:
            return cls()
        return cls(
            id=ctx.id,
            retries=ctx.attempt - 1,
            called_directly=False,
            delivery_info={"routing_key": ctx.queue, "redelivered": ctx.delivery > ctx.attempt},
            args=_args.get(),
            kwargs=ctx.payload.get("kwargs", {}),
        )

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _NOT_IN_REQUEST:
                raise OptionError(f"self.request has no {name!r} here: write {_NOT_IN_REQUEST[name]}")
            raise AttributeError(f"self.request has no attribute {name!r} here: self.onward is the context of the run")


class Task:
    """A function that can also be enqueued, in Celery's words.  ``app.task`` and ``shared_task`` make it."""

    MaxRetriesExceededError = MaxRetriesExceededError
    OperationalError = BackendUnavailable

    def __init__(
        self, function: Callable[..., Any], name: str, said: Mapping[str, Any], app: OfApplication | None
    ) -> None:
        check_task(name, said)
        self.name = name
        self.said = dict(said)
        self.function = function
        self._app = app
        self._binds = bool(said.get("bind"))
        self._signature = _without_self(function, name) if self._binds else inspect.signature(function)
        functools.update_wrapper(cast("Any", self), function)

    def __init_subclass__(cls) -> None:
        raise OptionError(
            f"{cls.__name__} is a class of tasks, which has no meaning here: wrap the runs of all tasks with "
            f"@app.jobs.around, and subscribe to their ends with app.jobs.on(…)"
        )

    @property
    def app(self) -> OfApplication:
        return self._app or CURRENT.app

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that a call fills."""
        return list(self._signature.parameters)

    @property
    def max_retries(self) -> int | None:
        given: int | None = self.said.get("max_retries", 3)
        return given

    @property
    def default_retry_delay(self) -> float:
        return float(self.said.get("default_retry_delay", 180))

    @property
    def ignore_result(self) -> bool:
        return bool(self.said.get("ignore_result", self.app.conf.task_ignore_result))

    @property
    def request(self) -> TaskRequest:
        """What is known of the run; of a plain call, that it is one."""
        return TaskRequest.of(_context.get())

    @property
    def onward(self) -> JobContext:
        """The context of the run, in Onward's words: progress, steps, deadline, cancelled."""
        ctx = _context.get()
        if ctx is None:
            raise ArgumentError(f"{self.name} was called, and no worker runs it: there is no context")
        return ctx

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, in this thread and without a store."""
        token = _context.set(None)
        try:
            return self.call(args, kwargs)
        finally:
            _context.reset(token)

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function, with the task as its first argument if it is bound."""
        return self.function(self, *args, **kwargs) if self._binds else self.function(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as a part of the run that calls this."""
        return self.call(args, kwargs)

    def AsyncResult(self, id: str) -> Result:  # noqa: A002, N802  Celery's words
        """Return the result of a call, by its id."""
        return Result(id, app=self.app)

    def delay(self, *args: Any, **kwargs: Any) -> Result:
        """Enqueue a call."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Result:
        """Enqueue a call with options of Celery's."""
        check_call(self.name, options)
        given, named = self.checked(args, kwargs)
        handle = self.app.using(self, options).enqueue(given, named)
        return Result(handle.id, app=self.app)

    def checked(
        self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, *, fed: bool = False
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments as they travel; raise if the function cannot be called with them.

        ``fed``: the result of another task will stand before them.  None travels in its place, so that each argument stands
        where `secret_places` says.
        """
        if isinstance(args, str | bytes) or not isinstance(args or (), Sequence):
            raise ArgumentError(f"{self.name}: args is a tuple or a list of arguments, (7,), not {args!r:.60}")
        if not isinstance(kwargs or {}, Mapping):
            raise ArgumentError(f"{self.name}: kwargs is a table of arguments, {{'to': 'ann'}}, not {kwargs!r:.60}")
        given = [*((None,) if fed else ()), *plain(list(args or ()), self.name)]
        named = plain(dict(kwargs or {}), self.name)
        if self.said.get("typing", True):
            try:
                self._signature.bind(*given, **named)
            except TypeError as error:
                raise ArgumentError(f"{self.name}: {error}") from None
        return given, named

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        *,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> NoReturn:
        """End this run, and run the task again later; raise ``exc`` if it has been retried often enough."""
        cause = exc or sys.exc_info()[1]
        ctx = _context.get()
        if ctx is None:
            raise cause or Retry(self.default_retry_delay)
        if args is not None or kwargs is not None or options or not throw:
            raise OptionError(
                f"{self.name}: retry takes exc, countdown, eta and max_retries here: a retry is the same job, with the same "
                f"arguments and options"
            ) from cause
        if max_retries is not None and max_retries > ctx.max_retries:
            raise OptionError(
                f"{self.name}: retry(max_retries={max_retries}) is more than the {ctx.max_retries} of the task: declare it, "
                f"@app.task(max_retries={max_retries})"
            ) from cause
        if ctx.attempt > (ctx.max_retries if max_retries is None else max_retries):
            if exc is not None:
                raise exc
            raise MaxRetriesExceededError(f"{self.name}: retried {ctx.attempt - 1} times") from cause
        raise Retry(self._wait(eta, countdown)) from cause

    def _wait(self, eta: datetime | None, countdown: float | None) -> float:
        if eta is not None:
            left: float = (aware(eta, self.app.conf.zone) - datetime.now(UTC)).total_seconds()
            return max(0.0, left)
        return self.default_retry_delay if countdown is None else max(0.0, countdown)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call to put into a chain, a group or a chord."""
        return Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call that takes no result of the task before it."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Signature:
        """Return a call with options."""
        return Signature(self, args, kwargs or {}, immutable=options.pop("immutable", False), options=options)

    subtask = signature

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _NOT_HERE:
                raise OptionError(f"a task has no {name!r} here: {_NOT_HERE[name]}")
            raise AttributeError(f"a task has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


def handler_of(task: Task) -> Callable[..., Any]:
    """Return the handler of a task's job: it takes what travels, and the results of tasks before it in a flow."""

    def run(ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        feed = ctx.meta.get(feeding.KEY)
        found = {node: list(ctx.results_of(node)) for node in feeding.nodes_of(feed)}
        with _running(ctx, feeding.filled(args, feed, found)) as filled:
            return _returned(task, ctx, task.call(filled, kwargs))

    async def arun(ctx: AsyncJobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        feed = ctx.meta.get(feeding.KEY)
        found = {node: [each async for each in ctx.results_of(node)] for node in feeding.nodes_of(feed)}
        with _running(ctx, feeding.filled(args, feed, found)) as filled:
            return _returned(task, ctx, await task.call(filled, kwargs))

    handler: Any = arun if inspect.iscoroutinefunction(task.function) else run
    setattr(handler, TAKES_PAYLOAD, True)
    return cast("Callable[..., Any]", handler)


@contextmanager
def _running(ctx: JobContext, args: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Make a run known to what its task reads of it; to raise `Ignore` ends it without a result."""
    tokens = _context.set(ctx), _args.set(args)
    try:
        yield args
    except Ignore:
        pass
    finally:
        _context.reset(tokens[0])
        _args.reset(tokens[1])


def _returned(task: Task, ctx: JobContext, value: Any) -> Any:
    """Return the result as it is stored.  What has no JSON form ends the job, as with Celery: a retry would not help."""
    if task.ignore_result and feeding.IN_FLOW not in ctx.meta:
        return None
    try:
        return plain(value, f"the result of {task.name}")
    except ArgumentError as error:
        raise Discard(str(error)) from None


def secret_places(task: Task) -> list[str]:
    """Return where in the payload of a task arguments are that no page and no log shows, by their names."""
    telling = [(number, name) for number, name in enumerate(task.parameters) if is_telling(name)]
    return [place(each) for number, name in telling for each in (["args", str(number)], ["kwargs", name])]


def _without_self(function: Callable[..., Any], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters:
        raise OptionError(
            f"task {name}: bind=True gives the task as the first argument: write def {function.__name__}(self)"
        )
    return signature.replace(parameters=parameters[1:])
