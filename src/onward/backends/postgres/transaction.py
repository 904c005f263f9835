"""One transaction: its statements by name, sent without waiting, and the answers that are read when they are needed.

Statements that do not depend on each other's answers travel together: the driver's pipeline sends them at once, and reading
an answer waits for that answer only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from onward.backends.postgres.arrays import as_array
from onward.backends.postgres.connection import Connection
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.queries import Statement
from onward.backends.sql.steps import Asks, answered

__all__ = ["Reply", "Row", "Transaction"]

Row = tuple[Any, ...]
T = TypeVar("T")


class Reply:
    """The answer to a statement, on its way."""

    __slots__ = ("_cursor", "_rows")

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor
        self._rows: list[Row] | None = None

    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = self._cursor.fetchall()
        return self._rows

    def row(self) -> Row | None:
        rows = self.rows()
        return rows[0] if rows else None

    def value(self) -> Any:
        """The one value of a statement that always gives one row."""
        return self.rows()[0][0]

    @property
    def status(self) -> str | None:
        """What the server says it did; None as long as it has said nothing."""
        return self._cursor.statusmessage


class Transaction:
    """What the verbs are written in."""

    __slots__ = ("_connection", "_sql", "moved", "wakes", "woken")

    def __init__(self, connection: Connection, sql: Mapping[str, Statement], moved: int | None) -> None:
        self._connection = connection
        self._sql = sql
        self.moved = moved  # where a test has put the clock; None: the server tells the time
        self.wakes: set[str] = set()  # queues in which something became due: tell who waits, after the commit
        self.woken: set[str] = set()  # who waited for a key, and is due now

    def hold(self, asks: Asks[T]) -> T:
        """Hold a conversation that waits for every answer."""
        return answered(asks, lambda asked: self.ask(asked.name, **asked.parameters).rows())

    def ask(self, name: str, **parameters: object) -> Reply:
        """Send a statement."""
        sql, names = self._sql[name]
        given = {"now": self.moved, **parameters}
        values = [_value(given[name]) for name in names]
        cursor = self._cursor()
        cursor.execute(sql, values)
        return Reply(cursor)

    def _cursor(self) -> psycopg.Cursor[Row]:
        return self._connection.cursor(binary=True)


def _value(value: object) -> object:
    return as_array(value) if isinstance(value, list) else value
