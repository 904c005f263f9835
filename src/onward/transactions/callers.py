"""Connections that callers bring along: which kind they are of.  Those of an ORM stand before one of a driver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from onward.base.wording import a
from onward.contract.transactions import Dialect, Rows, Statement, Style
from onward.errors import TransactionError
from onward.transactions.drivers import (
    Aiosqlite,
    AsyncCaller,
    Asyncpg,
    AsyncPsycopg,
    Caller,
    Mysqlclient,
    OfAsync,
    OfSync,
    Psycopg,
    Psycopg2,
    PyMySQL,
    Sqlite,
    refuse_autocommit,
    rows_of,
)

__all__ = ["caller_of"]


class _Alchemy(OfSync):
    """A `Connection` or a `Session`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection.connection() if hasattr(connection, "add_all") else connection)
        self._given = connection
        self.dialect, self.style = _dialect_and_style(self._connection)

    def check(self) -> None:
        if _commits_by_itself(self._connection):
            refuse_autocommit("an engine, or execution_options, without AUTOCOMMIT")

    def run(self, statement: Statement) -> Rows:
        return _result(self._connection.exec_driver_sql(statement.sql, tuple(statement.values) or None))

    def is_open(self) -> bool:
        return bool(self._given.in_transaction())

    def roll_back(self) -> None:
        self._given.rollback()


class _AsyncAlchemy(OfAsync):
    """An `AsyncConnection` or an `AsyncSession`; the latter's connection must be awaited."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._given = connection
        self.dialect, self.style = _dialect_and_style(
            connection.get_bind() if hasattr(connection, "add_all") else connection
        )

    async def check(self) -> None:
        if hasattr(self._connection, "add_all"):
            self._connection = await self._connection.connection()
        if await self._connection.run_sync(_commits_by_itself):
            refuse_autocommit("an engine, or execution_options, without AUTOCOMMIT")

    async def run(self, statement: Statement) -> Rows:
        return _result(await self._connection.exec_driver_sql(statement.sql, tuple(statement.values) or None))

    def is_open(self) -> bool:
        return bool(self._given.in_transaction())

    async def roll_back(self) -> None:
        await self._given.rollback()


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


class _Django(OfSync):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect, self.style = _dialect(connection.vendor), "format"

    def check(self) -> None:
        if self._connection.get_autocommit() and not self._connection.in_atomic_block:
            refuse_autocommit("with transaction.atomic(): ...")

    def run(self, statement: Statement) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.sql, list(statement.values) or None)
            return rows_of(cursor)

    def is_open(self) -> bool:
        return bool(self._connection.in_atomic_block or not self._connection.get_autocommit())


# Recognising connections

_KINDS: Sequence[tuple[str, str, Callable[[Any], Caller | AsyncCaller]]] = (
    ("psycopg", "Connection", Psycopg),
    ("psycopg", "AsyncConnection", AsyncPsycopg),
    ("psycopg2.extensions", "connection", Psycopg2),
    ("asyncpg.connection", "Connection", Asyncpg),
    ("asyncpg.pool", "PoolConnectionProxy", Asyncpg),
    ("pymysql.connections", "Connection", PyMySQL),
    ("MySQLdb.connections", "Connection", Mysqlclient),
    ("sqlite3", "Connection", Sqlite),
    ("aiosqlite", "Connection", Aiosqlite),
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
    if opens := _opener(connection):
        raise TransactionError(f"this is no connection, it makes them: pass one that has begun, `{opens}`")
    raise TransactionError(
        f"{a(type(connection).__module__)}.{type(connection).__qualname__} is not a connection that can be joined: pass one "
        f"of psycopg, asyncpg, psycopg2, PyMySQL, mysqlclient, sqlite3, aiosqlite, SQLAlchemy (Connection, Session, "
        f"AsyncConnection, AsyncSession) or Django (django.db.connection)"
    )


_OPENERS = (
    ("sqlalchemy.engine", "Engine", "with engine.begin() as connection: ..."),
    ("sqlalchemy.ext.asyncio", "AsyncEngine", "async with engine.begin() as connection: ..."),
    ("sqlalchemy.orm", "sessionmaker", "with make_session.begin() as session: ..."),
    ("sqlalchemy.ext.asyncio", "async_sessionmaker", "async with make_session.begin() as session: ..."),
)


def _opener(given: Any) -> str | None:
    """Return how a connection is had of what makes connections."""
    for module, name, opens in _OPENERS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(given, kind):
            return opens
    return None


def _dialect_and_style(connection: Any) -> tuple[Dialect, Style]:
    if connection.dialect.driver == "asyncpg":
        return "postgresql", "dollar"
    dialect = _dialect(connection.dialect.name)
    return dialect, "qmark" if dialect == "sqlite" else "format"


def _dialect(database: str) -> Dialect:
    match database:
        case "postgresql" | "sqlite" | "mysql":
            return database
        case "mariadb":
            return "mysql"
    raise TransactionError(f"there are no jobs in a database of {database}: pass a connection to the one that has them")


def _result(result: Any) -> Rows:
    rows: Rows = result.fetchall() if result.returns_rows else ()
    return rows
