"""Statements for a caller's connection, as its driver takes them, without the settings of Onward's sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from onward.backends.postgres.arrays import literal
from onward.backends.postgres.queries import Section
from onward.contract.transactions import Statement, Style

__all__ = ["foreign", "in_style"]

_NUMBERED = re.compile(r"\$(\d+)")


def foreign(statement: Section, values: dict[str, Any], style: Style) -> Statement:
    """Return a statement with its values, for a driver of this style."""
    return in_style(statement.sql, [values[name] for name in statement.names], style)


def in_style(sql: bytes, values: Sequence[Any], style: Style) -> Statement:
    """Do the same with a statement whose values come in its own order."""
    if style == "dollar":
        return Statement(sql.decode(), list(values))
    text, order = _formatted(sql)
    return Statement(text, [_flat(values[number]) for number in order])


@cache
def _formatted(sql: bytes) -> tuple[str, Sequence[int]]:
    """Return SQL with ``%s`` for parameters, and which value each stands for.

    >>> _formatted(b"$1, $2 % $1")
    ('%s, %s %% %s', (0, 1, 0))
    """
    text = sql.decode()
    order = tuple(int(number) - 1 for number in _NUMBERED.findall(text))
    return _NUMBERED.sub("%s", text.replace("%", "%%")), order


def _flat(value: Any) -> Any:
    r"""Return an array as text, which every driver can send and the statement's casts understand.

    >>> _flat(["a", None]), _flat([b"ab", None]), _flat(3)
    ('{"a",null}', '{"\\\\x6162",null}', 3)
    """
    if not isinstance(value, list):
        return value
    if any(isinstance(each, bytes) for each in value):
        return "{" + ",".join("null" if each is None else f'"\\\\x{each.hex()}"' for each in value) + "}"
    return literal(value)
