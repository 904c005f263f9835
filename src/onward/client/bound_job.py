"""A definition bound to an application: what `@jobs.job` leaves in place of the function, and what enqueueing it returns.

A `Job` is still the function: calling it calls the function.  The arguments of a call and Onward's options never share a
call: ``send.using(delay="5m").enqueue(to, body)``.  A `JobHandle` is an enqueued job, from the caller's side.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from math import isnan
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
)

from onward.backend import Enqueued, Inspection, StoredJob
from onward.base.clock import from_micros
from onward.base.lazy import asyncio
from onward.base.wording import BY_REQUEST
from onward.client.calls import NO_KEYWORDS, Call, arguments_of, each_of
from onward.client.client import Client
from onward.client.letters import LetterWriter, Sealer, refuse_what_it_lacks
from onward.client.record import JobRecord, Records
from onward.errors import (
    DecryptionFailed,
    DefinitionError,
    FlowError,
    JobCancelledError,
    JobDiscardedError,
    JobNotFound,
    NoWorker,
    OptionError,
    ResultTimeout,
    ResultUnreadable,
)
from onward.job.arguments import decode_result
from onward.job.definition import EnqueueOptions, JobDefinition, UsingOptions, define
from onward.job.envelope import Envelope, Letter
from onward.job.other_words import METHODS
from onward.job.registry import FunctionEntry
from onward.job.states import State

__all__ = ["HandleSource", "Job", "JobHandle", "bind", "looks"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")

_FIRST_LOOK, _LONGEST_LOOK = 0.002, 0.1

# Two options for one thing: given later, each replaces the other; given together, they must agree.
_RIVALS = {"delay": "at", "at": "delay", "max_retries": "max_attempts", "max_attempts": "max_retries"}


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

    @property
    def options(self) -> EnqueueOptions:
        """The options of `using`, checked."""
        return self._options

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> R:
        """Call the function in this thread, without a store."""
        result: R = self._entry.function(*args, **kwargs)
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue one call of the function.  Returns when the job is durable."""
        sealed = self._seal([self._entry.arguments.pack(args, kwargs)])
        return self.handle(self._client.enqueue(sealed)[0], sealed[0])

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue one call of the function without blocking the event loop."""
        sealed = self.sealed([(args, kwargs)])
        return self.handle((await self._client.aenqueue(sealed))[0], sealed[0])

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[JobHandle[T]]:
        """Enqueue many calls in one write, all or nothing: tuples of positional arguments, or `job.call(...)`."""
        sealed = self.sealed_many(calls)
        return self._handles.of_many(self._client.enqueue(sealed), sealed, self._entry.returns)

    async def aenqueue_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[JobHandle[T]]:
        """Enqueue many calls in one write without blocking the event loop."""
        sealed = self.sealed_many(calls)
        return self._handles.of_many(await self._client.aenqueue(sealed), sealed, self._entry.returns)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Make one call for `enqueue_many`, with keywords if need be, or for a schedule."""
        return Call(args, kwargs, self)

    def members(
        self, calls: Iterable[Sequence[Any] | Call], ids: Sequence[str] | None = None, **into: str
    ) -> list[Envelope]:
        """Seal calls of the function as members of a flow; with these ids, if some are given."""
        if self._options.unique_key is not None or self._entry.unique_key is not None:
            raise FlowError(f"{self.name}: a member of a flow has no unique_key, for another job could stand for it")
        pack = self._entry.arguments.pack
        payloads = [pack(*arguments_of(call)) for call in each_of(calls)]
        return self._client.letters.sealer(self._entry, self._options, into)(payloads, ids)

    def read_result(self, encoded: bytes | None) -> T:
        """Read a result, as it is stored, as the type that the function returns."""
        result: T = decode_result(encoded, self._entry.returns)
        return result

    def using(self, **options: Unpack[UsingOptions]) -> Self:
        """Return the same job with options for what is enqueued through it."""
        replaced = {_RIVALS.get(option) for option in options}
        said = {name: value for name, value in self._said.items() if name not in replaced} | options
        return type(self)(self._entry, self._client, self._handles, said)

    # Called by transactions, which store the sealed jobs themselves

    def sealed_many(self, calls: Iterable[Sequence[Any] | Call]) -> list[Envelope]:
        """Seal what `enqueue_many` stores."""
        pack = self._entry.arguments.pack
        # Nearly every call is a tuple: one more function for each would take a tenth of what sealing takes.
        return self._seal(
            [pack(call, NO_KEYWORDS) if type(call) is tuple else pack(*arguments_of(call)) for call in each_of(calls)]
        )

    def sealed(self, calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Envelope]:
        """Check and seal calls of the function."""
        pack = self._entry.arguments.pack
        return self._seal([pack(args, kwargs) for args, kwargs in calls])

    @functools.cached_property
    def _seal(self) -> Sealer:
        return self._client.letters.sealer(self._entry, self._options)

    def template(self, call: Call) -> tuple[Letter, float | None]:
        """Check a call of the function, and return the letter that a schedule seals for every tick."""
        entry = self._entry
        payload = entry.arguments.pack(call.args, call.kwargs)
        key_of = entry.unique_key if self._options.unique_key is None else None
        return self._client.letters.template(entry.definition, self._options, payload, key_of)

    def handle(self, answer: Enqueued, envelope: Envelope) -> JobHandle[T]:
        """Return a handle for an answer of the store."""
        return self._handles.handle(answer, envelope, returns=self._entry.returns)

    def lend_hooks(self, client: Client) -> None:
        """Let another application, which simulates this job, have the hooks of this one."""
        client.letters.adopt_hooks(self._client.letters)

    def is_written_by(self, letters: LetterWriter) -> bool:
        """Return whether this is a job of the application that has this writer of letters."""
        return self._client.letters is letters

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
        limit=definition.limit is not None,
        breaker=definition.breaker is not None,
    )
    client.letters.lanes.add(definition.name, entry.arguments, definition.limit, definition.breaker)
    client.letters.registry.add(entry)
    return Job(entry, client, handles)


