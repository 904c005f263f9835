"""Completing a job in the transaction that its handler works in.

    @jobs.job
    def charge(ctx: JobContext, order: int) -> None:
        with ctx.transaction() as conn:
            conn.execute("UPDATE orders SET paid = true WHERE id = %s", (order,))
            conn.enqueue(send_receipt, order)

The end of the block commits the handler's writes, the jobs it enqueued and the success of its job together, or none of them.
If the lease was lost meanwhile, it commits none: the worker that has the job now will run it.

A commit without an answer may have happened.  Then the block asks the store before it decides: the store waits until the old
session has released the job's row, and then knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

from onward.attempt.attempt import Attempt
from onward.attempt.settle import this_worker
from onward.backend import Backend
from onward.base.failure import Failure
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.client.bound_job import Job, JobHandle
from onward.contract.transactions import Completion, Transacts, in_the_way
from onward.errors import BackendError, BackendUnavailable, LeaseLost, TransactionError
from onward.job.context import Completed, JobContext
from onward.job.lease import Lease
from onward.transactions.blocks import Blocks
from onward.transactions.callers_block import CallersBlock
from onward.transactions.joining import Call1, Letters
from onward.transactions.waiting import OwnThread, has_happened

__all__ = ["AsyncHandlerTransaction", "Block", "HandlerTransaction", "note_after_completion", "open_block"]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")

logger = get_logger("onward.job")

_NOT_THE_HANDLERS = ("commit", "rollback", "close")
# Statements that begin or end a transaction.  One that is sent another way is noticed before the commit, but not prevented.
_ENDS_IT = re.compile(
    r"\s*(COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION|ROLLBACK(?!(\s+(WORK|TRANSACTION))?\s+TO\b))\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"\s*ATTACH\b", re.IGNORECASE)  # SQLite commits each attached file by itself


def open_block(blocks: Blocks, lease: Lease, context: JobContext, connection: Any) -> Block | CallersBlock:
    """Make the one block of a run: on a connection of the store, or on one that the handler has."""
    return Block(blocks, lease, context) if connection is None else CallersBlock(blocks, lease, context, connection)


def note_after_completion(store: Backend, attempt: Attempt, protect: Callable[[Lease, Failure], Failure]) -> None:
    """Record an error that a run raised after its transaction had completed its job, or an interruption that it ignored."""
    failure = attempt.failure or attempt.swallowed
    assert failure is not None
    if attempt.failure is not None:  # an ignored interruption is logged elsewhere
        job_id = attempt.lease.envelope.id
        logger.warning(
            "job %s is completed; after that its handler raised %s: %s", job_id, failure.kind, failure.message
        )
    if isinstance(store, Transacts):
        with suppress(BackendError):  # the error was logged, above
            told, took = protect(attempt.lease, failure), attempt.duration_ms
            store.note_after_completion(attempt.lease, told, duration_ms=took, by=this_worker())


class _Handlers:
    """The base of the connections of handlers, sync and async."""

    def __init__(self, completion: Completion, blocks: Blocks, context: JobContext) -> None:
        self._completion = completion
        self._blocks = blocks
        self._context = context
        self.left = False
        self.outcome = Completed(None, None)

    @property
    def connection(self) -> Any:
        """The driver's connection itself, for libraries that need it.  The handler may use it until the block ends."""
        self._refuse_if_left()
        return self._completion.connection

    def complete(self, result: Any = None) -> None:
        """Set the job's result.  The job is completed when the block ends, with or without one."""
        self._refuse_if_left()
        self.outcome = Completed(*self._blocks.results.encode(self._context.job, result, self._context.scrub))

    def _store(self, letters: Letters[H]) -> H:
        self._refuse_if_left()
        joins = self._blocks.joins
        return joins.stored(letters, self._completion.run(lambda style: joins.store.joining(letters.envelopes, style)))

    def _execute(self, statement: str, *parameters: Any) -> Any:
        if isinstance(statement, str) and (ending := _ENDS_IT.match(statement)):
            _refuse_to_end(ending[1].upper())
        if isinstance(statement, str) and _ELSEWHERE.match(statement):
            raise TransactionError(
                "a write to another file is not part of this job's commit: open a connection of its own for it, "
                "before the block or after it"
            )
        cursor = self.connection.cursor()
        cursor.execute(statement, *parameters)
        return cursor

    def _refuse_if_left(self) -> None:
        """Raise if the block has ended: another handler may have its connection now."""
        if self.left:
            raise TransactionError(
                "the block of this transaction has ended, and its connection with it: do it inside the block, or enqueue "
                "without it"
            )


