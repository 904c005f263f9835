"""Bytes in text columns that are no text.

SQLite stores any bytes in a text column, MariaDB halves of characters: drivers raise when they read them.  The backend
rewrites such cells, escaped, and calls the verb that failed once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onward.base.logs import get_logger

__all__ = ["TextColumns", "Unreadable", "escaped", "unreadable"]

logger = get_logger("onward.backend")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class TextColumns(NamedTuple):
    """The columns of a table that hold text, and those of them that are its key."""

    table: str
    texts: Sequence[str]
    keys: Sequence[str]

    def select(self, cast: str) -> str:
        """Return the statement that reads all of them as bytes; ``cast`` is the dialect's expression for that."""
        columns = ", ".join(cast.format(name) for name in self.texts)
        return f"SELECT {columns} FROM {self.table}"  # noqa: S608 - names of our own schema


class Unreadable(NamedTuple):
    """A row with text that cannot be read: its table, its key as bytes, and the columns as they should be."""

    table: str
    key: Mapping[str, bytes]
    columns: Mapping[str, str]

    def update(self, cast: str, mark: str, *, if_taken: str = "") -> tuple[str, list[Any]]:
        """Return the statement that rewrites the row, and its values.  ``if_taken``: what to do if the key exists."""
        new = ", ".join(f"{name} = {mark}" for name in self.columns)
        where = " AND ".join(f"{cast.format(name)} = {mark}" for name in self.key)
        for name, text in self.columns.items():
            logger.critical("%s had bytes in %s that are no text; they were replaced by %.200s", self.table, name, text)
        statement = f"UPDATE {if_taken} {self.table} SET {new} WHERE {where}"  # noqa: S608 - names of our own schema
        return statement, [*self.columns.values(), *self.key.values()]


def escaped(data: bytes) -> str:
    r"""Return bytes as text, with escapes for those that are no text.

    >>> escaped(b"caf\xff")
    'caf\\xff'
    """
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def unreadable(columns: TextColumns, rows: Iterable[Sequence[bytes | None]]) -> Iterator[Unreadable]:
    """Yield those of these rows whose bytes are no text."""
    for row in rows:
        held = dict(zip(columns.texts, row, strict=True))
        right = {name: _readable(data, is_key=name in columns.keys) for name, data in held.items() if data is not None}
        wrong = {name: text for name, text in right.items() if text.encode() != held[name]}
        if wrong:
            yield Unreadable(columns.table, {name: held[name] or b"" for name in columns.keys}, wrong)


def _readable(data: bytes, *, is_key: bool) -> str:
    """Return bytes as text, escaped if they are none.  A key must have no control characters: statements compare by it."""
    text = escaped(data)
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text) if is_key else text
