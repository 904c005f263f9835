"""Text that is no text.

SQLite keeps whatever bytes a text column is given, MariaDB keeps halves of characters: drivers raise when they read them.
The cells are rewritten, escaped, and the verb that failed is called once more.
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
        """All of them as bytes; ``cast`` is how a dialect says that."""
        columns = ", ".join(cast.format(name) for name in self.texts)
        return f"SELECT {columns} FROM {self.table}"  # noqa: S608 - names of our own schema


class Unreadable(NamedTuple):
    """A row with text that cannot be read: its table, its key as bytes, and the columns as they should be."""

    table: str
    key: Mapping[str, bytes]
    columns: Mapping[str, str]

    def update(self, cast: str, mark: str, *, if_taken: str = "") -> tuple[str, list[Any]]:
        """The statement that rewrites it, and its values; ``if_taken`` says what to do if there is a row of that key."""
        new = ", ".join(f"{name} = {mark}" for name in self.columns)
        where = " AND ".join(f"{cast.format(name)} = {mark}" for name in self.key)
        for name, text in self.columns.items():
            logger.critical("%s held bytes in %s that are no text; they are %.200s now", self.table, name, text)
        statement = f"UPDATE {if_taken} {self.table} SET {new} WHERE {where}"  # noqa: S608 - names of our own schema
        return statement, [*self.columns.values(), *self.key.values()]


def escaped(data: bytes) -> str:
    r"""
    >>> escaped(b"caf\xff")
    'caf\\xff'
    """
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def unreadable(columns: TextColumns, rows: Iterable[Sequence[bytes | None]]) -> Iterator[Unreadable]:
    """Those of these rows that hold such text."""
    for row in rows:
        held = dict(zip(columns.texts, row, strict=True))
        right = {name: _readable(data, is_key=name in columns.keys) for name, data in held.items() if data is not None}
        wrong = {name: text for name, text in right.items() if text.encode() != held[name]}
        if wrong:
            yield Unreadable(columns.table, {name: held[name] or b"" for name in columns.keys}, wrong)


def _readable(data: bytes, *, is_key: bool) -> str:
    """The text itself, if it is one.  By a key rows are found, also by statements to which a control character is none."""
    text = escaped(data)
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text) if is_key else text
