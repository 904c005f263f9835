"""A definition bound to an application: what `@jobs.job` leaves in place of the function.

A `Job` is still the function: calling it calls the function.  The arguments of a call and Onward's options never share a
call: ``send.using(delay="5m").enqueue(to, body)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from onward.backend import Enqueued
from onward.client.client import Client
from onward.client.handle import HandleSource, JobHandle
from onward.client.letters import Sealer, refuse_what_it_lacks
from onward.errors import ArgumentError, DefinitionError, OptionError
from onward.job.context import JobContext
from onward.job.definition import EnqueueOptions, JobDefinition, UsingOptions, define
from onward.job.envelope import Envelope
from onward.job.other_words import METHODS
from onward.job.registry import FunctionEntry

__all__ = ["Call", "Job", "JobDecorator", "bind"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")


# Two options for one thing: given later, each replaces the other; given together, they must agree.
_RIVALS = {"delay": "at", "at": "delay", "max_retries": "max_attempts", "max_attempts": "max_retries"}


class Call(NamedTuple):
    """Arguments for one job of `enqueue_many`, made by `job.call(...)`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Job(Generic[P, Q, R, T]):
    """A function that can also be enqueued.

    ``P`` are the parameters to enqueue with, ``Q`` those of the function itself: they differ by the `JobContext`, which
    the worker fills in and a plain call passes by hand.  ``R`` is what a call returns, ``T`` what the job results in: they
    differ by the coroutine of an async function.
    """

    def __init__(
        self,
        entry: FunctionEntry,
        client: Client,
        handles: HandleSource,
        said: Mapping[str, Any] | None = None,
    ) -> None:
        self._entry = entry
        self._client = client
        self._handles = handles
        self._said = dict(said or {})
        self._options = EnqueueOptions.check(self._said)
        functools.update_wrapper(cast("Any", self), entry.function)

    @property
    def name(self) -> str:
        return self._entry.definition.name

    @property
    def definition(self) -> JobDefinition:
        return self._entry.definition

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> R:
        """Call the function in this thread, without a store."""
        result: R = self._entry.function(*args, **kwargs)
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue one call of the function.  Returns when the job is durable."""
        return self.handle(self._client.enqueue(self.sealed([(args, kwargs)]))[0])

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue one call of the function without blocking the event loop."""
        return self.handle((await self._client.aenqueue(self.sealed([(args, kwargs)])))[0])

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[JobHandle[T]]:
        """Enqueue many calls in one write, all or nothing: tuples of positional arguments, or `job.call(...)`."""
        return [self.handle(answer) for answer in self._client.enqueue(self.sealed_many(calls))]

    async def aenqueue_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[JobHandle[T]]:
        """Enqueue many calls in one write without blocking the event loop."""
        return [self.handle(answer) for answer in await self._client.aenqueue(self.sealed_many(calls))]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Make one call for `enqueue_many`, with keywords if need be."""
        return Call(args, kwargs)

    def using(self, **options: Unpack[UsingOptions]) -> Self:
        """Return the same job with options for what is enqueued through it."""
        replaced = {_RIVALS.get(option) for option in options}
        said = {name: value for name, value in self._said.items() if name not in replaced} | options
        return type(self)(self._entry, self._client, self._handles, said)

    # Called by transactions, which store the sealed jobs themselves

    def sealed_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[Envelope]:
        """Seal what `enqueue_many` stores."""
        return self.sealed(map(_arguments, calls))

    def sealed(self, calls: Iterable[Call | tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Envelope]:
        """Check and seal calls of the function."""
        pack = self._entry.arguments.pack
        return self._seal([pack(args, kwargs) for args, kwargs in calls])

    @functools.cached_property
    def _seal(self) -> Sealer:
        return self._client.letters.sealer(self._entry, self._options)

    def handle(self, answer: Enqueued) -> JobHandle[T]:
        """Return a handle for an answer of the store."""
        return self._handles.handle(answer, returns=self._entry.returns)

    def belongs_to(self, client: Client) -> bool:
        """Return whether this is a job of the application that has this client."""
        return self._client is client

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in METHODS:
                job = self.__dict__.get("__name__", "job")
                raise AttributeError(f"a job has no method {name!r}: write {job}{METHODS[name]}")
            raise AttributeError(f"a job has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Job {self.name} on queue {self._options.queue or self.definition.queue}>"


class JobDecorator(Protocol):
    """Turns a function into a job: the type of `@jobs.job(queue="mail")`."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, T]], /
    ) -> Job[P, Concatenate[JobContext, P], Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], T], /
    ) -> Job[P, Concatenate[JobContext, P], T, T]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Job[P, P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Job[P, P, T, T]: ...


def bind(function: Callable[..., Any], options: Mapping[str, Any], client: Client, handles: HandleSource) -> Any:
    """Register a function as a job; refuse options that its store cannot keep."""
    if not callable(function):
        raise OptionError("@jobs.job decorates a function; options are keywords: @jobs.job(queue='mail')")
    entry = FunctionEntry(define(_name_of(function, options), options), function)
    definition = entry.definition
    refuse_what_it_lacks(
        client.letters.capabilities,
        definition.handler,
        unique_key=definition.unique_key is not None,
        single_instance=definition.single_instance,
        priority=definition.priority != 0,
    )
    client.letters.registry.add(entry)
    return Job(entry, client, handles)


def _name_of(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Return the name of a job that was given none."""
    name = getattr(function, "__name__", None)
    if "name" not in options and (name is None or name == "<lambda>"):
        kind = "a lambda" if name is not None else f"a {type(function).__name__} object"
        raise DefinitionError(f"{kind} has no name for workers to find it by: give it one, jobs.job(name=…)(…)")
    return str(name)


def _arguments(call: Sequence[Any] | Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if type(call) is tuple:  # nearly always
        return call, {}
    if isinstance(call, Call):
        return call.args, call.kwargs
    if isinstance(call, str | bytes) or not isinstance(call, Sequence):
        raise ArgumentError(f"enqueue_many takes tuples of arguments or job.call(...), not {call!r:.60}")
    return tuple(call), {}
