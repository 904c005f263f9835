"""What a handler may know about its run, and the few things it may report while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, overload

import msgspec

from onward.base.credentials import without_credentials
from onward.base.durations import Duration
from onward.base.logs import Once, get_logger
from onward.errors import FlowError, StepError, TransactionError
from onward.job.run_parts import (
    AsyncFlowOfRun,
    Completed,
    FlowOfRun,
    OpenCompletion,
    ReadsResult,
    StepsOfRun,
    TransactionBlock,
)

__all__ = ["AsyncJobContext", "Completed", "JobContext", "OpenCompletion", "StepsOfRun", "TransactionBlock"]

P = ParamSpec("P")
T = TypeVar("T")

logger = get_logger("onward.job")

_warns = Once()


class JobContext:
    """What a handler knows of its run.  The worker passes it to a handler whose first parameter has this type.

    ``delivery`` is the fencing token: it grows with every claim of this job, so a system downstream that remembers the
    highest it has seen can refuse a worker whose lease was lost.
    """

    id: str
    """The job's id."""
    job: str
    """The name under which its handler is registered."""
    name: str
    """Its name for people: the same, unless it was built with `named(...)`."""
    queue: str
    """The queue that it was claimed from."""
    attempt: int
    """Which run this is, counted from 1. A crash does not count."""
    max_retries: int
    """How often it may be retried."""
    meta: dict[str, Any]
    """What was given as `meta`."""
    delivery: int
    """The fencing token: it grows with every claim of this job."""
    deadline: datetime | None
    """When this run is interrupted, if it has a time-out."""
    scheduled_for: datetime | None
    """The tick of its schedule that this run is for; of a late run in place of others, the newest. None without one."""

    __slots__ = (
        "_attend",
        "_began",
        "_cancelled",
        "_flow",
        "_lost",
        "_make_steps",
        "_payload",
        "_report",
        "_scrub",
        "_steps",
        "_transact",
        "alone",
        "attempt",
        "completed",
        "deadline",
        "delivery",
        "id",
        "in_transaction",
        "job",
        "make_flow",
        "max_retries",
        "meta",
        "name",
        "open_completion",
        "queue",
        "scheduled_for",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002  the word users know
        job: str,
        name: str,
        queue: str,
        attempt: int,
        max_retries: int,
        payload: bytes | msgspec.Raw,
        meta: dict[str, Any],
        delivery: int,
        deadline: datetime | None = None,
        report: Callable[[float, str | None], bool] | None = None,
        transact: Callable[[JobContext, Any], TransactionBlock] | None = None,
        scrub: Callable[[], Callable[[str], str]] | None = None,
        steps: Callable[[JobContext], StepsOfRun] | None = None,
    ) -> None:
        self.id = id
        self.job = job
        self.name = name
        self.queue = queue
        self.attempt = attempt
        self.max_retries = max_retries
        self._payload = payload
        self.meta = meta
        self.delivery = delivery
        self.deadline = deadline
        self._report = report
        self._transact = transact
        self._scrub = scrub
        self._make_steps = steps
        self._steps: StepsOfRun | None = None
        self.make_flow: Callable[[JobContext], Any] | None = None  # set by the worker for a member of a flow
        self._flow: Any = None
        self.in_transaction: bool = False
        self._attend: Callable[[int], None] | None = None
        self.scheduled_for = None
        self.alone: bool = False  # whether the job has a process of its own: then that whole process group is ended
        self._began = False
        self.completed: Completed | None = None
        self.open_completion: OpenCompletion | None = None  # until the handler has ended
        self._cancelled = False
        self._lost = False

    @property
    def payload(self) -> Any:
        """The arguments as plain data, by parameter name."""
        return msgspec.json.decode(self._payload)

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now would dead-letter the job."""
        return self.attempt > self.max_retries

    @property
    def cancelled(self) -> bool:
        """Whether this run was asked to stop, or can no longer be settled: clean up and return."""
        return self._cancelled or self._lost

    @property
    def lost(self) -> bool:
        """Whether this run's lease is known to be lost: another worker may be running the job."""
        return self._lost

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Note how far the run has come, between 0 and 1.  Every view of the job shows it.

        This never fails the job: progress that cannot be stored is left out, and the log says why, once for each job name.
        """
        if note is not None and not isinstance(note, str):
            self._refuse_progress("note", f"a note is text, not a {type(note).__name__}: pass str(...) of it")
            note = None
        if (
            self.open_completion is not None
        ):  # whose transaction may have the job's row locked, and is this handler's own
            self._refuse_progress(
                "completion", "a transaction of its own completes the job: report it before the block"
            )
            return
        number = _fraction(fraction)
        if number is None:
            self._refuse_progress("fraction", f"{_shown(fraction)} is no number between 0 and 1: pass done / total")
            return
        try:
            if self._report is not None and not self._report(number, None if note is None else self.scrub(note)):
                self._lost = True
        except Exception as error:  # noqa: BLE001  whatever the store or its driver raises, the job goes on
            self._refuse_progress("report", f"{type(error).__name__}: {_shown(error, str)}")

    def _refuse_progress(self, what: str, problem: str) -> None:
        if _warns(self.job, what):
            told = self.scrub(problem)
            logger.warning("job %s %s reports progress that cannot be noted: %s", self.job, self.id, told)

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function once over all runs of this job: once it has returned and that is noted, later runs get the
        noted result.  A crash between the two calls it again: give the other side ``ctx.key(name)`` to tell.

        The result travels as JSON, like that of a job, and is read as the type that the function says it returns.
        """
        return self._stepping(f"ctx.step({name!r:.60})").step(name, function, args, kwargs)

    def sleep(self, name: str, duration: Duration | None = None) -> None:
        """Go on so much later, in another run: no worker is held meanwhile.  It raises `JobSuspended`; let that pass."""
        self._stepping(f"ctx.sleep({name!r:.60})").sleep(name, duration)

    @overload
    def wait_for(self, name: str, *, timeout: Duration, returns: type[T]) -> T | None: ...
    @overload
    def wait_for(self, name: str, *, timeout: Duration, returns: Any = Any) -> Any: ...
    def wait_for(self, name: str, *, timeout: Duration, returns: Any = Any) -> Any:
        """Return the value that ``jobs.signal(id, name, value)`` brought, in this run or a later one; None if none came in
        time.  It raises `JobSuspended` while it waits; let that pass.
        """
        return self._stepping(f"ctx.wait_for({name!r:.60})").wait_for(name, timeout, returns)

    def key(self, name: str) -> str:
        """Return a text that is the same in every run of this job: an idempotency key for what a step calls."""
        return f"{self.id}/{name}"

    def _stepping(self, call: str) -> StepsOfRun:
        if self.in_transaction or self.open_completion is not None or self.completed is not None:
            raise StepError(
                f"{call} in ctx.transaction(), which completes the job when it ends: put the effect itself into the "
                f"block, and steps before it"
            )
        if self._steps is None:
            if self._make_steps is None:
                raise StepError(f"{call}: there is no store here to note it in, for this context was made by hand")
            self._steps = self._make_steps(self)
        return self._steps

    def left_open(self) -> StepError | None:
        """Return what is wrong with the steps of a run that returned.  Called by the worker."""
        return None if self._steps is None else self._steps.left_open()

    @property
    def flow(self) -> FlowOfRun:
        """The flow of this job: ``ctx.flow.map(resize, pages, node="resize")`` adds jobs to it.

        They go to this job's own node, or to one that comes after it.
        """
        flow: FlowOfRun = self._opened_flow()
        return flow

    def _opened_flow(self) -> Any:
        if self._flow is None:
            if self.make_flow is None:
                raise FlowError(f"job {self.id} belongs to no flow: enqueue it with jobs.flow(...), chain or batch")
            self._flow = self.make_flow(self)
        return self._flow

    @overload
    def result_of(self, node: ReadsResult[T]) -> T: ...
    @overload
    def result_of(self, node: str) -> Any: ...
    def result_of(self, node: Any) -> Any:
        """Return the result of the one job of a node before this one, given by its job, or by the node's name."""
        return self._opened_flow().result_of(node)

    @overload
    def results_of(self, node: ReadsResult[T]) -> Iterator[T]: ...
    @overload
    def results_of(self, node: str) -> Iterator[Any]: ...
    def results_of(self, node: Any) -> Iterator[Any]:
        """Yield the results of all jobs of a node before this one, in the order of ``map``; reads page by page."""
        results: Iterator[Any] = self._opened_flow().results_of(node)
        return results

    def transaction(self, connection: Any = None) -> TransactionBlock:
        """``with ctx.transaction() as conn:`` what is written and enqueued through ``conn`` is committed together with
        the success of this job, when the block ends; or nothing of it is.  ``conn`` is a connection of the store's driver.
        ``conn.enqueue(job, ...)`` enqueues, ``conn.complete(result)`` gives the job's result.  In an async handler it is
        ``async with``, and what talks to the store is awaited.

        With a connection or session of your own to the jobs' database, in a transaction that has begun, the job is completed
        if and only if you commit that transaction: ``with ctx.transaction(session) as tx:``, and commit after the block.
        """
        if self._transact is None:
            raise TransactionError("this context was made by hand: only that of a worker has transactions")
        return self._transact(self, connection)

    def begin_transaction(self) -> None:
        """Mark that a transaction began.  Only its block calls this."""
        if self._began:
            raise TransactionError(
                "this run has already had its transaction: a run is completed once, so put all of it into one block"
            )
        self._began = self.in_transaction = True

    def leave_transaction(self) -> None:
        """Mark that the block has ended.  Called by its block."""
        self.in_transaction = False

    def complete(self, completed: Completed) -> None:
        """Mark the job as completed.  Called when its transaction is known to be committed."""
        self.completed = completed

    def scrub(self, text: str) -> str:
        """Return a text to log or show, without the secrets of this job's arguments."""
        return without_credentials(text) if self._scrub is None else self._scrub()(text)

    def runs_program(self, pid: int) -> None:
        """Report the program that the handler waits for, by the number of its process group; 0: none any more."""
        if self._attend is not None:
            self._attend(pid)

    def attend(self, tell: Callable[[int], None]) -> None:
        """Pass what `runs_program` reports to this function.  The worker calls this: its supervisor kills such programs."""
        self._attend = tell

    def ask_to_stop(self) -> None:
        """Mark the job as cancelled.  Only the worker calls this."""
        self._cancelled = True

    def lose(self) -> None:
        """Mark the lease as lost.  Only the worker calls this."""
        self._lost = True

    def __repr__(self) -> str:
        return f"<JobContext {self.name} {self.id} attempt {self.attempt}>"


