"""The SQL of `queries.sql` by name, with numbered parameters and the name of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from onward.backends.sql import sections

__all__ = ["Section", "load", "numbered"]

_PARAMETER = re.compile(r":([a-z_]+)")


class Section(NamedTuple):
    """A section of `queries.sql` as the server takes it: ``$1`` is the value of ``names[0]``."""

    sql: bytes  # of our files alone; the prefix is made of a checked namespace
    names: tuple[str, ...]


@cache
def load(prefix: str) -> Mapping[str, Section]:
    """Return every statement by its name, for the tables that start with ``prefix``."""
    return {name: numbered(sql) for name, sql in sections.load("onward.backends.postgres", prefix).items()}


def numbered(sql: str) -> Section:
    """Replace the names of parameters by numbers.

    >>> numbered("SELECT :id, :queue, :id")
    Section(sql=b'SELECT $1, $2, $1', names=('id', 'queue'))
    """
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    return Section(_PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql).encode(), names)
