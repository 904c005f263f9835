"""Connections of callers: recognising their driver, and running a statement in their transaction.

This module imports no driver: a driver that is not imported has no connections.  It never begins, commits or rolls back, and
errors of a driver go to the caller as they are: they are about the caller's transaction.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from onward.base.wording import a
from onward.contract.transactions import Dialect, Rows, Statement, Style
from onward.errors import TransactionError

__all__ = ["AsyncCaller", "Caller", "caller_of"]

_IDLE = 0  # libpq's word for a connection that is in no transaction
_IN_TRANSACTION = 1  # MySQL's bit for one that is


class ConnectionKind(NamedTuple):
    """The database of a connection, and the style of its parameters."""

    dialect: Dialect
    style: Style


class Caller(Protocol):
    """A connection that blocks."""

    waits: Literal[False]
    kind: ConnectionKind

    def check(self) -> None:
        """Raise if a statement would be committed at once."""
        ...

    def run(self, statement: Statement) -> Rows: ...


class AsyncCaller(Protocol):
    """A connection to be awaited."""

    waits: Literal[True]
    kind: ConnectionKind

    async def check(self) -> None: ...

    async def run(self, statement: Statement) -> Rows: ...


class _Sync:
    waits: Literal[False] = False
    kind: ConnectionKind

    def __init__(self, connection: Any) -> None:
        self._connection = connection


class _Async:
    waits: Literal[True] = True
    kind: ConnectionKind

    def __init__(self, connection: Any) -> None:
        self._connection = connection


# PostgreSQL


class _Psycopg(_Sync):
    kind = ConnectionKind("postgresql", "format")

    def check(self) -> None:
        connection = self._connection
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            _refuse("with connection.transaction(): ...")

    def run(self, statement: Statement) -> Rows:
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement.sql.encode(), statement.values)
            return _rows(cursor)


class _AsyncPsycopg(_Async):
    kind = ConnectionKind("postgresql", "format")

    async def check(self) -> None:
        connection = self._connection
        if connection.autocommit and connection.info.transaction_status == _IDLE:
            _refuse("async with connection.transaction(): ...")

    async def run(self, statement: Statement) -> Rows:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement.sql.encode(), statement.values)
            rows: Rows = await cursor.fetchall() if cursor.description else ()
            return rows


class _Psycopg2(_Sync):
    kind = ConnectionKind("postgresql", "format")

    def check(self) -> None:
        if self._connection.autocommit and self._connection.info.transaction_status == _IDLE:
            _refuse("connection.autocommit = False")

    def run(self, statement: Statement) -> Rows:
        plain = sys.modules["psycopg2.extensions"].cursor
        with self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(statement.sql, statement.values)
            return _rows(cursor)


class _Asyncpg(_Async):
    kind = ConnectionKind("postgresql", "dollar")

    async def check(self) -> None:
        if not self._connection.is_in_transaction():
            _refuse("async with connection.transaction(): ...")

    async def run(self, statement: Statement) -> Rows:
        return [tuple(row) for row in await self._connection.fetch(statement.sql, *statement.values)]


# MySQL and MariaDB


class _PyMySQL(_Sync):
    kind = ConnectionKind("mysql", "format")

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._connection.server_status & _IN_TRANSACTION:
            _refuse("connection.begin()")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor(sys.modules["pymysql.cursors"].Cursor) as cursor:
            cursor.execute(statement.sql, statement.values or None)
            return _rows(cursor)


class _Mysqlclient(_Sync):
    kind = ConnectionKind("mysql", "format")

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._has_begun():
            _refuse("connection.autocommit(False)")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor(sys.modules["MySQLdb.cursors"].Cursor) as cursor:
            cursor.execute(statement.sql, statement.values or None)
            return _rows(cursor)

    def _has_begun(self) -> bool:
        """Return whether a transaction has begun: the driver does not know, MariaDB does, and MySQL cannot be asked."""
        try:
            ((begun,),) = self.run(Statement("SELECT @@in_transaction"))
        except sys.modules["MySQLdb"].Error:
            return False
        return bool(begun)


# SQLite


class _Sqlite(_Sync):
    kind = ConnectionKind("sqlite", "qmark")

    def check(self) -> None:
        _check_sqlite(self._connection)

    def run(self, statement: Statement) -> Rows:
        cursor = self._connection.cursor(sqlite3.Cursor)
        cursor.row_factory = None
        cursor.execute(statement.sql, statement.values)
        return _rows(cursor)


class _Aiosqlite(_Async):
    kind = ConnectionKind("sqlite", "qmark")

    async def check(self) -> None:
        _check_sqlite(self._connection)

    async def run(self, statement: Statement) -> Rows:
        async with self._connection.execute(statement.sql, statement.values) as cursor:
            return [tuple(row) for row in await cursor.fetchall()]


def _check_sqlite(connection: Any) -> None:
    # From 3.12 on a connection has an attribute for it: with False a transaction is open at all times.
    autocommit = getattr(connection, "autocommit", -1)
    on_its_own = autocommit is True or (autocommit == -1 and connection.isolation_level is None)
    if on_its_own and not connection.in_transaction:
        _refuse('connection.execute("BEGIN IMMEDIATE")')


# Libraries on top of a driver


class _Alchemy(_Sync):
    """A `Connection` or a `Session`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection.connection() if hasattr(connection, "add_all") else connection)
        self.kind = _kind_of_dialect(self._connection.dialect)

    def check(self) -> None:
        if _commits_by_itself(self._connection):
            _refuse("an engine, or execution_options, without AUTOCOMMIT")

    def run(self, statement: Statement) -> Rows:
        return _result(self._connection.exec_driver_sql(statement.sql, tuple(statement.values) or None))


