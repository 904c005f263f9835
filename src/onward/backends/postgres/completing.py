"""A transaction in which a handler works and its job is completed.

The connection is a plain one of the driver: the settings of Onward's sessions about plans would not suit a handler's
statements.  A few are kept.  Before another handler gets one, the server resets its session.

A handler can send COMMIT or ROLLBACK.  But then the savepoint that the transaction began with is gone, and so the job is not
completed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from onward.backends.postgres import arrays, errors
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import Int8BinaryDumper, psycopg
from onward.backends.postgres.joining import in_style
from onward.backends.postgres.queries import Section
from onward.backends.postgres.settling import Settling, classify
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.base import forks
from onward.base.interruption import uninterrupted
from onward.contract.transactions import Rows, Statement, Steps, Style, run_steps
from onward.errors import BackendError, TransactionError
from onward.job.settlement import Settled, Settlement, under

__all__ = ["Lender", "OnCallersConnection", "PostgresCompletion", "settle_fenced"]

T = TypeVar("T")

_Block = AbstractContextManager[psycopg.Transaction]

_KEPT = 4  # connections to keep for the next handler
_SAVEPOINT = "onward"


class Lender:
    """Plain connections, each lent to one handler at a time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        forks.watch(self)

    def lend(self) -> tuple[Connection, _Block]:
        """Return a connection, in a transaction that has begun."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):  # the server may have closed it while it was idle
                return connection, self._begun(connection)
        connection = self._connections.plain()
        return connection, self._begun(connection)

    def take_back(self, connection: Connection) -> None:
        if self._cleaned(connection):
            with self._lock:
                if len(self._idle) < _KEPT and not self._connections.closed:
                    self._idle.append(connection)
                    return
        self._connections.discard(connection)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._connections.discard(connection)

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._idle = []  # they belong to the parent
        self._lock.release()

    def _begun(self, connection: Connection) -> _Block:
        # Within it the driver itself refuses a commit by the handler.
        block = connection.transaction(_SAVEPOINT)
        try:
            block.__enter__()
        except BaseException:
            self._connections.discard(connection)
            raise
        return block

    def _cleaned(self, connection: Connection) -> bool:
        """Reset the session of a connection.  False if that failed."""
        if self._connections.pooled:
            return False  # the pooler has lent the session to another client by now
        try:
            connection.autocommit = True
            connection.execute("DISCARD ALL", prepare=False)
            connection.autocommit = False
        except (psycopg.Error, AttributeError):
            return False
        return type(connection) is Connection and connection.row_factory is psycopg.rows.tuple_row


class PostgresCompletion:
    """One open transaction."""

    exclusive = False

    def __init__(
        self,
        lender: Lender,
        sql: Mapping[str, Section],
        *,
        place: str,
        moved: int | None,
        wake: Callable[[set[str]], None],
        look: Callable[[Transaction], None],
    ) -> None:
        """``look``: what is done last, if flows were touched."""
        self._lender = lender
        self._place = place
        self._wake = wake
        self._look = look
        with errors.translated(place), uninterrupted():
            self.connection, self._block = lender.lend()
        self._tx = Transaction(_Within(self.connection), sql, moved)
        self._over = False

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        return run_steps(steps("format"), self._execute)

    def check(self) -> None:
        """Do nothing: only its handler ends the transaction."""

    def settle(self, settlement: Settlement) -> Settled:
        with uninterrupted(), errors.translated(self._place):
            self._refuse_if_ended()
            return settle_fenced(self._tx, settlement, self._look)

    def commit(self) -> None:
        with uninterrupted(), errors.translated(self._place):
            try:
                self._block.__exit__(None, None, None)
            except BaseException:
                self._end()
                raise
            self._end()
        if self._tx.wakes:
            with contextlib.suppress(BackendError):  # only a hint: idle workers also poll
                self._wake(self._tx.wakes)

    def roll_back(self) -> None:
        if self._over:
            return
        with uninterrupted():
            with contextlib.suppress(psycopg.Error):
                self._block.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
            self._end()

    def _refuse_if_ended(self) -> None:
        try:
            with self._plain_cursor() as cursor:
                cursor.execute(b"RELEASE SAVEPOINT " + _SAVEPOINT.encode(), prepare=False)
        except psycopg.errors.InFailedSqlTransaction as error:
            raise TransactionError(
                "a statement in the block failed, and the block went on without undoing it: nothing of it was committed; "
                "put what may fail into `with conn.transaction():`, which undoes that part alone"
            ) from error
        except (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction) as error:
            raise TransactionError(
                "a statement in the block has ended its transaction, so the job is not completed by it: leave COMMIT and "
                "ROLLBACK out of it"
            ) from error

    def _execute(self, statement: Statement) -> Rows:
        with self._plain_cursor() as cursor:
            cursor.execute(statement.sql.encode(), statement.values)
            return cursor.fetchall() if cursor.description else ()

    def _plain_cursor(self) -> psycopg.Cursor[Row]:
        return psycopg.Cursor(self.connection, row_factory=psycopg.rows.tuple_row)

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._lender.take_back(self.connection)


def settle_fenced(tx: Transaction, settlement: Settlement, look: Callable[[Transaction], None]) -> Settled:
    """Settle under the owner that the lease has now: an adoption may have changed it."""
    lease = settlement.lease
    found = tx.ask("lease_owner", id=lease.envelope.id, token=lease.token).row()
    if found is None:
        return classify(tx, [settlement])[0]
    (owner,) = found
    (settled,) = Settling(tx, owner, [under(settlement, owner)], careful=True).answer()
    if tx.touched:
        look(tx)
    return settled


class OnCallersConnection:
    """Our own statements on the connection of a caller, whose driver takes parameters in its own style."""

    def __init__(self, run: Callable[[Statement], Rows], style: Style) -> None:
        self._run = run
        self._style = style

    def send(self, sql: bytes, values: list[object]) -> Reply:
        return _Rows([tuple(row) for row in self._run(in_style(sql, values, self._style))])


class _Rows(Reply):
    """What the caller's driver has read; it does not tell what the server said besides."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> list[Row]:
        return self._rows

    @property
    def status(self) -> str | None:
        return None


class _Within:
    """Onward's own statements on a handler's connection, whatever row factories and adapters the handler has set."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, sql: bytes, values: list[object]) -> Reply:
        cursor = psycopg.RawCursor(self._connection, row_factory=psycopg.rows.tuple_row)
        cursor.format = psycopg.pq.Format.BINARY
        cursor.adapters.register_dumper(int, Int8BinaryDumper)
        cursor.adapters.register_dumper(arrays.Blobs, arrays.blobs_dumper)
        cursor.execute(sql, [arrays.as_array(value) if isinstance(value, list) else value for value in values])
        return _Fetched(cursor)


class _Fetched(Reply):
    """A reply that the driver has read."""

    __slots__ = ("_rows", "_status")

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._rows = cursor.fetchall() if cursor.description else []
        self._status = cursor.statusmessage

    def rows(self) -> list[Row]:
        return self._rows

    @property
    def status(self) -> str | None:
        return self._status
