"""Transactions on one file: for writing, for reading, or for a single statement.

A transaction runs statements by name and knows the instant at which it got the lock.  If it makes a job due, it wakes a
worker after the commit.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from onward.backends.sql.flows import Touched
from onward.backends.sql.statements import Named, NamedSteps
from onward.backends.sqlite.connection import Connections
from onward.base.clock import Clock
from onward.contract.transactions import in_the_way, run_steps, waits_for_itself
from onward.errors import BackendUnavailable

__all__ = ["Parameters", "Row", "Transaction", "Transactions", "as_json"]

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]
T = TypeVar("T")

_STEPS = 10_000  # of the virtual machine, between two looks at the time

_encode = msgspec.json.Encoder().encode


class Reply(NamedTuple):
    """The answer to a statement."""

    found: list[Row]

    def rows(self) -> list[Row]:
        return self.found

    def value(self) -> Any:
        return self.found[0][0]


class Cursor(Protocol):
    """What a statement has answered."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...

    def fetchone(self) -> Any: ...


class RunsStatements(Protocol):
    """A connection: our own, or that of a caller."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor: ...


class Transaction:
    """One transaction, in which the verbs run their statements by name."""

    __slots__ = ("_connection", "_sql", "now", "promoted", "touched", "wakes", "woken")

    def __init__(self, connection: RunsStatements, sql: Mapping[str, str], now: int) -> None:
        self._connection = connection
        self._sql = sql
        self.now = now
        self.wakes = False  # a job became due: wake a worker after the commit
        self.promoted = 0  # jobs that became due by their time
        self.woken: list[str] = []  # jobs that waited for a key or for their node, and are due now
        self.touched: Touched = set()

    def run(self, name: str, parameters: Parameters = ()) -> int:
        """Run a writing statement; return the number of rows it wrote."""
        return self._connection.execute(self._sql[name], parameters).rowcount

    def run_many(self, name: str, rows: Iterable[Parameters]) -> int:
        """Run a statement once for each row; return the number of rows written."""
        return self._connection.executemany(self._sql[name], rows).rowcount

    def insert(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run an insert for each row, into the columns that the rows name; what is in the way stays."""
        if rows:
            table, names = self._sql[name].partition("(")[0], list(rows[0])
            values = f"({', '.join(names)}) VALUES (:{', :'.join(names)})"
            self._connection.executemany(f"{table} {values} ON CONFLICT DO NOTHING", rows)

    def rows(self, name: str, parameters: Parameters = ()) -> list[Row]:
        return self._connection.execute(self._sql[name], parameters).fetchall()

    def row(self, name: str, parameters: Parameters = ()) -> Row | None:
        row: Row | None = self._connection.execute(self._sql[name], parameters).fetchone()
        return row

    def value(self, name: str, parameters: Parameters = ()) -> Any:
        """Return the one value of a statement that always gives one row."""
        return self._connection.execute(self._sql[name], parameters).fetchone()[0]

    def ask(self, name: str, **parameters: object) -> Reply:
        """Run a statement whose parameters have names, as shared code does; a list travels as JSON."""
        values = {key: as_json(value) if isinstance(value, list) else value for key, value in parameters.items()}
        # No variable has the cursor: if a row cannot be read, the error's traceback would keep it and its snapshot, and no
        # write could begin on this connection once another process has committed.
        return Reply(self._connection.execute(self._sql[name], {**values, "now": self.now}).fetchall())

    def run_steps(self, steps: NamedSteps[T]) -> T:
        """Run steps that could run on a caller's connection as well."""
        return run_steps(steps, self._step)

    def _step(self, step: Named) -> list[Row]:
        if isinstance(step.parameters, Mapping):
            return self.ask(step.name, **step.parameters).found
        return self.rows(step.name, step.parameters)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Roll back only what the block wrote, if it raises."""
        touched = set(self.touched)
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            self.touched = touched
            # A full disk may have rolled back everything, savepoint and all.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO attempt")
                self._connection.execute("RELEASE attempt")
            raise
        self._connection.execute("RELEASE attempt")


class Transactions:
    """Opens the transactions of one store."""

    def __init__(
        self,
        store: object,
        connections: Connections,
        sql: Mapping[str, str],
        *,
        clock: Clock,
        wake: Callable[[], None],
        look: Callable[[Transaction], None],
    ) -> None:
        """``look``: what a transaction does last, if it has touched flows."""
        self._store = store
        self._connections = connections
        self._sql = sql
        self._clock = clock
        self._wake = wake
        self._look = look

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Hold the write lock; the time is read once it is held, so that waiting for it shortens no lease."""
        if in_the_way.get() is self._store:
            raise waits_for_itself()
        with self._connections.writing() as connection:
            tx = Transaction(connection, self._sql, self._clock.micros())
            yield tx
            if tx.touched:
                self._look(tx)
        if tx.wakes:
            self._wake()

    def alone(self, write: Callable[[Transaction], T]) -> T:
        """Let ``write`` run a single statement, which is a transaction by itself.  It may be called several times."""

        def run(connection: sqlite3.Connection) -> tuple[Transaction, T]:
            tx = Transaction(connection, self._sql, self._clock.micros())
            return tx, write(tx)

        tx, result = self._connections.writer.alone(run)
        if tx.wakes:
            self._wake()
        return result

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Read one snapshot of the file, whatever is written meanwhile."""
        with self._connections.reading() as connection:
            yield Transaction(connection, self._sql, self._clock.micros())

    @contextmanager
    def reading_briefly(self, seconds: float) -> Iterator[Transaction]:
        """Read one snapshot of the file; a statement that runs when the time is over is ended: `BackendUnavailable`."""
        with self._connections.reading() as connection:
            ends = time.monotonic() + seconds
            connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
            try:
                yield Transaction(connection, self._sql, self._clock.micros())
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_INTERRUPT":
                    raise
                raise BackendUnavailable(
                    f"{self._connections.path}: a look took longer than {seconds:g} s and was ended: try again when the "
                    f"disk is less busy"
                ) from error
            finally:
                connection.set_progress_handler(None, 0)


def as_json(values: Sequence[object] | Mapping[str, object]) -> str:
    """Return a list or an object as one parameter, for ``json_each``."""
    return _encode(values).decode()
