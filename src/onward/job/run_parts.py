"""What the context of a run is given by the worker: transactions, steps, the flow of its job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar

from onward.base.durations import Duration
from onward.errors import StepError

__all__ = [
    "AsyncFlowOfRun",
    "Completed",
    "FlowOfRun",
    "FlowsOfRuns",
    "OpenCompletion",
    "ReadsResult",
    "StepsOfRun",
    "TransactionBlock",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class TransactionBlock(Protocol):
    """A transaction of a handler, to be entered with ``with`` or ``async with``."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class StepsOfRun(Protocol):
    """The steps of one run (`onward.job.steps.Steps`)."""

    pending: set[str]

    def step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any: ...

    def sleep(self, name: str, duration: Duration | None) -> None: ...

    def wait_for(self, name: str, timeout: Duration, returns: Any) -> Any: ...

    async def step_async(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any: ...

    async def sleep_async(self, name: str, duration: Duration | None) -> None: ...

    async def wait_for_async(self, name: str, longest: Duration, returns: Any) -> Any: ...

    def left_open(self) -> StepError | None: ...


class Completed(NamedTuple):
    """The result of a job that its handler completed in a transaction."""

    result: bytes | None
    note: str | None


class OpenCompletion(Protocol):
    """A success that was written in a transaction of the handler's own connection: it counts if that is committed."""

    def find_out(self) -> Completed | None:
        """Return what the job resulted in if it was committed.  Called when the handler has ended."""
        ...

    async def afind_out(self) -> Completed | None:
        """The same for a connection that is awaited."""
        ...


class ReadsResult(Protocol[T_co]):
    """A job, or a node of a flow: what it results in has a type."""

    @property
    def name(self) -> str: ...

    def read_result(self, encoded: bytes | None) -> T_co: ...


class FlowOfRun(Protocol):
    """The flow of a running job.  ``ctx.flow.add(...)`` and ``map`` add jobs to its own node, and to those behind it."""

    id: str
    node: str
    """The node of this job."""

    def add(self, job: Any, /, *args: Any, node: str | None = None, key: str | None = None) -> Any:
        """Add a call of a job to a node: ``ctx.flow.add(resize, 7, node="resize")``; without one, to this job's own.

        A run that is repeated adds nothing twice: a job is known by its place among those that this job adds to the node,
        or by ``key``, which counts for all jobs that add to the node.
        """
        ...

    def map(self, job: Any, calls: Iterable[Any], /, *, node: str | None = None) -> int:
        """Add many calls of a job, in chunks of 1,000: tuples of arguments, or ``job.call(...)``.  Returns how many."""
        ...

    def result_of(self, node: ReadsResult[T] | str) -> T: ...

    def results_of(self, node: ReadsResult[T] | str) -> Iterator[T]: ...


class FlowsOfRuns(Protocol):
    """The flows of an application, as its runs need them."""

    def grow(self, lease: Any, envelopes: Sequence[Any]) -> list[Any] | None:
        """Add sealed jobs under a lease.  None: it is lost."""
        ...

    def of_run(self, job_id: str, flow: str, node: str, grow: Callable[[Sequence[Any]], list[Any]]) -> FlowOfRun:
        """Return the flow of a running job, which adds jobs by this function."""
        ...

    def of_async_run(
        self, job_id: str, flow: str, node: str, grow: Callable[[Sequence[Any]], list[Any]]
    ) -> AsyncFlowOfRun: ...


class AsyncFlowOfRun(Protocol):
    """The same in an async handler, awaited."""

    id: str
    node: str

    async def add(self, job: Any, /, *args: Any, node: str | None = None, key: str | None = None) -> Any: ...

    async def map(self, job: Any, calls: Iterable[Any], /, *, node: str | None = None) -> int: ...

    async def result_of(self, node: ReadsResult[T] | str) -> T: ...

    def results_of(self, node: ReadsResult[T] | str) -> AsyncIterator[T]: ...
