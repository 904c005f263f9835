"""Bringing a database's tables up to date: plain SQL files, applied in order, each of them once.

Neither database can undo a CREATE TABLE.  So the statements of a file may be run again, and its number is written last.
"""

from __future__ import annotations

import hashlib

from onward.backends.mysql.connection import Connection
from onward.backends.mysql.literals import literal
from onward.backends.mysql.queries import CLOCK
from onward.backends.sql import migrations, sections
from onward.backends.sql.migrations import Migration
from onward.errors import BackendUnavailable

__all__ = ["Migration", "known", "migrate", "version"]

_PATIENCE = 60  # seconds to wait for whoever migrates at this moment


def known() -> list[Migration]:
    """What ships with this Onward, in order."""
    return migrations.shipped("onward.backends.mysql")


def version(connection: Connection, prefix: str) -> int:
    """The newest migration this database has; 0 if it has none."""
    table = literal(f"{prefix}migrations")
    (found,) = connection.send(
        b"SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = " + table
    )
    if not found.rows:
        return 0
    (newest,) = connection.send(_ours("SELECT max(version) FROM onward_migrations", prefix))
    return newest.rows[0][0] or 0


def migrate(connection: Connection, prefix: str, *, moved: int | None = None) -> None:
    """Apply what is missing.  A database that is newer than this code is left alone."""
    if not _missing(connection, prefix):
        return
    # One at a time, whoever else starts at this moment; then look again, for another may have been first.
    (database,) = connection.send(b"SELECT database()")
    name = literal("onward " + hashlib.sha256(f"{database.rows[0][0]}.{prefix}".encode()).hexdigest()[:40])
    (lock,) = connection.send(b"SELECT get_lock(%s, %d)" % (name, _PATIENCE))
    if lock.rows[0][0] != 1:
        raise BackendUnavailable(
            f"{connection.place}: somebody else has been migrating it for {_PATIENCE} s: try again"
        )
    try:
        for migration in _missing(connection, prefix):
            _apply(connection, migration, prefix, moved)
    finally:
        if connection.in_step:
            connection.send(b"SELECT release_lock(%s)" % name)


def _missing(connection: Connection, prefix: str) -> list[Migration]:
    return migrations.missing(known(), version(connection, prefix))


def _apply(connection: Connection, migration: Migration, prefix: str, moved: int | None) -> None:
    connection.send(
        _ours(
            "CREATE TABLE IF NOT EXISTS onward_migrations "
            "(version int PRIMARY KEY, name varchar(200) NOT NULL, applied_at bigint NOT NULL) ENGINE = InnoDB",
            prefix,
        )
    )
    connection.send(_ours(_without_comments(migration.sql), prefix))
    now = CLOCK if moved is None else b"%d" % moved
    values = b"%d, %s, %s" % (migration.version, literal(migration.name), now)
    connection.send(_ours("INSERT INTO onward_migrations VALUES ", prefix) + b"(" + values + b")")


def _without_comments(sql: str) -> str:
    lines = (line.split("--", 1)[0].rstrip() for line in sql.splitlines())
    return "\n".join(line for line in lines if line).removesuffix(";")


def _ours(sql: str, prefix: str) -> bytes:
    return sections.prefixed(sql, prefix).encode()