class HandlerTransaction(_Handlers):
    """The connection of a handler: the driver's own, and the methods for its job."""

    def execute(self, statement: str, parameters: Any = (), /) -> Any:
        """Run a statement.  Returns the driver's cursor."""
        return self._execute(statement, parameters)

    @overload
    def enqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    def enqueue(self, job: str, payload: Any = None, /, **options: Any) -> JobHandle[Any]: ...
    def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a job that exists if and only if this one is completed."""
        return self._store(self._blocks.joins.one(job, args, kwargs))

    def enqueue_many(self, job: Job[..., Any, Any, T], calls: Iterable[Call1]) -> list[JobHandle[T]]:
        """Enqueue many calls of a job together."""
        return self._store(self._blocks.joins.many(job, calls))

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_THE_HANDLERS:
            _refuse_to_end(f"{name}()")
        return getattr(self.connection, name)


class AsyncHandlerTransaction(_Handlers):
    """The connection of an async handler: it calls the store in the block's own thread, one call at a time.

    A task that is cancelled during a call ends when the call has ended: else the next call would read its answer.
    """

    def __init__(self, completion: Completion, blocks: Blocks, context: JobContext, thread: OwnThread) -> None:
        super().__init__(completion, blocks, context)
        self._thread = thread

    async def execute(self, statement: str, parameters: Any = (), /) -> Any:
        """Run a statement.  Returns the driver's cursor, which has the rows."""
        return await self.run(lambda _: self._execute(statement, parameters))

    async def run(self, act: Callable[[Any], T]) -> T:
        """Let a function use the driver's connection, in a thread."""
        self._refuse_if_left()
        return await self._thread.whole(lambda: act(self._completion.connection))

    @overload
    async def enqueue(self, job: Job[P, Any, Any, T], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...
    @overload
    async def enqueue(self, job: str, payload: Any = None, /, **options: Any) -> JobHandle[Any]: ...
    async def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a job that exists if and only if this one is completed."""
        self._refuse_if_left()
        letters = self._blocks.joins.one(job, args, kwargs)
        return await self._thread.whole(lambda: self._store(letters))

    async def enqueue_many(self, job: Job[..., Any, Any, T], calls: Iterable[Call1]) -> list[JobHandle[T]]:
        """Enqueue many calls of a job together."""
        self._refuse_if_left()
        letters = self._blocks.joins.many(job, calls)
        return await self._thread.whole(lambda: self._store(letters))


class Block:
    """``with ctx.transaction() as conn``, or ``async with`` in an async handler."""

    def __init__(self, blocks: Blocks, lease: Lease, context: JobContext) -> None:
        self._blocks = blocks
        self._store = blocks.joins.store
        self._lease = lease
        self._context = context
        self._completion: Completion
        self._given: _Handlers
        self._thread: OwnThread  # where an async handler's block is
        self._outside: Token[object | None] | None = None

    def __enter__(self) -> HandlerTransaction:
        self._context.begin_transaction()
        completion: Completion | None = None
        try:
            with uninterrupted():
                completion = self._store.begin(at_most=self._blocks.at_most)
        except BaseException:
            if (
                completion is not None
            ):  # the handler was interrupted meanwhile: Python calls no `__exit__` for a block that was not entered
                completion.roll_back()
            self._context.leave_transaction()
            raise
        self._given = given = HandlerTransaction(completion, self._blocks, self._context)
        self._begun(completion)
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # From here on the run is not interrupted: it would not know what has become of its job.
        with uninterrupted():
            self._left()
            self._end(failed=error is not None)

    async def __aenter__(self) -> AsyncHandlerTransaction:
        self._context.begin_transaction()
        self._thread = thread = OwnThread()
        try:
            completion = await thread.whole(partial(self._store.begin, at_most=self._blocks.at_most), regret=_undo)
        except BaseException:
            thread.end()
            self._context.leave_transaction()
            raise
        self._given = given = AsyncHandlerTransaction(completion, self._blocks, self._context, thread)
        self._begun(completion)
        return given

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left()
        try:
            await self._thread.whole(partial(self._end, failed=error is not None))
        finally:
            self._thread.end()

    def _begun(self, completion: Completion) -> None:
        self._completion = completion
        if completion.exclusive:
            self._outside = in_the_way.set(self._store)

    def _left(self) -> None:
        self._given.left = True
        self._context.leave_transaction()
        if self._outside is not None:
            in_the_way.reset(self._outside)

    def _end(self, *, failed: bool) -> None:
        try:
            self._completion.check()
            if not failed:
                self._settle()
        except BaseException:
            self._completion.roll_back()
            raise
        if failed:
            self._completion.roll_back()
        else:
            self._commit()
            self._context.complete(self._given.outcome)

    def _settle(self) -> None:
        settled = self._completion.settle(self._blocks.settler.completion(self._lease, *self._given.outcome))
        if not settled.applied:
            self._context.lose()
            raise LeaseLost(
                f"this worker has lost the lease of job {self._lease.envelope.id}: its transaction was rolled "
                f"back, and nothing of it was committed"
            )

    def _commit(self) -> None:
        try:
            self._completion.commit()
        except BackendUnavailable as unanswered:
            self._completion.roll_back()
            if not has_happened(self._store, self._lease, seconds=self._blocks.asked_for, unanswered=unanswered):
                raise


def _refuse_to_end(how: str) -> NoReturn:
    raise TransactionError(
        f"a handler does not call {how} on its job's transaction: leaving the block commits it, an exception rolls it back"
    )


def _undo(completion: Completion) -> None:
    completion.roll_back()
