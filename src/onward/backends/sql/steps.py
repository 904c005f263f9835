"""A conversation with a database, written once and held by anybody: our own connection, or somebody else's.

It is a generator.  It yields what to ask, by the statement's name, and is sent the rows that came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from onward.contract.transactions import Found, Statement, Steps

__all__ = ["Ask", "Asks", "Rows", "answered", "ask", "rendered"]

T = TypeVar("T")

Rows = Sequence[Sequence[Any]]


class Ask(NamedTuple):
    """One statement, by its name."""

    name: str
    parameters: Any  # as the backend's statements take them


Asks = Generator[Ask, Rows, T]


def ask(name: str, **parameters: Any) -> Asks[Rows]:
    """``rows = yield from ask("key_holders", keys=keys)``."""
    return (yield Ask(name, parameters))


def answered(asks: Asks[T], answer: Callable[[Ask], Rows]) -> T:
    """Hold it, here and now."""
    try:
        asked = next(asks)
        while True:
            asked = asks.send(answer(asked))
    except StopIteration as end:
        result: T = end.value
        return result


def rendered(asks: Asks[T], render: Callable[[Ask], Statement]) -> Steps[T]:
    """The same for somebody else's connection."""
    try:
        asked = next(asks)
        while True:
            found: Found = yield render(asked)
            asked = asks.send(found.rows)
    except StopIteration as end:
        result: T = end.value
        return result
