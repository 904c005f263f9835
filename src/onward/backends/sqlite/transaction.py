"""One transaction: its statements by name, the instant it holds the lock, and whom to wake when it is through."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from onward.backends.sql.statements import NamedSteps
from onward.contract.transactions import run_steps

__all__ = ["Row", "Transaction", "as_json"]

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Transaction:
    """What the verbs are written in."""

    __slots__ = ("_connection", "_sql", "now", "wakes", "woken")

    def __init__(self, connection: sqlite3.Connection, sql: Mapping[str, str], now: int) -> None:
        self._connection = connection
        self._sql = sql
        self.now = now
        self.wakes = False  # something became due: wake a worker after the commit
        self.woken: list[str] = []  # who waited for a key, and is due now

    def run(self, name: str, parameters: Parameters = ()) -> int:
        """Run a writing statement; gives the number of rows it wrote."""
        return self._connection.execute(self._sql[name], parameters).rowcount

    def run_many(self, name: str, rows: Iterable[Parameters]) -> int:
        """Run it once for each; gives the number of rows they wrote together."""
        return self._connection.executemany(self._sql[name], rows).rowcount

    def rows(self, name: str, parameters: Parameters = ()) -> list[Row]:
        return self._connection.execute(self._sql[name], parameters).fetchall()

    def row(self, name: str, parameters: Parameters = ()) -> Row | None:
        row: Row | None = self._connection.execute(self._sql[name], parameters).fetchone()
        return row

    def value(self, name: str, parameters: Parameters = ()) -> Any:
        """The one value of a statement that always gives one row."""
        return self._connection.execute(self._sql[name], parameters).fetchone()[0]

    def is_named(self, name: str) -> bool:
        """Whether its parameters have names."""
        return "?1" not in self._sql[name]

    def run_steps(self, steps: NamedSteps[T]) -> T:
        """Run steps that could run on a caller's connection as well."""
        return run_steps(steps, lambda step: self.rows(step.name, step.parameters))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what the block wrote if it raises, and only that."""
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            # A full disk may have rolled back everything, savepoint and all.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO attempt")
                self._connection.execute("RELEASE attempt")
            raise
        self._connection.execute("RELEASE attempt")


def as_json(values: Sequence[object] | Mapping[str, object]) -> str:
    """A list or an object as one parameter, for ``json_each``."""
    return _encode(values).decode()
