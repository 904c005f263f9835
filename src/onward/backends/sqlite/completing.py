"""A transaction in which a handler works and its job is completed.

It takes the write lock as it begins, for one that begins by reading fails as soon as another connection has written.  No
other process writes until it ends: it may take a few seconds, then it is rolled back.  A thread cannot be stopped from
outside, but its connection can be: a statement that runs is interrupted, and as soon as no call is in the connection, which
the lock of `HandlerConnection` tells, the timer's thread rolls back.  From then on every call is refused.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from onward.backends.sqlite import settling
from onward.backends.sqlite.connection import Connections
from onward.backends.sqlite.handler_connection import HandlerConnection
from onward.backends.sqlite.joining import foreign
from onward.backends.sqlite.transaction import Parameters, Row, Transaction
from onward.base.clock import Clock
from onward.base.interruption import uninterrupted
from onward.contract.transactions import Rows, Statement, Steps, Style, run_steps
from onward.errors import TransactionError, TransactionTooLong
from onward.job.settlement import Settled, Settlement, under

__all__ = ["CallersConnection", "SqliteCompletion", "settle_fenced"]

T = TypeVar("T")

_BETWEEN_INTERRUPTIONS = 0.05  # one that meets no statement, because the next is about to begin, has no effect


class SqliteCompletion:
    """One open transaction."""

    exclusive = True

    def __init__(
        self,
        connections: Connections,
        sql: Mapping[str, str],
        *,
        clock: Clock,
        at_most: float,
        wake: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._sql = sql
        self._clock = clock
        self._at_most = at_most
        self._wake = wake
        self._over = False
        self._deciding = threading.Lock()  # whether it is late or about to be committed: whichever comes first
        self._late = False
        self._settling = False
        self._may_end = False  # whether a statement that ends the transaction is ours
        self._wakes = False
        self.connection = connections.for_handler(HandlerConnection)
        self._lock = self.connection.lock
        sqlite3.Connection.set_authorizer(self.connection, self._allow)
        # Should a statement roll it back (ON CONFLICT ROLLBACK), the next write would be committed at once.  So the driver
        # is to begin another transaction for it, which is not allowed.
        self.connection.isolation_level = "IMMEDIATE"
        self.connection.check = self.check
        self._timer = threading.Timer(at_most, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        self.check()
        self._refuse_if_ended()
        with self._as_we_know_it():
            return run_steps(steps("qmark"), self._execute)

    def settle(self, settlement: Settlement) -> Settled:
        with uninterrupted(), self._lock, self._connections.translated(), self._as_we_know_it():
            with self._deciding:
                self.check()
                self._settling = True
            self._refuse_if_ended()
            self._timer.cancel()
            tx = Transaction(self.connection, self._sql, self._clock.micros())
            settled = settle_fenced(tx, settlement)
            self._wakes = tx.wakes
            return settled

    def commit(self) -> None:
        with uninterrupted(), self._lock:
            try:
                with self._connections.translated():
                    self.check()
                    self._may_end = True
                    self.connection.execute("COMMIT")
            finally:
                self._end()
        self._wake()

    def roll_back(self) -> None:
        with uninterrupted(), self._lock:
            if not self._over:
                self._undo()
                self._end()

    def _execute(self, statement: Statement) -> Rows:
        cursor = self.connection.execute(statement.sql, statement.values)
        rows: Rows = cursor.fetchall()
        return rows

    def _expire(self) -> None:
        with self._deciding:
            if self._settling:
                return
            self._late = True
        pause = 0.0
        while not self._lock.acquire(timeout=pause):
            with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
                self.connection.interrupt()
            pause = _BETWEEN_INTERRUPTIONS
        try:
            if not self._over:
                self._undo()
        finally:
            self._lock.release()

    def _undo(self) -> None:
        self._may_end = True
        try:
            self.connection.undo()
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                self.connection.end()  # which rolls back, too
        finally:
            self._may_end = False

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        with contextlib.suppress(sqlite3.Error):
            self.connection.end()

    def check(self) -> None:
        if self._late:
            raise TransactionTooLong(
                f"the transaction was open for {self._at_most:g} s and rolled back: it kept all other processes from "
                f"writing; do slow work before the block, or raise transaction_timeout"
            )

    def _refuse_if_ended(self) -> None:
        if not self.connection.in_transaction:
            raise TransactionError(
                "a statement in the block failed and rolled everything back (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), or a "
                "full disk), and the block went on: nothing of it was committed; let that error leave the block"
            )

    @contextlib.contextmanager
    def _as_we_know_it(self) -> Iterator[None]:
        """Let rows be tuples and text be str, whatever the handler has set."""
        connection = self.connection
        told = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = None, str
        try:
            yield
        finally:
            connection.row_factory, connection.text_factory = told

    def _allow(self, action: int, what: str | None, *_: object) -> int:
        """A handler may set savepoints; BEGIN, COMMIT and ROLLBACK are ours.

        Each file of a connection is committed by itself, so there is only one.
        """
        ends = action == sqlite3.SQLITE_TRANSACTION and not self._may_end
        return sqlite3.SQLITE_DENY if ends or action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def settle_fenced(tx: Transaction, settlement: Settlement) -> Settled:
    """Settle under the owner that the lease has now: an adoption may have changed it."""
    lease = settlement.lease
    found = tx.row("lease_owner", (lease.envelope.id, lease.token))
    if found is None:
        return settling.classify(tx, settlement)
    (owner,) = found
    items = [under(settlement, owner)]
    (settled,) = settling.settle(tx, owner, items, any_asked=False, any_keyed=True, one_by_one=True)
    return settled


class CallersConnection:
    """The connection of a caller as `Transaction` uses one, whatever its driver is."""

    in_transaction = True  # else nothing is run on it

    def __init__(self, run: Callable[[Statement], Rows], style: Style) -> None:
        self._run = run
        self._style = style

    def execute(self, sql: str, parameters: Parameters = ()) -> _CallersCursor:
        values = parameters if isinstance(parameters, Mapping) else tuple(parameters)
        return _CallersCursor(self._run, self._run(foreign(sql, values, self._style)))

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> _CallersCursor:
        return _CallersCursor(self._run, (), sum(self.execute(sql, row).rowcount for row in rows))


class _CallersCursor:
    """What a caller's driver has read."""

    def __init__(self, run: Callable[[Statement], Rows], rows: Rows, rowcount: int | None = None) -> None:
        self._run = run
        self._rows = [tuple(row) for row in rows]
        self._rowcount = rowcount

    @property
    def rowcount(self) -> int:
        """How many rows the last statement wrote.  Ask at once: the database knows it of its last statement only."""
        if self._rowcount is None:
            ((self._rowcount,),) = self._run(Statement("SELECT changes()"))
        return self._rowcount

    def fetchall(self) -> list[Row]:
        return self._rows

    def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None
