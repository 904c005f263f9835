"""Bringing a database's tables up to date: plain SQL files, applied in order, each of them once."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.postgres.connection import Connection
from onward.backends.sql import migrations, sections
from onward.backends.sql.migrations import Migration

__all__ = ["Migration", "known", "migrate", "missing", "script", "version"]

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('onward_migrations'))"
_BRIEFLY = "SET LOCAL lock_timeout = '3s'"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS onward_migrations "
    "(version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)"
)


def known() -> list[Migration]:
    """Return the migrations of this version of Onward, in order."""
    return migrations.shipped("onward.backends.postgres")


def version(connection: Connection, prefix: str) -> int:
    """Return the number of the newest migration that this database has; 0 if it has none."""
    # From the catalog: `to_regclass` remembers what it found until the transaction ends.
    found = connection.execute(
        "SELECT 1 FROM pg_class WHERE relname = $1 AND relkind = 'r' AND pg_table_is_visible(oid)",
        (f"{prefix}migrations",),
    ).fetchone()
    if found is None:
        return 0
    newest = connection.execute(_ours("SELECT max(version) FROM onward_migrations", prefix)).fetchone()
    return (newest and newest[0]) or 0


def missing(connection: Connection, prefix: str) -> list[Migration]:
    """Return the migrations that this database lacks.  Raises for a database that is newer than this code."""
    return migrations.missing(known(), version(connection, prefix))


def migrate(connection: Connection, prefix: str, *, moved: int | None = None) -> list[Migration]:
    """Apply the missing migrations, and return them.  A database that is newer than this code is left alone."""
    if not missing(connection, prefix):
        return []
    with connection.transaction():
        # One process at a time; then look again, because another may have been first.
        connection.execute(_ours(_LOCK, prefix))
        pending = missing(connection, prefix)
        # A transaction that waits for a whole table keeps all others waiting behind it: so not for long.
        connection.execute(_BRIEFLY.encode())
        for migration in pending:
            _apply(connection, migration, prefix, moved)
    return pending


def script(pending: Sequence[Migration], prefix: str) -> str:
    """Return the statements of `migrate` as a script for `psql`."""
    lines = ["BEGIN;", f"{_LOCK};", f"{_BRIEFLY};", f"{_TABLE};"]
    for migration in pending:
        lines += [
            f"-- {migration.name}",
            migration.sql.strip(),
            f"INSERT INTO onward_migrations VALUES ({migration.version}, '{migration.name}', onward_now(NULL));",  # noqa: S608  the name of a file of ours
        ]
    return sections.prefixed("\n".join([*lines, "COMMIT;"]), prefix)


def _apply(connection: Connection, migration: Migration, prefix: str, moved: int | None) -> None:
    connection.execute(_ours(_TABLE, prefix))
    # Without parameters: then one message may hold many statements.
    connection.execute(_ours(migration.sql, prefix), prepare=False)
    connection.execute(
        _ours("INSERT INTO onward_migrations VALUES ($1, $2, onward_now($3))", prefix),
        (migration.version, migration.name, moved),
    )


def _ours(sql: str, prefix: str) -> bytes:
    return sections.prefixed(sql, prefix).encode()
