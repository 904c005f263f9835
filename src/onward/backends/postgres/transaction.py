"""One transaction: its statements by name, sent without waiting, and the answers that are read when they are needed.

Statements that do not depend on each other's answers travel together: a pipeline sends them at once, and reading an answer
waits for that answer only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from onward.backends.postgres.queries import Section
from onward.backends.sql.rows import Row
from onward.backends.sql.statements import NamedSteps
from onward.contract.transactions import run_steps

__all__ = ["Reply", "Row", "Transaction"]

T = TypeVar("T")


class Reply(ABC):
    """The answer to a statement, perhaps on its way."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> list[Row]: ...

    @property
    @abstractmethod
    def status(self) -> str | None:
        """What the server says it did; None as long as it has said nothing."""

    def row(self) -> Row | None:
        rows = self.rows()
        return rows[0] if rows else None

    def value(self) -> Any:
        """The one value of a statement that always gives one row."""
        return self.rows()[0][0]


class _Sender(Protocol):
    """Takes statements to the server."""

    def send(self, sql: bytes, values: list[object]) -> Reply: ...


class Transaction:
    """One transaction, in which the verbs run their statements by name."""

    __slots__ = ("_sender", "_sql", "moved", "wakes", "woken")

    def __init__(self, sender: _Sender, sql: Mapping[str, Section], moved: int | None) -> None:
        self._sender = sender
        self._sql = sql
        self.moved = moved  # where a test has put the clock; None: the server tells the time
        self.wakes: set[str] = set()  # queues in which a job became due: wake sleepers after the commit
        self.woken: set[str] = set()  # jobs that waited for a key, and are due now

    def run_steps(self, steps: NamedSteps[T]) -> T:
        """Run steps, each of which waits for its rows."""
        return run_steps(steps, lambda step: self.ask(step.name, **step.parameters).rows())

    def ask(self, name: str, **parameters: object) -> Reply:
        """Send a statement."""
        sql, names = self._sql[name]
        parameters["now"] = self.moved
        return self._sender.send(sql, [parameters[name] for name in names])
