"""Enqueueing in the caller's own transaction: the job exists if and only if that transaction commits.

    with jobs.transaction(connection) as tx:            async with jobs.transaction(connection) as tx:
        tx.enqueue(send_welcome, 42)                        await tx.enqueue(send_welcome, 42)

Leaving the block commits nothing: the transaction is the caller's.  `enqueue` writes the job at once, so it raises there; no
other connection sees the job before the commit.  There is no event, because Onward does not see the commit; the counter
`jobs_enqueued` moves when the job is written, so a transaction that is rolled back leaves it too high.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

from onward.backend import Backend, Enqueued, StoredJob
from onward.base.clock import until
from onward.base.lazy import asyncio
from onward.client.bound_job import HandleSource, Job, JobHandle
from onward.client.calls import Call
from onward.client.client import Client
from onward.client.flow_builder import FlowBuilder
from onward.client.flow_handle import FlowHandle
from onward.client.record import JobRecord
from onward.contract.transactions import Steps, Style, Transacts, arun_steps, run_steps
from onward.errors import ArgumentError, BackendUnreachable, TransactionError
from onward.job.definition import EnqueueOptions
from onward.job.envelope import Envelope
from onward.transactions.callers import caller_of
from onward.transactions.drivers import AsyncCaller, Caller

__all__ = ["AsyncJoined", "Joined", "Joining", "Joins", "Letters", "explained"]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")

Call1 = Sequence[Any] | Call

_FIRST_LOOK = 5.0  # seconds; on SQLite the caller's own transaction may keep Onward from making the tables

# PostgreSQL, SQLite and MySQL, in this order.
_NOT_HERE = re.compile(r"onward_\S*.* does not exist|no such table: onward_|Table '\S*onward_\S*' doesn't exist")


class Letters(NamedTuple, Generic[H]):
    """Sealed jobs to be stored, and the handles to return to the caller."""

    envelopes: list[Envelope]
    handles: Callable[[Sequence[Enqueued]], H]


class Joins:
    """The parts that the transactions of one application share."""

    def __init__(self, backend: Backend, client: Client, handles: HandleSource) -> None:
        self._backend = backend
        self._client = client
        self._handles = handles
        self.connected: bool = False

    def connect(self) -> None:
        """Make the tables before the first job joins: the caller's connection does not make them."""
        try:
            with until(time.monotonic() + _FIRST_LOOK):
                self._backend.connect()
        except BackendUnreachable as error:
            raise TransactionError(
                f"the jobs' store is used for the first time, and cannot be opened while your transaction waits for it: "
                f"call jobs.connect() before you begin one ({error})"
            ) from error
        self.connected = True

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Tell what observes enqueueing if the jobs are not written."""
        try:
            yield
        except BaseException as error:
            self._client.letters.stamps.unsent(error)
            raise

    def stored(self, letters: Letters[H], answers: Sequence[Enqueued]) -> H:
        """Count the jobs that were stored, and return the handles."""
        self._client.count(letters.envelopes, answers)
        return letters.handles(answers)

    def record(self, stored: StoredJob) -> JobRecord:
        """Open a stored job."""
        return self._handles.records.record(stored)

    @property
    def store(self) -> Transacts:
        if not isinstance(self._backend, Transacts):
            raise TransactionError(
                f"{type(self._backend).__name__} has no transactions that you can join: use a "
                f"sqlite://, postgresql:// or mysql:// store in the database that you write to"
            )
        return self._backend

    def one(self, job: Job[..., Any, Any, T] | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Letters[Any]:
        if not callable(job):  # a name; anything else is refused as one
            envelope = self._by_name(job, *args, **kwargs)
            return Letters([envelope], lambda answers: self._handles.handle(answers[0], envelope))
        found = self._own(job)
        (sealed,) = found.sealed([(args, kwargs)])
        return Letters([sealed], lambda answers: found.handle(answers[0], sealed))

    def _own(self, job: Job[..., Any, Any, T] | Callable[..., T]) -> Job[..., Any, Any, T]:
        """Return a job of this application, given as such or as the function that was made one."""
        if not isinstance(job, Job):
            entry = self._client.letters.registry.of_function(job)
            if entry is None:
                raise ArgumentError(f"{job!r:.80} is no job: make it one with @jobs.job, or enqueue a job by its name")
            return Job(entry, self._client, self._handles)
        if not job.belongs_to(self._client):
            raise ArgumentError(f"{job.name} is a job of another application: use the transaction of that one")
        return job

    def many(self, job: Job[..., Any, Any, T], calls: Iterable[Call1]) -> Letters[list[JobHandle[T]]]:
        sealed = job.sealed_many(calls)
        return Letters(sealed, lambda answers: list(map(job.handle, answers, sealed)))

    def flow(self, flow: FlowBuilder) -> Letters[FlowHandle]:
        if not isinstance(flow, FlowBuilder):
            raise ArgumentError(f"enqueue_flow takes a flow, as jobs.flow(...) builds it, not {flow!r:.60}")
        return Letters(flow.sealed(), lambda _: flow.handle)

    def _by_name(self, job: str, payload: Any = None, **options: Any) -> Envelope:
        return self._client.letters.seal_by_name(job, payload, EnqueueOptions.check(options))


class Joining:
    """A transaction of the caller's, to be joined with ``with``, or with ``async with`` if its driver is async."""

    def __init__(self, connection: Any, joins: Joins) -> None:
        self._joins = joins
        self.caller = caller_of(connection)
        store, dialect = joins.store, self.caller.dialect
        if dialect != store.dialect:
            raise TransactionError(
                f"this is a connection to a {dialect} database, and the jobs are in a {store.dialect} one: a job can "
                f"only join a transaction of the database that it is stored in"
            )
        self._joined: Joined | AsyncJoined | None = None

    def open(self) -> None:
        """Refuse a connection without a transaction, and make the tables."""
        if self.caller.waits:
            raise TransactionError("this connection is awaited: write `async with … as tx`")
        self.caller.check()
        if not self._joins.connected:
            self._joins.connect()

    async def aopen(self) -> None:
        """The same for a connection that is awaited."""
        if not self.caller.waits:
            raise TransactionError("this connection is not awaited: write `with … as tx`, without `async`")
        await self.caller.check()
        if not self._joins.connected:
            await asyncio.to_thread(self._joins.connect)

    def __enter__(self) -> Joined:
        self.open()
        assert not self.caller.waits
        self._joined = joined = Joined(self.caller, self._joins)
        return joined

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    async def __aenter__(self) -> AsyncJoined:
        await self.aopen()
        assert self.caller.waits
        self._joined = joined = AsyncJoined(self.caller, self._joins)
        return joined

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._joined is not None:
            self._joined.left = True


