"""One transaction: its statements by name, sent without waiting, and their answers, read when needed.

A pipeline sends statements that do not depend on each other's answers together, and reading an answer waits for that answer
only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from onward.backends.postgres.queries import Section
from onward.backends.sql.flows import Touched
from onward.backends.sql.rows import Row
from onward.backends.sql.statements import NamedSteps
from onward.contract.transactions import run_steps

__all__ = ["Reply", "Row", "Transaction"]

T = TypeVar("T")


class Reply(ABC):
    """The answer to a statement; it may not have come yet."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> list[Row]: ...

    @property
    @abstractmethod
    def status(self) -> str | None:
        """The server's command tag; None before the answer has come."""

    def row(self) -> Row | None:
        rows = self.rows()
        return rows[0] if rows else None

    def value(self) -> Any:
        """Return the one value of a statement that always gives one row."""
        return self.rows()[0][0]


class _Sender(Protocol):
    """Sends statements to the server."""

    def send(self, sql: bytes, values: list[object]) -> Reply: ...


class _Later(Sequence[Row]):
    """Rows that are read when they are needed."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __len__(self) -> int:
        return len(self._reply.rows())

    def __iter__(self) -> Iterator[Row]:
        return iter(self._reply.rows())

    def __getitem__(self, place: Any) -> Any:
        return self._reply.rows()[place]


class Transaction:
    """One transaction, in which the verbs run their statements by name."""

    __slots__ = ("_ended", "_sender", "_sql", "moved", "touched", "wakes", "woken")

    def __init__(self, sender: _Sender, sql: Mapping[str, Section], moved: int | None) -> None:
        self._sender = sender
        self._sql = sql
        self._ended: Reply | None = None
        self.moved = moved  # the time that a test has set; None: the server's clock
        self.wakes: set[str] = set()  # queues in which a job became due: wake sleepers after the commit
        self.woken: set[str] = set()  # jobs that waited for a key or for their node, and are due now
        self.touched: Touched = set()  # in which jobs have ended

    def run_steps(self, steps: NamedSteps[T]) -> T:
        """Run steps.  One whose rows are not read is sent together with the next."""
        return run_steps(steps, lambda step: _Later(self.ask(step.name, **step.parameters)))

    def commit(self) -> Reply:
        """Send the commit, once: with its last statement where no answer of that is needed before."""
        self._ended = self._ended or self.ask("commit")
        return self._ended

    def ask(self, name: str, **parameters: object) -> Reply:
        """Send a statement."""
        sql, names = self._sql[name]
        parameters["now"] = self.moved
        return self._sender.send(sql, [parameters[name] for name in names])
