"""Statements by name, by which shared code talks to any database: within a transaction, or as steps of a generator.

A generator of steps (`NamedSteps`) yields each statement by its name and is sent the rows.  It runs on a connection of the
backend (`run_steps`), or on that of a caller who joins a job to a transaction (`as_statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeVar

from onward.contract.transactions import Rows, Statement, Steps

__all__ = ["Named", "NamedSteps", "SqlReply", "SqlTransaction", "as_statements", "ask"]

T = TypeVar("T")


class SqlReply(Protocol):
    """The answer to a statement, read when it is needed."""

    def rows(self) -> list[tuple[Any, ...]]: ...

    def value(self) -> Any: ...


class SqlTransaction(Protocol):
    """A transaction of any dialect."""

    def ask(self, name: str, **parameters: object) -> SqlReply: ...


class Named(NamedTuple):
    """A statement by its name, with its parameters as the dialect takes them."""

    name: str
    parameters: Any


NamedSteps = Generator[Named, Rows, T]


def ask(name: str, **parameters: Any) -> NamedSteps[Rows]:
    """Run one step: ``rows = yield from ask("key_holders", keys=keys)``."""
    return (yield Named(name, parameters))


def as_statements(steps: NamedSteps[T], render: Callable[[Named], Statement]) -> Steps[T]:
    """Turn named steps into statements for the connection of a caller."""
    try:
        step = next(steps)
        while True:
            step = steps.send((yield render(step)))
    except StopIteration as end:
        result: T = end.value
        return result
