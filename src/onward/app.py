"""The application: the API that a program calls.  Every method calls one of the `Parts` that the wiring made.

What an application is made of is imported when one is made, and what a method needs alone when it is called: so
``from onward import Onward`` takes little time, and a program that only enqueues loads no worker.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from onward.operate.composing import ComposesJobs
from onward.operate.steering import SteersJobs

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from onward.backend import Backend, Reaped
    from onward.base.clock import Clock
    from onward.base.durations import Duration
    from onward.client.bound_job import Job, JobHandle
    from onward.client.builder import Builder
    from onward.client.client import Client
    from onward.client.job_decorator import JobDecorator
    from onward.client.record import JobRecord
    from onward.client.stamps import Stamp
    from onward.config import Settings, SettingsOptions
    from onward.errors import OnwardError
    from onward.flow.limits import Limit
    from onward.handlers import Configured
    from onward.job.context import AsyncJobContext, JobContext
    from onward.job.definition import JobOptions, UsingOptions
    from onward.job.hooks import AroundHook, Only
    from onward.operate.declarations import Declarations
    from onward.operate.deploy.problem import DeployReport
    from onward.operate.flows import FlowControl
    from onward.telemetry import Event, Metrics, Telemetry
    from onward.transactions.joining import Joining
    from onward.wiring.operators import Operators
    from onward.worker.inline import WorkerResult
    from onward.worker.options import WorkerParts
    from onward.worker.worker import Worker

__all__ = ["Onward"]

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound="Event")
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound="AroundHook")
S = TypeVar("S", bound="Stamp")


class Onward(ComposesJobs, SteersJobs):
    """An application: its jobs, its store and its settings.

    Making one reaches no server and creates no file: the first use of the store does, or `connect`.
    Settings not given here come from the environment, then from the configuration file, then from the defaults
    (`onward.config`).
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        clock: Clock | None = None,
        handlers: Mapping[str, Configured] | None = None,
        queue_handlers: Mapping[str, Sequence[str]] | None = None,
        fair_by: str | None = None,
        queue_limits: Mapping[str, Limit] | None = None,
        **settings: Unpack[SettingsOptions],
    ) -> None:
        from onward.client.laning import Lanes
        from onward.config import load
        from onward.wiring.parts import Parts

        self.settings: Settings = load({**settings, **({} if url is None else {"url": url})})
        lanes = Lanes(fair_by, queue_limits)
        self._parts = Parts(self.settings, clock, handlers or {}, queue_handlers, lanes)
        producer = self._parts.producer
        self.backend: Backend = producer.backend
        self.client: Client = producer.client
        self.metrics: Metrics = producer.metrics
        self.telemetry: Telemetry = producer.telemetry
        self.flows: FlowControl = producer.flows
        self._declarations: Declarations = producer.declarations
        self._handles, self._closed = producer.handles, False

    @property
    def _operators(self) -> Operators:
        return self._parts.operators

    def connect(self) -> Self:
        """Reach the store now, check it and bring its tables up to date; without this the first use does.

        For programs that must not start without their store: ``jobs = Onward(url).connect()``.
        """
        self.backend.connect()
        return self

    # Defining and enqueueing

    @overload
    def job(
        self, function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, T]], /
    ) -> Job[P, Concatenate[JobContext, P], Coroutine[Any, Any, T], T]: ...
    @overload
    def job(
        self, function: Callable[Concatenate[AsyncJobContext, P], Coroutine[Any, Any, T]], /
    ) -> Job[P, Concatenate[AsyncJobContext, P], Coroutine[Any, Any, T], T]: ...
    @overload
    def job(self, function: Callable[Concatenate[JobContext, P], T], /) -> Job[P, Concatenate[JobContext, P], T, T]: ...
    @overload
    def job(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Job[P, P, Coroutine[Any, Any, T], T]: ...
    @overload
    def job(self, function: Callable[P, T], /) -> Job[P, P, T, T]: ...
    @overload
    def job(self, function: None = None, /, **options: Unpack[JobOptions]) -> JobDecorator: ...
    def job(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a job: ``@jobs.job`` or ``@jobs.job(queue="mail", max_retries=5)``."""
        make = partial(self._parts.bind, options)
        return make if function is None else make(function)

    @overload
    def around(self, hook: H, /, *, only: Only | None = None) -> H: ...
    @overload
    def around(self, hook: None = None, /, *, only: Only | None = None) -> Callable[[H], H]: ...
    def around(self, hook: Any = None, /, *, only: Only | None = None) -> Any:
        """Enter a generator around every attempt, the first registered outermost; or around async handlers ``only``."""
        if hook is None:
            return lambda hook: self.around(hook, only=only)
        self._parts.producer.registry.add_hook(hook, only)
        return hook

    def stamp(self, stamp: S, /) -> S:
        """Call a function of the job's name, in the caller's context, for each job enqueued; add the result to its meta."""
        self.client.letters.stamps.add(stamp)
        return stamp

    def define(self, handler: str, payload: Any = None) -> Builder:
        """Build a job for a handler named by key: ``jobs.define("shell", [...]).queue("ops").dispatch()``."""
        from onward.client.builder import Builder

        return Builder(handler, payload, self.client, self._handles)

    def listen(self, event: str) -> Callable[[F], F]:
        """Call a function for every event of this name that an ``event`` job brings: a decorator."""
        from onward import handlers

        events = handlers.the(handlers.Events, self._parts.producer.handlers, "event")
        return lambda function: events.listen(event, function)

    def command(self, name: str) -> Callable[[F], F]:
        """Let jobs of the ``command`` handler call a function by this name: a decorator."""
        from onward import handlers

        commands = handlers.the(handlers.Commands, self._parts.producer.handlers, "command")
        return lambda function: commands.register(name, function)

    @overload
    def enqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    def enqueue(self, job: str, /, payload: Any = None, **options: Unpack[UsingOptions]) -> JobHandle[Any]: ...
    def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a call of a job, ``jobs.enqueue(send, 42)``; or by name, for jobs that only another service knows,
        ``jobs.enqueue("send", {"user_id": 42}, delay="5m")``.
        """
        letters = self._parts.joins.one(job, args, kwargs)
        return letters.handles(self.client.enqueue(letters.envelopes))

    @overload
    async def aenqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    async def aenqueue(self, job: str, /, payload: Any = None, **options: Unpack[UsingOptions]) -> JobHandle[Any]: ...
    async def aenqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a call of a job without blocking the event loop."""
        letters = self._parts.joins.one(job, args, kwargs)
        return letters.handles(await self.client.aenqueue(letters.envelopes))

    def enqueue_many(
        self, job: str, payloads: Iterable[Any], **options: Unpack[UsingOptions]
    ) -> Sequence[JobHandle[Any]]:
        """Enqueue many jobs of one name in one write, all or nothing."""
        from onward.job.definition import EnqueueOptions

        checked = EnqueueOptions.check(options)
        envelopes = [self.client.letters.seal_by_name(job, payload, checked) for payload in payloads]
        return list(map(self._handles.handle, self.client.enqueue(envelopes), envelopes))

    def transaction(self, connection: Any) -> Joining:
        """Join a transaction of the caller's: a job that is enqueued in it exists if and only if it commits.

        ``with jobs.transaction(connection) as tx: tx.enqueue(send_welcome, 42)``; leaving the block commits nothing.  The
        connection is of psycopg, asyncpg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy or Django, to the jobs' own database;
        if it is awaited, so is this: ``async with ...: await tx.enqueue(...)``.
        """
        from onward.transactions.joining import Joining

        return Joining(connection, self._parts.joins)

    # Waiting and checking

    def handle(self, job_id: str) -> JobHandle[Any]:
        """Return a handle for the job with this id."""
        from onward.client.bound_job import JobHandle

        return JobHandle(job_id, self._handles)

    @overload
    def results(
        self,
        handles: Sequence[JobHandle[T]],
        timeout: float | None = None,
        *,
        return_exceptions: Literal[False] = False,
    ) -> builtins.list[T]: ...
    @overload
    def results(
        self, handles: Sequence[JobHandle[T]], timeout: float | None = None, *, return_exceptions: bool
    ) -> builtins.list[T | OnwardError]: ...
    def results(
        self, handles: Sequence[JobHandle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
    ) -> builtins.list[Any]:
        """Wait for the end of many jobs and return their results, in the order of the handles.

        The first that is seen to have failed raises as `JobHandle.result` does; with ``return_exceptions`` the exception
        takes the place of its result, `ResultTimeout` that of a job that has not ended in time.
        """
        from onward.client.results_of_many import results

        return results(self._parts.producer.inspection, handles, timeout, return_exceptions=return_exceptions)

    @overload
    async def aresults(
        self,
        handles: Sequence[JobHandle[T]],
        timeout: float | None = None,  # noqa: ASYNC109  the same words as `results`
        *,
        return_exceptions: Literal[False] = False,
    ) -> builtins.list[T]: ...
    @overload
    async def aresults(
        self,
        handles: Sequence[JobHandle[T]],
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        return_exceptions: bool,
    ) -> builtins.list[T | OnwardError]: ...
    async def aresults(
        self,
        handles: Sequence[JobHandle[Any]],
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        return_exceptions: bool = False,
    ) -> builtins.list[Any]:
        """Wait for the results without blocking the event loop."""
        from onward.client.results_of_many import aresults

        return await aresults(self._parts.producer.inspection, handles, timeout, return_exceptions=return_exceptions)

    def check_deploy(
        self,
        *,
        queues: Iterable[str] | None = None,
        elsewhere: Iterable[str] = (),
        sample: int | None = None,
        dead: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> DeployReport:
        """Check every job that waits or runs against this build; claim nothing, run no handler, change nothing.

        ``queues``: those that workers of this build serve, if not those of its jobs; ``elsewhere``: those that another
        application serves, whose jobs are not checked.  ``sample``: only so many of the oldest and newest jobs of each
        name.  ``dead``: the discarded ones, too.  ``progress`` is called with the number of jobs of each page.
        """
        return self._parts.engine.gate.check(
            queues=queues, elsewhere=elsewhere, sample=sample, dead=dead, progress=progress
        )

    def retry_times(self, record: JobRecord) -> Sequence[datetime]:
        """Return the instants of the retries to come, twenty at most; none of a job that is over or is not known here."""
        return self._parts.engine.retry_times(record)

    # Running

    def process_once(self, queue: str = "default") -> WorkerResult:
        """Claim one job, run one attempt of it, settle it."""
        self._parts.producer.refuse_to_run()
        return self._parts.engine.runner.process_once(queue)

    def drain(self, *queues: str, raising: bool = False) -> int:
        """Run what is due, in all queues unless some are named; never waits.  Returns the number of jobs handled.

        ``raising``: the first attempt that fails is stored as such, and then its exception is raised here: for tests.
        """
        self._parts.producer.refuse_to_run()
        return self._parts.engine.runner.drain(queues or None, raising=raising)

    def worker(
        self,
        *,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        concurrency: int = 10,
        per_process: Mapping[str, int] | None = None,
        shutdown_timeout: Duration = 25,
        blocked_loop_after: Duration = 1,
    ) -> Worker:
        """Make a worker on threads of this program: ``with jobs.worker(): ...``, or ``start()`` and ``stop()``.

        ``queues`` in strict order, or with weights: ``{"mail": 3, "tenant.*": 1}``.  ``per_process``: how many of single
        queues it runs at once.  ``blocked_loop_after``: when the log names an async handler that blocks the event loop.
        """
        from onward.worker.options import WorkerOptions

        served = self._parts.producer.registry.queues() if queues is None else queues
        options = WorkerOptions.check(served, concurrency, per_process or {}, shutdown_timeout, blocked_loop_after)
        return self._parts.worker(options)

    # Listening

    @overload
    def on(self, event: type[E], /) -> Callable[[Callable[[E], object]], Callable[[E], object]]: ...
    @overload
    def on(self, event: type[E], subscriber: Callable[[E], object], /) -> Callable[[E], object]: ...
    def on(self, event: type[E], subscriber: Callable[[E], object] | None = None, /) -> Any:
        """Subscribe to a kind of event: ``jobs.on(JobDiscarded, alert)``, or as a decorator."""
        if subscriber is None:
            return lambda subscriber: self.on(event, subscriber)
        self.telemetry.on(event, subscriber)
        return subscriber

    def close(self) -> None:
        """Stop the workers, end this application's session, deliver its events, close its store."""
        if self._closed:
            return
        self._closed = True
        workers = self._parts.stop()
        self.telemetry.close()
        if any(worker.running for worker in workers):  # what they still run must be settled
            threading.Thread(target=self._close_after, args=(workers,), name="onward-closing", daemon=True).start()
        else:
            self._parts.close_store()

    def _close_after(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.wait()
        self._parts.close_store()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # For the supervisor's child process, which runs its worker by itself

    @property
    def names(self) -> Sequence[str]:
        """The names of the jobs that are registered here."""
        return list(self._parts.producer.registry)

    def queues_of_jobs(self) -> Sequence[str]:
        """Return the queues of the registered jobs, and ``default``."""
        return self._parts.producer.registry.queues()

    def rescued(self, reaped: Sequence[Reaped]) -> None:
        """Count and tell leases that another process gave back."""
        self._operators.inspector.rescued(reaped)

    def parts(self, *, ticks: bool = True, deployed_at: int | None = None) -> WorkerParts:
        """Return what a worker is made of; ``ticks``: whether it books schedules, as of the start of its deployment."""
        return self._parts.engine.of_worker(ticks=ticks, deployed_at=deployed_at)
