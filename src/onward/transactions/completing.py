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

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Token, copy_context
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

from onward.attempt.attempt import Attempt
from onward.attempt.settle import Settler
from onward.backend import Backend
from onward.base.failure import Failure
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.client.bound_job import Job, JobHandle
from onward.contract.transactions import Completion, Transacts, in_the_way
from onward.errors import BackendError, BackendUnavailable, LeaseLost, TransactionError
from onward.job.context import JobContext
from onward.job.lease import Lease
from onward.job.results import Results
from onward.transactions.joining import Call1, Joins, Letters

__all__ = ["AsyncHandlerTransaction", "Block", "Blocks", "HandlerTransaction", "note_after_completion"]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")

logger = get_logger("onward.job")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_NOT_THE_HANDLERS = ("commit", "rollback", "close")
# Statements that begin or end a transaction.  One that is sent another way is noticed before the commit, but not prevented.
_ENDS_IT = re.compile(
    r"\s*(COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION|ROLLBACK(?!(\s+(WORK|TRANSACTION))?\s+TO\b))\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"\s*ATTACH\b", re.IGNORECASE)  # SQLite commits each attached file by itself


class Blocks:
    """The parts that the transactions of an application's handlers share."""

    def __init__(
        self,
        joins: Joins,
        *,
        at_most: float,
        patience: float,
        results: Results,
        settler: Settler,
    ) -> None:
        self.joins = joins
        self.at_most = at_most  # seconds, where no other connection can write meanwhile
        self.patience = patience  # seconds to find out what became of a commit
        self.results = results
        self.settler = settler

    def open(self, lease: Lease, context: JobContext) -> Block:
        """Make the one block of a run."""
        return Block(self, lease, context)


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
            store.note_after_completion(attempt.lease, protect(attempt.lease, failure), duration_ms=attempt.duration_ms)


class _Handlers:
    """The base of the connections of handlers, sync and async."""

    def __init__(self, completion: Completion, blocks: Blocks, context: JobContext) -> None:
        self._completion = completion
        self._blocks = blocks
        self._context = context
        self.left = False
        self.outcome: tuple[bytes | None, str | None] = (None, None)

    @property
    def connection(self) -> Any:
        """The driver's connection itself, for libraries that need it.  The handler may use it until the block ends."""
        self._refuse_if_left()
        return self._completion.connection

    def complete(self, result: Any = None) -> None:
        """Set the job's result.  The job is completed when the block ends, with or without one."""
        self._refuse_if_left()
        self.outcome = self._blocks.results.encode(self._context.job, result, self._context.scrub)

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

    def __init__(self, completion: Completion, blocks: Blocks, context: JobContext, thread: _Thread) -> None:
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
        self._thread: _Thread  # where an async handler's block is
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
        self._thread = thread = _Thread()
        try:
            completion = await thread.whole(partial(self._store.begin, at_most=self._blocks.at_most), regret=_undo)
        except BaseException:
            thread.end()
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
            self._context.complete(*self._given.outcome)

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
            if not self._has_happened(unanswered):
                raise

    def _has_happened(self, unanswered: BackendUnavailable) -> bool:
        """Ask the store whether the commit happened, until it answers."""
        deadline = time.monotonic() + self._blocks.patience
        pause = _FIRST_PAUSE
        while True:
            try:
                happened = self._store.completed(self._lease)
            except BackendUnavailable:
                if time.monotonic() + pause > deadline:
                    raise
            else:
                logger.warning(
                    "job %s: its commit was not answered (%s); it %s",
                    self._lease.envelope.id,
                    unanswered,
                    "happened" if happened else "did not happen",
                )
                return happened
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class _Thread:
    """The thread in which one block calls the store.

    A thread of its own: those of the event loop are few, and may all wait for the lock that this block has.  And only one:
    no driver takes two calls at once, or a commit in the middle of one.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "onward-transaction")

    async def whole(self, act: Callable[[], T], *, regret: Callable[[T], None] | None = None) -> T:
        """Call a function and wait for its end.  A task cancelled meanwhile ends then; ``regret`` undoes the result."""
        task = self._started(act)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
            except BaseException:  # noqa: BLE001, S110 - raised below
                pass
        if cancelled is None:
            return task.result()
        if task.exception() is None and regret is not None:
            await self._started(partial(regret, task.result()))
        raise cancelled

    def end(self) -> None:
        self._executor.shutdown(wait=False)

    def _started(self, act: Callable[[], T]) -> asyncio.Future[T]:
        # In a copy of the handler's context, as `asyncio.to_thread` does.
        return asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, act)


def _refuse_to_end(how: str) -> NoReturn:
    raise TransactionError(
        f"a handler does not call {how} on its job's transaction: leaving the block commits it, an exception rolls it back"
    )


def _undo(completion: Completion) -> None:
    completion.roll_back()
