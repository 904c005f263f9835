"""The application: the API that a program calls.  Every method calls one of the `Parts` that the wiring made."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from onward import handlers as keyed
from onward.backend import Check, Overview, QueueState, Reaped
from onward.base.clock import Clock
from onward.base.durations import Duration
from onward.client.bound_job import Job, JobHandle
from onward.client.builder import Builder
from onward.client.job_decorator import JobDecorator
from onward.client.laning import Lanes
from onward.client.record import JobRecord, SessionRecord
from onward.client.results_of_many import aresults, results
from onward.client.stamps import Stamp
from onward.config import Settings, SettingsOptions, load
from onward.errors import OnwardError
from onward.flow.limits import Limit
from onward.job.context import AsyncJobContext, JobContext
from onward.job.definition import EnqueueOptions, JobOptions, UsingOptions
from onward.job.hooks import AroundHook, Only
from onward.job.states import State
from onward.operate.pruning import Age, Removed
from onward.operate.steering import SteersJobs
from onward.telemetry import Event
from onward.transactions.joining import Joining
from onward.wiring import Parts
from onward.worker.inline import WorkerResult
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.worker import Worker, stop_all

__all__ = ["Onward"]

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=AroundHook)
S = TypeVar("S", bound=Stamp)


class Onward(SteersJobs):
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
        handlers: Mapping[str, keyed.Configured] | None = None,
        queue_handlers: Mapping[str, Sequence[str]] | None = None,
        fair_by: str | None = None,
        queue_limits: Mapping[str, Limit] | None = None,
        **settings: Unpack[SettingsOptions],
    ) -> None:
        self.settings: Settings = load({**settings, **({} if url is None else {"url": url})})
        lanes = Lanes(fair_by, queue_limits)
        self._parts = parts = Parts(self.settings, clock, handlers or {}, queue_handlers, lanes)
        self.backend, self._series = parts.backend, parts.series
        self.metrics, self.telemetry, self._bulk = parts.metrics, parts.telemetry, parts.bulk
        self.client, self.dead_letters, self.schedules = parts.client, parts.dead_letters, parts.schedules
        self._handles, self._inspector, self._runner = parts.handles, parts.inspector, parts.runner
        self._signaller, self._explainer, self.limits = parts.signaller, parts.explainer, parts.limits
        self._auditor = parts.auditor
        self.flow, self.chain, self.batch, self.flows = (flows := parts.flows).flow, flows.chain, flows.batch, flows
        self.schedule, self.check_deploy, self._closed = parts.declarations.declare, parts.gate.check, False
        self.retry_times = parts.retry_times

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
        self._parts.registry.add_hook(hook, only)
        return hook

    def stamp(self, stamp: S, /) -> S:
        """Call a function of the job's name, in the caller's context, for each job enqueued; add the result to its meta."""
        self.client.letters.stamps.add(stamp)
        return stamp

    def define(self, handler: str, payload: Any = None) -> Builder:
        """Build a job for a handler named by key: ``jobs.define("shell", [...]).queue("ops").dispatch()``."""
        return Builder(handler, payload, self.client, self._handles)

    def listen(self, event: str) -> Callable[[F], F]:
        """Call a function for every event of this name that an ``event`` job brings: a decorator."""
        events = keyed.the(keyed.Events, self._parts.handlers, "event")
        return lambda function: events.listen(event, function)

    def command(self, name: str) -> Callable[[F], F]:
        """Let jobs of the ``command`` handler call a function by this name: a decorator."""
        commands = keyed.the(keyed.Commands, self._parts.handlers, "command")
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
        checked = EnqueueOptions.check(options)
        envelopes = [self.client.letters.seal_by_name(job, payload, checked) for payload in payloads]
        return list(map(self._handles.handle, self.client.enqueue(envelopes), envelopes))

    def transaction(self, connection: Any) -> Joining:
        """Join a transaction of the caller's: a job that is enqueued in it exists if and only if it commits.

        ``with jobs.transaction(connection) as tx: tx.enqueue(send_welcome, 42)``; leaving the block commits nothing.  The
        connection is of psycopg, asyncpg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy or Django, to the jobs' own database;
        if it is awaited, so is this: ``async with ...: await tx.enqueue(...)``.
        """
        return Joining(connection, self._parts.joins)

    # Looking and steering

    def handle(self, job_id: str) -> JobHandle[Any]:
        """Return a handle for the job with this id."""
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
        return results(self._parts.inspection, handles, timeout, return_exceptions=return_exceptions)

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
        return await aresults(self._parts.inspection, handles, timeout, return_exceptions=return_exceptions)

    def get(self, job_id: str) -> JobRecord | None:
        """Return everything known about one job, or None."""
        return self._inspector.get(job_id)

    def list(
        self,
        *,
        state: State | str | Sequence[State | str] | None = None,
        queue: str | None = None,
        job: str | None = None,
        limit: int = 100,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Sequence[JobRecord]:
        """Return a page of jobs in the order they were enqueued.  The next page comes ``after`` the last id of this one."""
        return self._inspector.list(
            state=state, queue=queue, job=job, limit=limit, after=after, newest_first=newest_first
        )

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self._inspector.counts(queue)

    def queues(self) -> Sequence[QueueState]:
        """Return every queue that holds live jobs or is paused."""
        return self._inspector.queues()

    def overview(self, at_most: int = 10_000) -> Overview:
        """Return states and queues in a summary, nothing counted beyond ``at_most``: cheap enough for every second."""
        return self._inspector.overview(at_most)

    def sessions(self) -> Sequence[SessionRecord]:
        """Return every worker process, and every program with a worker inside."""
        return self._inspector.sessions()

    def reap(self, queue: str | None = None) -> Sequence[Reaped]:
        """Give back the jobs of workers that died, now: all of them, or those of one queue."""
        return self._inspector.reap(queue)

    def prune(
        self,
        *,
        older_than: Age | None = None,
        completed_before: datetime | None = None,
        queue: str | None = None,
        state: State | str | Sequence[State | str] | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Remove finished jobs that are past their retention; with ``older_than``, instead, completed jobs that ended so
        long ago, or before that instant.  ``completed_before`` says the latter, and of completed jobs only.

        ``queue`` and ``state`` narrow either.  With ``dry_run`` nothing is removed; the number says what would be.
        """
        return self._inspector.prune(
            older_than=older_than, completed_before=completed_before, queue=queue, state=state, dry_run=dry_run
        )

    def health(self, *, store: bool = True) -> Sequence[Check]:
        """Check store and workers: what is not ok names its fix.  ``store=False``: without the own checks of the store."""
        return self._parts.health.checks(store=store)

    # Running

    def process_once(self, queue: str = "default") -> WorkerResult:
        """Claim one job, run one attempt of it, settle it."""
        self._parts.refuse_to_run()
        return self._runner.process_once(queue)

    def drain(self, *queues: str, raising: bool = False) -> int:
        """Run what is due, in all queues unless some are named; never waits.  Returns the number of jobs handled.

        ``raising``: the first attempt that fails is stored as such, and then its exception is raised here: for tests.
        """
        self._parts.refuse_to_run()
        return self._runner.drain(queues or None, raising=raising)

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
        served = self._parts.registry.queues() if queues is None else queues
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
        workers = self._parts.running_workers()
        stop_all(workers)
        self._runner.close()
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
        return list(self._parts.registry)

    def queues_of_jobs(self) -> Sequence[str]:
        """Return the queues of the registered jobs, and ``default``."""
        return self._parts.registry.queues()

    def rescued(self, reaped: Sequence[Reaped]) -> None:
        """Count and tell leases that another process gave back."""
        self._inspector.rescued(reaped)

    def parts(self, *, ticks: bool = True, deployed_at: int | None = None) -> WorkerParts:
        """Return what a worker is made of; ``ticks``: whether it books schedules, as of the start of its deployment."""
        return self._parts.of_worker(ticks=ticks, deployed_at=deployed_at)