class Joined:
    """The caller's transaction, inside the block."""

    def __init__(self, caller: Caller, joins: Joins) -> None:
        self._caller = caller
        self._joins = joins
        self._recognized = False  # whether this is the database of our jobs
        self.left = False

    @overload
    def enqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    def enqueue(self, job: str, payload: Any = None, /, **options: Any) -> JobHandle[Any]: ...
    def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a call of a job, ``tx.enqueue(send, 42)``, or by name, ``tx.enqueue("send", {"user_id": 42})``."""
        return self._store(self._joins.one(job, args, kwargs))

    def enqueue_many(self, job: Job[..., Any, Any, T], calls: Iterable[Call1]) -> list[JobHandle[T]]:
        """Enqueue many calls of a job together."""
        return self._store(self._joins.many(job, calls))

    def enqueue_flow(self, flow: FlowBuilder) -> FlowHandle:
        """Enqueue a flow with all of its jobs: it exists if and only if the transaction commits."""
        return self._store(self._joins.flow(flow))

    def put(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store jobs that are sealed already, as `Job.sealed` and `LetterWriter` make them."""
        return self._store(Letters(list(envelopes), list))

    def get(self, job_id: str) -> JobRecord | None:
        """Return everything that this transaction knows about a job, also if it was enqueued in it; or None."""
        stored = self._run(lambda store, style: store.showing(job_id, style))
        return None if stored is None else self._joins.record(stored)

    def recognize(self) -> None:
        """Refuse a connection to another database."""
        store, style = self._joins.store, self._caller.style
        if not self._recognized:
            run_steps(store.recognizing(style), self._caller.run)
            self._recognized = True

    def _store(self, letters: Letters[H]) -> H:
        with self._joins.sending():
            stored = self._run(
                lambda store, style: store.joining(letters.envelopes, style) if letters.envelopes else None
            )
        return self._joins.stored(letters, stored or [])

    def _run(self, steps: Callable[[Transacts, Style], Steps[T] | None]) -> T | None:
        _refuse_if_left(left=self.left)
        self._caller.check()  # again: the caller may have ended the transaction
        with explained():
            self.recognize()
            asked = steps(self._joins.store, self._caller.style)
            return None if asked is None else run_steps(asked, self._caller.run)


