"""One transaction: its statements by name, sent without waiting, and the answers that are read when they are needed.

Statements that do not depend on each other's answers travel together: a pipeline sends them at once, and reading an answer
waits for that answer only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from onward.backends.postgres.queries import Statement
from onward.backends.postgres.wire import Reply, Row
from onward.backends.sql.statements import NamedSteps
from onward.contract.transactions import run_steps

__all__ = ["Reply", "Row", "Transaction"]

T = TypeVar("T")


class Sender(Protocol):
    """Takes statements to the server."""

    def send(self, sql: bytes, values: list[object]) -> Reply: ...


class Transaction:
    """One transaction, in which the verbs run their statements by name."""

    __slots__ = ("_sender", "_sql", "moved", "wakes", "woken")

    def __init__(self, sender: Sender, sql: Mapping[str, Statement], moved: int | None) -> None:
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