class AsyncJobContext(JobContext):
    """The context of an async handler: the same, and its steps, sleeps and waits are awaited."""

    __slots__ = ()

    @overload  # type: ignore[override]  # the same words, in the other colour
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function once over all runs of this job: ``await ctx.step("charge", charge, amount)``."""
        return self._called(f"ctx.step({name!r:.60})", lambda steps: steps.step_async(name, function, args, kwargs))

    def sleep(self, name: str, duration: Duration | None = None) -> Coroutine[Any, Any, None]:  # type: ignore[override]
        """Go on so much later, in another run: ``await ctx.sleep("cool-off", "3d")``."""
        return self._called(f"ctx.sleep({name!r:.60})", lambda steps: steps.sleep_async(name, duration))

    @overload  # type: ignore[override]
    def wait_for(self, name: str, *, timeout: Duration, returns: type[T]) -> Coroutine[Any, Any, T | None]: ...
    @overload
    def wait_for(self, name: str, *, timeout: Duration, returns: Any = Any) -> Coroutine[Any, Any, Any]: ...
    def wait_for(self, name: str, *, timeout: Duration, returns: Any = Any) -> Any:
        """Return the value of a signal, None if none came in time: ``await ctx.wait_for("paid", timeout="7d")``."""
        call = f"ctx.wait_for({name!r:.60})"
        return self._called(call, lambda steps: steps.wait_for_async(name, timeout, returns))

    @property
    def flow(self) -> AsyncFlowOfRun:  # type: ignore[override]
        """The flow of this job: ``await ctx.flow.map(resize, pages, node="resize")``."""
        flow: AsyncFlowOfRun = self._opened_flow()
        return flow

    @overload  # type: ignore[override]
    def result_of(self, node: ReadsResult[T]) -> Coroutine[Any, Any, T]: ...
    @overload
    def result_of(self, node: str) -> Coroutine[Any, Any, Any]: ...
    def result_of(self, node: Any) -> Any:
        """Return the result of the one job of a node before this one: ``await ctx.result_of(fetch)``."""
        return self._opened_flow().result_of(node)

    @overload  # type: ignore[override]
    def results_of(self, node: ReadsResult[T]) -> AsyncIterator[T]: ...
    @overload
    def results_of(self, node: str) -> AsyncIterator[Any]: ...
    def results_of(self, node: Any) -> Any:
        """Yield the results of all jobs of a node before this one: ``async for page in ctx.results_of(resize)``."""
        return self._opened_flow().results_of(node)

    def _called(self, call: str, act: Callable[[StepsOfRun], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
        steps = self._stepping(call)
        steps.pending.add(call)

        async def awaited() -> T:
            steps.pending.discard(call)
            return await act(steps)

        return awaited()


def _fraction(value: Any) -> float | None:
    """Return a number between 0 and 1, whatever its type; None for anything else."""
    if isinstance(value, str | bytes | bytearray):  # which `float` would read
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001  a type of the handler's own may raise anything
        return None
    return number if 0 <= number <= 1 else None


def _shown(value: Any, show: Callable[[Any], str] = repr) -> str:
    try:
        return show(value)
    except Exception:  # noqa: BLE001  a type of the handler's own may raise anything
        return f"a {type(value).__name__}"