class AsyncJoined:
    """The caller's transaction, inside the block, on an async connection."""

    def __init__(self, caller: AsyncCaller, joins: Joins) -> None:
        self._caller = caller
        self._joins = joins
        self._recognized = False  # whether this is the database of our jobs
        self.left = False

    @overload
    async def enqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    async def enqueue(self, job: str, payload: Any = None, /, **options: Any) -> JobHandle[Any]: ...
    async def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a call of a job, ``await tx.enqueue(send, 42)``, or by name."""
        return await self._store(self._joins.one(job, args, kwargs))

    async def enqueue_many(self, job: Job[..., Any, Any, T], calls: Iterable[Call1]) -> list[JobHandle[T]]:
        """Enqueue many calls of a job together."""
        return await self._store(self._joins.many(job, calls))

    async def enqueue_flow(self, flow: FlowBuilder) -> FlowHandle:
        """Enqueue a flow with all of its jobs."""
        return await self._store(self._joins.flow(flow))

    async def put(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store jobs that are sealed already."""
        return await self._store(Letters(list(envelopes), list))

    async def get(self, job_id: str) -> JobRecord | None:
        """Return everything that this transaction knows about a job, or None."""
        stored = await self._run(lambda store, style: store.showing(job_id, style))
        return None if stored is None else self._joins.record(stored)

    async def recognize(self) -> None:
        """Refuse a connection to another database."""
        store, style = self._joins.store, self._caller.style
        if not self._recognized:
            await arun_steps(store.recognizing(style), self._caller.run)
            self._recognized = True

    async def _store(self, letters: Letters[H]) -> H:
        with self._joins.sending():
            stored = await self._run(
                lambda store, style: store.joining(letters.envelopes, style) if letters.envelopes else None
            )
        return self._joins.stored(letters, stored or [])

    async def _run(self, steps: Callable[[Transacts, Style], Steps[T] | None]) -> T | None:
        _refuse_if_left(left=self.left)
        await self._caller.check()
        with explained():
            await self.recognize()
            asked = steps(self._joins.store, self._caller.style)
            return None if asked is None else await arun_steps(asked, self._caller.run)


@contextmanager
def explained() -> Iterator[None]:
    """Turn a driver's error that a table is missing into one that names the cause; let all others pass to the caller."""
    try:
        yield
    except Exception as error:
        if _NOT_HERE.search(str(error)):
            raise TransactionError(
                f"this connection's database has no tables of the jobs: pass one to the same database and schema "
                f"({type(error).__name__}: {error})"
            ) from error
        raise


def _refuse_if_left(*, left: bool) -> None:
    if left:
        raise TransactionError("the block of this transaction has ended: enqueue inside it")