def _name_of(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Return the name of a job that was given none."""
    name = getattr(function, "__name__", None)
    if "name" not in options and (name is None or name == "<lambda>"):
        kind = "a lambda" if name is not None else f"a {type(function).__name__} object"
        raise DefinitionError(f"{kind} has no name for workers to find it by: give it one, jobs.job(name=…)(…)")
    return str(name)


class HandleSource:
    """What handles of one application share."""

    def __init__(
        self,
        backend: Inspection,
        *,
        records: Records,
        cancel: Callable[..., State | None],
        hopeless: Callable[[], bool],
    ) -> None:
        self.backend = backend
        self.records = records
        self.cancel = cancel
        self.hopeless = hopeless  # returns whether no worker could ever finish a job that waits

    def handle(self, answer: Enqueued, envelope: Envelope, *, returns: Any = Any) -> JobHandle[Any]:
        """Return the handle for an answer of the store: of the job that was created, or of the one that stands for it."""
        if answer.created:
            return JobHandle(answer.id, self, returns=returns, enqueued_at=envelope.enqueued_at)
        return JobHandle(answer.existing_id or answer.id, self, created=False, returns=returns)

    def of_many(self, answers: Sequence[Enqueued], envelopes: Sequence[Envelope], returns: Any) -> list[JobHandle[Any]]:
        """Return the handles for the answers of one write."""
        return [
            JobHandle(answer.id, self, returns=returns, enqueued_at=envelope.enqueued_at)
            if answer.created
            else self.handle(answer, envelope, returns=returns)
            for answer, envelope in zip(answers, envelopes, strict=True)
        ]


class JobHandle(Generic[T]):
    """An enqueued job.

    ``created`` is False if another live job with its unique key stands for it: then ``id`` is that one's.
    """

    __slots__ = ("_enqueued_at", "_returns", "_source", "created", "id")

    def __init__(
        self,
        job_id: str,
        source: HandleSource,
        *,
        created: bool = True,
        returns: Any = Any,
        enqueued_at: int | None = None,
    ) -> None:
        self.id: str = job_id
        self.created: bool = created
        self._enqueued_at = enqueued_at
        self._source = source
        self._returns = returns

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued.  The store is asked only if another call enqueued it."""
        return self.record().enqueued_at if self._enqueued_at is None else from_micros(self._enqueued_at)

    def record(self) -> JobRecord:
        """Return everything known about the job now."""
        return self._read(self._source.backend.get(self.id))

    def _read(self, stored: StoredJob | None) -> JobRecord:
        if stored is None:
            raise JobNotFound(
                f"there is no job {self.id}: it was pruned, it is in another store, or the transaction that enqueued it "
                f"is not committed"
            )
        return self._source.records.record(stored, returns=self._returns)

    def state(self) -> State:
        return self.record().state

    def cancel(self, reason: str = BY_REQUEST, *, by: str | None = None) -> State | None:
        """Cancel the job if it waits, ask it to stop if it runs.  None if it has ended already."""
        return self._source.cancel(self.id, reason, by=by)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the job's end and return its result; raise if it was discarded or cancelled."""
        for pause in looks(timeout):
            ended = self.ended(self._source.backend.get(self.id))
            if ended is not None:
                return ended[0]
            time.sleep(pause)
        raise self._too_late(timeout)

    async def aresult(self, timeout: float | None = None) -> T:  # noqa: ASYNC109  the same words as `result`
        """Wait for the result without blocking the event loop."""
        for pause in looks(timeout):
            ended = self.ended(await asyncio.to_thread(self._source.backend.get, self.id))
            if ended is not None:
                return ended[0]
            await asyncio.sleep(pause)
        raise self._too_late(timeout)

    def ended(self, stored: StoredJob | None) -> tuple[T] | None:
        """Return the result of a stored job in a tuple; None while it has not ended; raise if it ended without one."""
        record = self._read(stored)
        if record.is_finished:
            return (self._verdict(record),)
        # An executing job is run by another thread, which will end it.
        if record.state is not State.EXECUTING and self._source.hopeless():
            raise NoWorker(
                f"job {self.id} waits in this process's memory and no worker runs here: call jobs.drain() first"
            )
        return None

    def _verdict(self, record: JobRecord) -> T:
        match record.state:
            case State.COMPLETED:
                if record.withholds_result:  # a caller would take the marker for what the handler returned
                    raise DecryptionFailed(
                        f"the result of job {self.id} is {record.result}: it can be read with that key, and with "
                        f"onward[crypto]"
                    )
                if record.result_error is not None:  # a caller would take None for what the handler returned
                    raise ResultUnreadable(
                        self.id, f"job {self.id} is completed, and its result cannot be read: {record.result_error}"
                    )
                result: T = record.result
                return result
            case State.CANCELLED:
                raise JobCancelledError(self.id, f"job {self.id} was cancelled: {record.reason}", reason=record.reason)
            case State.DISCARDED:
                last = record.errors[-1] if record.errors else None
                told = f"{last.kind}: {last.message}" if last else "no error was recorded"
                raise JobDiscardedError(
                    self.id,
                    f"job {self.id} ({record.name}) was discarded, {record.reason}; last error: {told}",
                    kind=last.kind if last else None,
                    reason=record.reason,
                )
            case _:
                raise ResultUnreadable(self.id, f"job {self.id} has ended, but its row is damaged: {record.damage}")

    def _too_late(self, timeout: float | None) -> ResultTimeout:
        return ResultTimeout(f"job {self.id} did not finish within {timeout:g} s; it goes on: ask again, or cancel it")

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"


def looks(timeout: float | None) -> Generator[float, None, None]:
    """Yield how long to pause after each look: short at first, and never past the deadline without a last look."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and not isnan(timeout)
    if timeout is not None and not is_number:
        raise OptionError(f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r:.60}")
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_LOOK
    while deadline is None or (left := deadline - time.monotonic()) > 0:
        yield pause if deadline is None else min(pause, left)
        pause = min(pause * 1.5, _LONGEST_LOOK)
    yield 0
