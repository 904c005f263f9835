"""Completing a job in a transaction of the handler's own connection, such as the session of an ORM.

    @jobs.job
    def charge(ctx: JobContext, order: int) -> None:
        with Session(engine) as session, session.begin():
            with ctx.transaction(session) as tx:
                session.get(Order, order).paid = True
                tx.enqueue(send_receipt, order)

Leaving the block writes the job's success into the transaction, fenced as every settlement is; the handler, or a hook
around it, commits.  When both have ended, the store is asked whether that happened.  What is still open then is rolled
back: it would keep the job's row locked, and its lease could not be settled in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import Any

from onward.base.interruption import uninterrupted
from onward.base.lazy import asyncio
from onward.contract.transactions import Rows, Statement, in_the_way
from onward.errors import LeaseLost
from onward.job.context import Completed, JobContext
from onward.job.lease import Lease
from onward.transactions.blocks import Blocks
from onward.transactions.drivers import AsyncCaller, Caller
from onward.transactions.joining import AsyncJoined, Joined, Joining, explained
from onward.transactions.waiting import OwnThread, has_happened

__all__ = ["AsyncCallersTransaction", "CallersBlock", "CallersTransaction"]


class _Result:
    """The words that are about the job's own success."""

    left: bool

    def __init__(self, caller: Any, blocks: Blocks, context: JobContext) -> None:
        super().__init__(caller, blocks.joins)  # type: ignore[call-arg]
        self._blocks = blocks
        self._context = context
        self.outcome = Completed(None, None)

    def complete(self, result: Any = None) -> None:
        """Set the job's result.  The job is completed when the transaction is committed, with or without one."""
        self.outcome = Completed(*self._blocks.results.encode(self._context.job, result, self._context.scrub))


class CallersTransaction(_Result, Joined):
    """The transaction of a handler's own connection, inside the block: it enqueues, shows jobs and takes the result."""


class AsyncCallersTransaction(_Result, AsyncJoined):
    """The same for a connection that is awaited."""


class CallersBlock:
    """``with ctx.transaction(connection) as tx``, or ``async with`` if the connection is awaited."""

    def __init__(self, blocks: Blocks, lease: Lease, context: JobContext, connection: Any) -> None:
        self._blocks = blocks
        self._lease = lease
        self._context = context
        self._joining = Joining(connection, blocks.joins)
        self._caller: Caller | AsyncCaller = self._joining.caller
        self._store = blocks.joins.store
        self._given: CallersTransaction | AsyncCallersTransaction
        self._outside: Token[object | None] | None = None

    def __enter__(self) -> CallersTransaction:
        self._context.begin_transaction()
        try:
            self._joining.open()
            self._given = given = CallersTransaction(self._caller, self._blocks, self._context)
            with explained():
                given.recognize()
        except BaseException:
            self._context.leave_transaction()
            raise
        self._begun()
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left()
        if error is None:
            assert not self._caller.waits
            # It is not torn apart: the driver might be left in the middle of a statement.
            with uninterrupted():
                self._caller.check()
                self._settle(self._caller.run)

    async def __aenter__(self) -> AsyncCallersTransaction:
        self._context.begin_transaction()
        try:
            await self._joining.aopen()
            self._given = given = AsyncCallersTransaction(self._caller, self._blocks, self._context)
            with explained():
                await given.recognize()
        except BaseException:
            self._context.leave_transaction()
            raise
        self._begun()
        return given

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left()
        if error is None:
            assert self._caller.waits
            await self._caller.check()
            thread, run = OwnThread(), partial(_in_loop, self._caller, asyncio.get_running_loop())
            try:
                await thread.whole(partial(self._settle, run))
            finally:
                thread.end()

    def find_out(self) -> Completed | None:
        with suppress(Exception):  # a connection that is gone has nothing open
            if self._caller.is_open() and not self._caller.waits:
                self._caller.roll_back()
        return self._found()

    async def afind_out(self) -> Completed | None:
        with suppress(Exception):
            if self._caller.is_open():
                if self._caller.waits:
                    await self._caller.roll_back()
                else:
                    self._caller.roll_back()
        thread = OwnThread()
        try:
            return await thread.whole(self._found)
        finally:
            thread.end()

    def _found(self) -> Completed | None:
        happened = has_happened(self._store, self._lease, seconds=self._blocks.asked_for)
        return self._given.outcome if happened else None

    def _begun(self) -> None:
        if self._store.exclusive:
            self._outside = in_the_way.set(self._store)

    def _left(self) -> None:
        self._given.left = True
        self._context.leave_transaction()
        if self._outside is not None:
            in_the_way.reset(self._outside)

    def _settle(self, run: Callable[[Statement], Rows]) -> None:
        self._context.open_completion = self  # before it is sent: whatever is raised now, the store knows
        item = self._blocks.settler.completion(self._lease, *self._given.outcome)
        with explained():
            settled = self._store.settle_in(item, self._caller.style, run)
        if not settled.applied:
            self._context.lose()
            raise LeaseLost(
                f"job {self._lease.envelope.id} is no longer this worker's: roll this transaction back, as an exception "
                f"that leaves its block does; the worker that has the job now will do it"
            )


def _in_loop(caller: AsyncCaller, loop: asyncio.AbstractEventLoop, statement: Statement) -> Rows:
    """Run a statement on the event loop, for a thread that waits for its rows."""
    return asyncio.run_coroutine_threadsafe(_awaited(caller, statement), loop).result()


async def _awaited(caller: AsyncCaller, statement: Statement) -> Rows:
    return await caller.run(statement)
