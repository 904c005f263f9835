"""The SQL of a `queries.sql` by name: ``-- name: claim``, a comment that says why, one statement.

What statements have in common is written once, behind ``-- part: clock``, and stands where ``-- include: clock`` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from onward.base.names import namespace_name
from onward.base.package_files import folder_of

__all__ = ["TABLES", "emptying", "load", "prefix_of", "prefixed", "sections"]

# Those that hold what a store knows of its jobs, under the same names in every database.
TABLES = (
    "jobs",
    "finished",
    "attempts",
    "sessions",
    "queues",
    "holds",
    "notes",
    "audit",
    "schedules",
    "limits",
    "gates",
    "series",
)

_NAME = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\w+)\n", re.MULTILINE)
_PREFIX = re.compile(r"\bonward_")


@cache
def load(package: str, prefix: str) -> Mapping[str, str]:
    """Return every statement of the package by its name, for the tables that start with ``prefix``."""
    text = folder_of(package).joinpath("queries.sql").read_text(encoding="utf-8")
    return {name: prefixed(statement, prefix) for name, statement in sections(text).items()}


def sections(text: str) -> dict[str, str]:
    r"""Return the statements of a file by name, without comments.

    >>> sections("-- name: one\n-- The first.\nSELECT 1;\n")
    {'one': 'SELECT 1'}
    >>> sections("-- part: number\n1\n\n-- name: one\nSELECT\n-- include: number\n;\n")
    {'one': 'SELECT\n1'}

    What could not be included, or stands there twice, is a mistake in our files:

    >>> sections("-- name: one\nSELECT\n -- include: number\n;\n")
    Traceback (most recent call last):
    ValueError: '-- include: number' stands in a part, is indented, or has a blank at its end
    >>> sections("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")
    Traceback (most recent call last):
    ValueError: two sections have one name: one
    """
    _, *found = _NAME.split(text)
    bodies = list(zip(found[::3], found[1::3], found[2::3], strict=True))
    names = [name for _, name, _ in bodies]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two sections have one name: {', '.join(twice)}")
    parts = {name: f"{body.strip()}\n" for kind, name, body in bodies if kind == "part"}
    return {
        name: _statement(_INCLUDE.sub(lambda include: parts[include[1]], body))
        for kind, name, body in bodies
        if kind == "name"
    }


def prefix_of(namespace: str) -> str:
    """Return the prefix of a namespace's tables.

    >>> prefix_of("default"), prefix_of("mail")
    ('onward_', 'onward_mail_')
    """
    return "onward_" if namespace == "default" else f"onward_{namespace_name(namespace)}_"


def prefixed(sql: str, prefix: str) -> str:
    """Put the prefix into SQL: the only substitution there is.  A prefix is made of a checked namespace."""
    return _PREFIX.sub(prefix, sql)


def emptying(prefix: str, *others: str) -> list[str]:
    """Return the statements that leave nothing in the tables, nor in these others."""
    return [f"DELETE FROM {prefix}{table}" for table in (*TABLES, *others)]  # noqa: S608  a prefix is a namespace, and was checked


def _statement(body: str) -> str:
    # So that no database parses comments again for every connection.
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    for line in body.splitlines():
        if line.lstrip().startswith("-- include:"):
            raise ValueError(f"{line.strip()!r} stands in a part, is indented, or has a blank at its end")
    return "\n".join(lines).strip().removesuffix(";").rstrip()
