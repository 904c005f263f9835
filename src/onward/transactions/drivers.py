"""Connections of drivers that callers bring along: how each runs a statement in the caller's transaction.

No driver is imported here.  A driver that is not imported has no connections.  Nothing here begins or commits, and errors
of a driver go to the caller as they are: they are about the caller's transaction.
"""

from __future__ import annotations

import sys
from typing import Any, Literal, Protocol

from onward.base.lazy import sqlite3
from onward.contract.transactions import Dialect, Rows, Statement, Style
from onward.errors import TransactionError

__all__ = [
    "Aiosqlite",
    "AsyncCaller",
    "AsyncPsycopg",
    "Asyncpg",
    "Caller",
    "Mysqlclient",
    "OfAsync",
    "OfSync",
    "Psycopg",
    "Psycopg2",
    "PyMySQL",
    "Sqlite",
    "refuse_autocommit",
    "rows_of",
]

_IDLE = 0  # libpq's word for a connection that is in no transaction
_IN_TRANSACTION = 1  # MySQL's bit for one that is


class Caller(Protocol):
    """A connection that blocks."""

    waits: Literal[False]
    dialect: Dialect
    style: Style

    def check(self) -> None:
        """Raise if a statement would be committed at once."""
        ...

    def run(self, statement: Statement) -> Rows: ...

    def is_open(self) -> bool:
        """Return whether a transaction is open on it."""
        ...

    def roll_back(self) -> None: ...


class AsyncCaller(Protocol):
    """A connection to be awaited."""

    waits: Literal[True]
    dialect: Dialect
    style: Style

    async def check(self) -> None: ...

    async def run(self, statement: Statement) -> Rows: ...

    def is_open(self) -> bool: ...

    async def roll_back(self) -> None: ...


class OfSync:
    waits: Literal[False] = False
    dialect: Dialect
    style: Style

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def roll_back(self) -> None:
        self._connection.rollback()


class OfAsync:
    waits: Literal[True] = True
    dialect: Dialect
    style: Style

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def roll_back(self) -> None:
        await self._connection.rollback()


# PostgreSQL


class _OfLibpq:
    """What the drivers on libpq have in common."""

    _connection: Any

    def is_open(self) -> bool:
        return not self._connection.closed and self._connection.info.transaction_status != _IDLE


class Psycopg(_OfLibpq, OfSync):
    dialect: Dialect = "postgresql"
    style: Style = "format"

    def check(self) -> None:
        connection = self._connection
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            refuse_autocommit("with connection.transaction(): ...")

    def run(self, statement: Statement) -> Rows:
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement.sql.encode(), statement.values)
            return rows_of(cursor)


class AsyncPsycopg(_OfLibpq, OfAsync):
    dialect: Dialect = "postgresql"
    style: Style = "format"

    async def check(self) -> None:
        connection = self._connection
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            refuse_autocommit("async with connection.transaction(): ...")

    async def run(self, statement: Statement) -> Rows:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement.sql.encode(), statement.values)
            rows: Rows = await cursor.fetchall() if cursor.description else ()
            return rows


class Psycopg2(_OfLibpq, OfSync):
    dialect: Dialect = "postgresql"
    style: Style = "format"

    def check(self) -> None:
        if self._connection.autocommit and self._connection.info.transaction_status == _IDLE:
            refuse_autocommit("connection.autocommit = False")

    def run(self, statement: Statement) -> Rows:
        plain = sys.modules["psycopg2.extensions"].cursor
        with self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(statement.sql, statement.values)
            return rows_of(cursor)


class Asyncpg(OfAsync):
    dialect: Dialect = "postgresql"
    style: Style = "dollar"

    async def check(self) -> None:
        if not self._connection.is_in_transaction():
            refuse_autocommit("async with connection.transaction(): ...")

    async def run(self, statement: Statement) -> Rows:
        return [tuple(row) for row in await self._connection.fetch(statement.sql, *statement.values)]

    def is_open(self) -> bool:
        return not self._connection.is_closed() and bool(self._connection.is_in_transaction())

    async def roll_back(self) -> None:
        await self._connection.execute("ROLLBACK")


# MySQL and MariaDB


class PyMySQL(OfSync):
    dialect: Dialect = "mysql"
    style: Style = "format"

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._connection.server_status & _IN_TRANSACTION:
            refuse_autocommit("connection.begin()")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor(sys.modules["pymysql.cursors"].Cursor) as cursor:
            cursor.execute(statement.sql, statement.values or None)
            return rows_of(cursor)

    def is_open(self) -> bool:
        return bool(self._connection.open and self._connection.server_status & _IN_TRANSACTION)


class Mysqlclient(OfSync):
    dialect: Dialect = "mysql"
    style: Style = "format"

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._has_begun():
            refuse_autocommit("connection.autocommit(False)")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor(sys.modules["MySQLdb.cursors"].Cursor) as cursor:
            cursor.execute(statement.sql, statement.values or None)
            return rows_of(cursor)

    def is_open(self) -> bool:
        return True  # the driver does not say; to roll back what is not open harms nothing

    def _has_begun(self) -> bool:
        """Return whether a transaction has begun: the driver does not know, MariaDB does, and MySQL cannot be asked."""
        try:
            ((begun,),) = self.run(Statement("SELECT @@in_transaction"))
        except sys.modules["MySQLdb"].Error:
            return False
        return bool(begun)


# SQLite


class Sqlite(OfSync):
    dialect: Dialect = "sqlite"
    style: Style = "qmark"

    def check(self) -> None:
        _check_sqlite(self._connection)

    def run(self, statement: Statement) -> Rows:
        cursor = self._connection.cursor(sqlite3.Cursor)
        cursor.row_factory = None
        cursor.execute(statement.sql, statement.values)
        return rows_of(cursor)

    def is_open(self) -> bool:
        return bool(self._connection.in_transaction)


class Aiosqlite(OfAsync):
    dialect: Dialect = "sqlite"
    style: Style = "qmark"

    async def check(self) -> None:
        _check_sqlite(self._connection)

    async def run(self, statement: Statement) -> Rows:
        async with self._connection.execute(statement.sql, statement.values) as cursor:
            return [tuple(row) for row in await cursor.fetchall()]

    def is_open(self) -> bool:
        return bool(self._connection.in_transaction)


def _check_sqlite(connection: Any) -> None:
    # From 3.12 on a connection has an attribute for it: with False a transaction is open at all times.
    autocommit = getattr(connection, "autocommit", -1)
    on_its_own = autocommit is True or (autocommit == -1 and connection.isolation_level is None)
    if on_its_own and not connection.in_transaction:
        refuse_autocommit('connection.execute("BEGIN IMMEDIATE")')


def rows_of(cursor: Any) -> Rows:
    rows: Rows = cursor.fetchall() if cursor.description else ()
    return rows


def refuse_autocommit(instead: str) -> None:
    raise TransactionError(
        f"this connection is in no transaction and commits every statement at once: begin a transaction "
        f"first ({instead}), or enqueue without `jobs.transaction`"
    )
