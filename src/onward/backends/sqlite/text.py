"""Text that is no text.  SQLite keeps whatever bytes a text column is given, and its driver raises when it reads them.

The connection that reads shows such bytes escaped.  The one that writes raises: an id that was read escaped would match no
row.  Then the cells are rewritten, escaped, and the verb is called once more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from onward.logs import get_logger

__all__ = ["escaped", "repair", "unreadable"]

logger = get_logger("onward.backend.sqlite")

TABLES = ("jobs", "finished", "attempts", "sessions", "queues", "holds")
_IS_KEY = 5  # in the rows of PRAGMA table_info


class Unreadable(NamedTuple):
    """A row with text that cannot be read: where it is, its key, and the columns as they should be."""

    table: str
    key: dict[str, bytes]
    columns: dict[str, str]


def escaped(data: bytes) -> str:
    r"""
    >>> escaped(b"caf\xff")
    'caf\\xff'
    """
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def unreadable(connection: sqlite3.Connection, prefix: str) -> Iterator[Unreadable]:
    """Every row of every table that holds such text."""
    for table in TABLES:
        described = connection.execute(f"PRAGMA table_info({prefix}{table})").fetchall()
        texts = [name for _, name, kind, *_ in described if kind == "TEXT"]
        keys = [row[1] for row in described if row[_IS_KEY]]
        casts = ", ".join(f"CAST({name} AS BLOB)" for name in texts)
        for row in connection.execute(f"SELECT {casts} FROM {prefix}{table}"):  # noqa: S608 - our own names
            held = dict(zip(texts, row, strict=True))
            wrong = {name: escaped(data) for name, data in held.items() if data is not None and not _is_text(data)}
            if wrong:
                yield Unreadable(table, {name: held[name] for name in keys if name in held}, wrong)


def repair(connection: sqlite3.Connection, prefix: str, row: Unreadable) -> int:
    """Rewrite its text, escaped, in a transaction of the caller's; gives how many rows that were."""
    new = ", ".join(f"{name} = ?" for name in row.columns)
    where = " AND ".join(f"CAST({name} AS BLOB) = ?" for name in row.key)
    # A row of the escaped key may be there already, by chance or by design: that one is replaced.
    statement = f"UPDATE OR REPLACE {prefix}{row.table} SET {new} WHERE {where}"  # noqa: S608 - our own names
    count = connection.execute(statement, (*row.columns.values(), *row.key.values())).rowcount
    for name, text in row.columns.items():
        logger.critical("%s%s held bytes in %s that are no text; they are %.200s now", prefix, row.table, name, text)
    return count


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
