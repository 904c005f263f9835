"""Statements for a caller's connection, as its driver takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from onward.backends.sqlite.transaction import Row, as_json
from onward.contract.transactions import Rows, Statement, Style
from onward.errors import TransactionError

__all__ = ["at", "check_file", "foreign"]

_NUMBERED = re.compile(r"\?(\d+)")
_NAMED = re.compile(r"(?<![\w:]):([a-z_]+)")


def at(now: int, values: Row | Mapping[str, object]) -> Row | Mapping[str, object]:
    """Return the values of a statement that is run at this time."""
    return {**values, "now": now} if isinstance(values, Mapping) else values


def foreign(sql: str, values: Row | Mapping[str, object], style: Style) -> Statement:
    """Return the statement with its values, for a driver of this style; a list among named ones travels as JSON."""
    if isinstance(values, Mapping):
        names = list(dict.fromkeys(_NAMED.findall(sql)))
        sql = _NAMED.sub(lambda name: f"?{names.index(name[1]) + 1}", sql)
        values = tuple(as_json(value) if isinstance(value := values[name], list) else value for name in names)
    if style == "qmark":
        return Statement(sql, values)
    formatted, order = _formatted(sql)
    return Statement(formatted, [values[number] for number in order])


@cache
def _formatted(sql: str) -> tuple[str, Sequence[int]]:
    """Return SQL with ``%s`` for parameters, and which value each stands for.

    >>> _formatted("?1, ?2 % ?1")
    ('%s, %s %% %s', (0, 1, 0))
    """
    order = tuple(int(number) - 1 for number in _NUMBERED.findall(sql))
    return _NUMBERED.sub("%s", sql.replace("%", "%%")), order


def check_file(ours: Path, files: Rows) -> None:
    """Raise if a caller's connection has another file: no worker would find its jobs."""
    theirs = next((file for _, name, file in files if name == "main"), "")
    if not theirs or not Path(theirs).exists() or not ours.samefile(theirs):
        raise TransactionError(
            f"the connection's file is {theirs or 'in memory'} and the jobs are in {ours}: a transaction joins only "
            f"jobs of the same file"
        )
