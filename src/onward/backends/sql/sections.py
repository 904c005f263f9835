"""The SQL of a `queries.sql` by name: ``-- name: claim``, a comment that says why, one statement."""

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

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
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
    """
    _, *parts = _NAME.split(text)
    return {name: _statement(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


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
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().removesuffix(";")
