"""Bringing a file's tables up to date: plain SQL files, applied in order, each of them once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from onward.backends.sql import migrations, sections
from onward.backends.sql.migrations import Migration
from onward.backends.sql.sections import TABLES
from onward.backends.sql.text import TextColumns

__all__ = ["FLOW_TABLES", "Migration", "known", "migrate", "missing", "script", "text_columns", "version"]

FLOW_TABLES = ("flows", "nodes")

_TABLE = (
    "CREATE TABLE IF NOT EXISTS onward_migrations "
    "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
)


def known() -> list[Migration]:
    """Return the migrations of this version of Onward, in order."""
    return migrations.shipped("onward.backends.sqlite")


def version(connection: sqlite3.Connection, prefix: str) -> int:
    """Return the number of the newest migration that this file has; 0 if it has none."""
    table = f"{prefix}migrations"
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone() is None:
        return 0
    (newest,) = connection.execute(sections.prefixed("SELECT max(version) FROM onward_migrations", prefix)).fetchone()
    return newest or 0


def missing(connection: sqlite3.Connection, prefix: str) -> list[Migration]:
    """Return the migrations that this file lacks.  Raises for a file that is newer than this code."""
    return migrations.missing(known(), version(connection, prefix))


def text_columns(connection: sqlite3.Connection, prefix: str) -> Iterator[TextColumns]:
    """Yield the columns of each table that hold text."""
    for name in (*TABLES, *FLOW_TABLES):
        described = connection.execute(f"PRAGMA table_info({prefix}{name})").fetchall()
        has_text_key = any(kind == "TEXT" and key for _, _, kind, _, _, key in described)
        texts = [
            (column, key)
            for _, column, kind, _, _, key in described
            if kind == "TEXT" or (key and not has_text_key)  # a number, read as bytes, is text
        ]
        yield TextColumns(f"{prefix}{name}", [column for column, _ in texts], [column for column, key in texts if key])


def script(pending: Sequence[Migration], prefix: str) -> str:
    """Return the statements of `migrate` as a script for the program `sqlite3`."""
    lines = ["BEGIN IMMEDIATE;", f"{_TABLE};"]
    for migration in pending:
        now = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
        lines += [
            f"-- {migration.name}",
            migration.sql.strip(),
            f"INSERT INTO onward_migrations VALUES ({migration.version}, '{migration.name}', {now});",  # noqa: S608  the name of a file of ours
        ]
    return sections.prefixed("\n".join([*lines, "COMMIT;"]), prefix)


def migrate(connection: sqlite3.Connection, prefix: str, *, now: int) -> None:
    """Apply the missing migrations.  A file that is newer than this code is left alone."""
    if not missing(connection, prefix):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been first, so look again under the lock.
        for migration in missing(connection, prefix):
            _apply(connection, migration, prefix, now)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, migration: Migration, prefix: str, now: int) -> None:
    connection.execute(sections.prefixed(_TABLE, prefix))
    for statement in _statements(sections.prefixed(migration.sql, prefix)):
        connection.execute(statement)
    row = (migration.version, migration.name, now)
    connection.execute(sections.prefixed("INSERT INTO onward_migrations VALUES (?, ?, ?)", prefix), row)


def _statements(sql: str) -> Iterator[str]:
    # executescript() would commit first.
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
