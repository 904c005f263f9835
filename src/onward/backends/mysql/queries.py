"""The SQL of `queries.sql` by name, cut at its parameters.  A section may hold several statements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from onward.backends.sql import sections

__all__ = ["CLOCK", "Section", "load", "parted", "singly"]

# The store's clock in microseconds UTC, whatever the time zone of the session.
CLOCK = b"timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))"

# Columns of a JSON_TABLE have the character set of the connection, or since MariaDB 10.11.19 that of the database, which may
# know 256 characters: every other would be replaced by a question mark.
_COLUMN = re.compile(r"(varchar\(\d+\)|longtext) PATH")
_PARAMETER = re.compile(r"(?<![\w:]):([a-z_]+)")


class Section(NamedTuple):
    """A section of `queries.sql`: text and parameters by turns, from text to text; ``number`` statements in all."""

    texts: tuple[bytes, ...]
    names: tuple[str, ...]
    number: int


@cache
def load(prefix: str) -> Mapping[str, Section]:
    """Return every statement by its name, for the tables that start with ``prefix``."""
    return {name: parted(_in_utf8(sql)) for name, sql in sections.load("onward.backends.mysql", prefix).items()}


def _in_utf8(sql: str) -> str:
    """Add a character set to the text columns of JSON_TABLE.

    >>> _in_utf8("COLUMNS (id varchar(64) PATH '$')")
    "COLUMNS (id varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')"
    """
    return _COLUMN.sub(r"\1 CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH", sql)


def parted(sql: str) -> Section:
    """Cut SQL at its parameters.

    >>> parted("SELECT :id; SELECT 1")
    Section(texts=(b'SELECT ', b'; SELECT 1'), names=('id',), number=2)
    """
    parts = _PARAMETER.split(sql)
    return Section(tuple(text.encode() for text in parts[::2]), tuple(parts[1::2]), sql.count(";") + 1)


@cache
def singly(statement: Section) -> tuple[Section, ...]:
    """Return the statements of a section, each by itself.

    >>> [(each.texts, each.names) for each in singly(parted("SELECT :id; SELECT 1, :id"))]
    [((b'SELECT ', b''), ('id',)), ((b' SELECT 1, ', b''), ('id',))]
    """
    found: list[Section] = []
    texts: list[bytes] = []
    names: list[str] = []
    for text, name in zip_longest(statement.texts, statement.names):
        *ended, begun = text.split(b";")
        for part in ended:
            found.append(Section((*texts, part), tuple(names), 1))
            texts, names = [], []
        texts.append(begun)
        if name is not None:
            names.append(name)
    return (*found, Section(tuple(texts), tuple(names), 1))