class _AsyncAlchemy(_Async):
    """An `AsyncConnection` or an `AsyncSession`; the latter's connection must be awaited."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.kind = _kind_of_dialect((connection.get_bind() if hasattr(connection, "add_all") else connection).dialect)

    async def check(self) -> None:
        if hasattr(self._connection, "add_all"):
            self._connection = await self._connection.connection()
        if await self._connection.run_sync(_commits_by_itself):
            _refuse("an engine, or execution_options, without AUTOCOMMIT")

    async def run(self, statement: Statement) -> Rows:
        return _result(await self._connection.exec_driver_sql(statement.sql, tuple(statement.values) or None))


def _commits_by_itself(connection: Any) -> bool:
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return True
    driver = connection.connection.dbapi_connection
    if getattr(driver, "in_transaction", False) is True:  # SQLite: a transaction has begun, whatever the settings are
        return False
    try:
        return bool(connection.dialect.detect_autocommit_setting(driver))
    except (AttributeError, NotImplementedError):  # an old SQLAlchemy, or a driver without this attribute
        return False


class _Django(_Sync):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.kind = ConnectionKind(_ours(connection.vendor), "format")

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._connection.in_atomic_block:
            _refuse("with transaction.atomic(): ...")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.sql, list(statement.values) or None)
            return _rows(cursor)


# Recognising connections

_KINDS: Sequence[tuple[str, str, Callable[[Any], Caller | AsyncCaller]]] = (
    ("psycopg", "Connection", _Psycopg),
    ("psycopg", "AsyncConnection", _AsyncPsycopg),
    ("psycopg2.extensions", "connection", _Psycopg2),
    ("asyncpg.connection", "Connection", _Asyncpg),
    ("asyncpg.pool", "PoolConnectionProxy", _Asyncpg),
    ("pymysql.connections", "Connection", _PyMySQL),
    ("MySQLdb.connections", "Connection", _Mysqlclient),
    ("sqlite3", "Connection", _Sqlite),
    ("aiosqlite", "Connection", _Aiosqlite),
    ("sqlalchemy.engine", "Connection", _Alchemy),
    ("sqlalchemy.orm", "Session", _Alchemy),
    ("sqlalchemy.orm", "scoped_session", _Alchemy),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", _AsyncAlchemy),
    ("sqlalchemy.ext.asyncio", "AsyncSession", _AsyncAlchemy),
    ("sqlalchemy.ext.asyncio", "async_scoped_session", _AsyncAlchemy),
)


def caller_of(connection: Any) -> Caller | AsyncCaller:
    """Return the object that runs statements on this connection."""
    for module, name, caller in _KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(connection, kind):
            return caller(connection)
    if hasattr(connection, "vendor") and hasattr(connection, "in_atomic_block"):  # Django's own is a proxy
        return _Django(connection)
    if hasattr(type(connection), "enqueue") and hasattr(type(connection), "complete"):
        raise TransactionError("this is the transaction of a handler: enqueue with `conn.enqueue(...)`")
    raise TransactionError(
        f"{a(type(connection).__module__)}.{type(connection).__qualname__} is not a connection that can be joined: pass one "
        f"of psycopg, asyncpg, psycopg2, PyMySQL, mysqlclient, sqlite3, aiosqlite, SQLAlchemy (Connection, Session, "
        f"AsyncConnection, AsyncSession) or Django (django.db.connection)"
    )


def _kind_of_dialect(dialect: Any) -> ConnectionKind:
    if dialect.driver == "asyncpg":
        return ConnectionKind("postgresql", "dollar")
    ours = _ours(dialect.name)
    return ConnectionKind(ours, "qmark" if ours == "sqlite" else "format")


def _ours(database: str) -> Dialect:
    match database:
        case "postgresql" | "sqlite" | "mysql":
            return database
        case "mariadb":
            return "mysql"
    raise TransactionError(f"there are no jobs in a database of {database}: pass a connection to the one that has them")


def _rows(cursor: Any) -> Rows:
    rows: Rows = cursor.fetchall() if cursor.description else ()
    return rows


def _result(result: Any) -> Rows:
    rows: Rows = result.fetchall() if result.returns_rows else ()
    return rows


def _refuse(instead: str) -> None:
    raise TransactionError(
        f"this connection is in no transaction and commits every statement at once: begin a transaction "
        f"first ({instead}), or enqueue without `jobs.transaction`"
    )
