"""A transaction in which a handler works and its job is completed.

The transaction takes the write lock as it begins, because one that begins by reading fails as soon as another connection
has written.  No other process can write until it ends, so after a few seconds it is rolled back.  A thread cannot be
stopped from outside, but its connection can be: the timer's thread interrupts a running statement, and as soon as no thread
is in the connection, by the lock of `HandlerConnection`, it rolls back.  From then on every call is refused.
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
from onward.backends.sqlite.transaction import Parameters, Row, Transaction, Transactions
from onward.base.clock import Clock
from onward.base.failure import Failure
from onward.base.interruption import uninterrupted
from onward.contract.transactions import Rows, Statement, Steps, Style, run_steps
from onward.errors import TransactionError, TransactionTooLong
from onward.job.lease import Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Settled, Settlement, under

__all__ = ["CallersConnection", "SqliteCompleted", "SqliteCompletion", "settle_fenced"]

T = TypeVar("T")

_BETWEEN_INTERRUPTIONS = 0.05  # an interruption between two statements has no effect, so it is repeated


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
        look: Callable[[Transaction], None],
    ) -> None:
        """``look``: what is done last, if flows were touched."""
        self._connections = connections
        self._sql = sql
        self._clock = clock
        self._at_most = at_most
        self._wake = wake
        self._look = look
        self._over = False
        self._deciding = threading.Lock()  # taken by the commit and by the timer: the first one wins
        self._late = False
        self._settling = False
        self._may_end = False  # whether statements that end the transaction are allowed now
        self._wakes = False
        self.connection = connections.for_handler(HandlerConnection)
        self._lock = self.connection.lock
        sqlite3.Connection.set_authorizer(self.connection, self._allow)
        # If a statement rolls the transaction back (ON CONFLICT ROLLBACK), the next write would be committed at once.  With
        # this setting the driver begins another transaction for it, and the authorizer refuses that.
        self.connection.isolation_level = "IMMEDIATE"
        self.connection.check = self.check
        self._timer = threading.Timer(at_most, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        self.check()
        self._refuse_if_ended()
        with self._with_plain_rows():
            return run_steps(steps("qmark"), self._execute)

    def settle(self, settlement: Settlement) -> Settled:
        with uninterrupted(), self._lock, self._connections.translated(), self._with_plain_rows():
            with self._deciding:
                self.check()
                self._settling = True
            self._refuse_if_ended()
            self._timer.cancel()
            tx = Transaction(self.connection, self._sql, self._clock.micros())
            settled = settle_fenced(tx, settlement, self._look)
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
                self.connection.end()  # this rolls back, too
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
    def _with_plain_rows(self) -> Iterator[None]:
        """Make rows tuples and text `str` in the block, whatever the handler has set."""
        connection = self.connection
        told = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = None, str
        try:
            yield
        finally:
            connection.row_factory, connection.text_factory = told

    def _allow(self, action: int, what: str | None, *_: object) -> int:
        """Refuse BEGIN, COMMIT and ROLLBACK of a handler, but allow savepoints.

        Refuse ATTACH, too: SQLite commits each file of a connection by itself.
        """
        ends = action == sqlite3.SQLITE_TRANSACTION and not self._may_end
        return sqlite3.SQLITE_DENY if ends or action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def settle_fenced(tx: Transaction, settlement: Settlement, look: Callable[[Transaction], None]) -> Settled:
    """Settle under the owner that the lease has now: an adoption may have changed it."""
    lease = settlement.lease
    found = tx.row("lease_owner", (lease.envelope.id, lease.token))
    if found is None:
        return settling.classify(tx, settlement)
    (owner,) = found
    items = [under(settlement, owner)]
    (settled,) = settling.settle(tx, owner, items, any_asked=False, any_keyed=True, one_by_one=True)
    if tx.touched:
        look(tx)
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


class SqliteCompleted:
    """The verbs of the backend for jobs that their handlers have completed."""

    _transactions: Transactions

    def completed(self, lease: Lease) -> bool:
        with self._transactions.reading() as tx:
            return bool(tx.value("is_completed", (lease.envelope.id, lease.token)))

    def note_after_completion(
        self, lease: Lease, failure: Failure, *, duration_ms: int, by: RanBy | None = None
    ) -> bool:
        told = failure.kind, failure.message, failure.traceback, failure.fingerprint
        with self._transactions.writing() as tx:
            run = lease.envelope.id, lease.token, tx.now, duration_ms, *told, None if by is None else by.encoded()
            return tx.run("note_after_completion", run) > 0
