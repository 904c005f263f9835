"""Keeping the file and its log small, a little at a time; and its text readable."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from onward.backends.sql import text
from onward.backends.sqlite import connection as connection_settings
from onward.backends.sqlite import errors, schema
from onward.backends.sqlite.connection import Connections
from onward.backends.sqlite.health import wal_size

__all__ = ["repair_text", "tidy"]

_PAGES = 500  # two megabytes at most, so that no process waits for long
_WORTH_IT = 1_000
_AS_BYTES = "CAST({} AS BLOB)"


def tidy(connection: sqlite3.Connection, path: Path) -> None:
    """Shrink the file and its log if that is worth it; if a lock is in the way, the next sweep does it."""
    try:
        _vacuum_a_little(connection)
        _shorten_log(connection, path)
    except sqlite3.OperationalError as error:
        if not errors.is_busy(error):
            raise


def _vacuum_a_little(connection: sqlite3.Connection) -> None:
    """Give pages back to the file system, if many are empty: a few are soon used again."""
    (empty,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if empty > _WORTH_IT and empty > pages // 4:
        # Each step of this statement frees one page, and execute() takes one step: a script is run to its end.
        connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")


def _shorten_log(connection: sqlite3.Connection, path: Path) -> None:
    """Write a log that has grown too long back into the file and cut it off."""
    if wal_size(path) > connection_settings.WAL_LIMIT:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def repair_text(connections: Connections, prefix: str) -> int:
    """Escape bytes that are no text; return how many rows had them."""
    with connections.reading() as connection:
        found = [
            row
            for columns in schema.text_columns(connection, prefix)
            for row in text.unreadable(columns, connection.execute(columns.select(_AS_BYTES)))
        ]
    if found:
        with connections.writing() as connection:
            for row in found:
                # There may already be a row with the escaped key, by chance or by design: it is replaced.
                connection.execute(*row.update(_AS_BYTES, "?", if_taken="OR REPLACE"))
    return len(found)
