"""Bringing a database's tables up to date: plain SQL files, applied in order, each of them once."""

from __future__ import annotations

from onward.backends.postgres.connection import Connection
from onward.backends.sql import migrations, sections
from onward.backends.sql.migrations import Migration

__all__ = ["Migration", "known", "migrate", "version"]


def known() -> list[Migration]:
    """What ships with this Onward, in order."""
    return migrations.shipped("onward.backends.postgres")


def version(connection: Connection, prefix: str) -> int:
    """The newest migration this database has; 0 if it has none."""
    # By a look into the catalog: what `to_regclass` found once, it remembers until the transaction ends.
    found = connection.execute(
        "SELECT 1 FROM pg_class WHERE relname = $1 AND relkind = 'r' AND pg_table_is_visible(oid)",
        (f"{prefix}migrations",),
    ).fetchone()
    if found is None:
        return 0
    newest = connection.execute(_ours("SELECT max(version) FROM onward_migrations", prefix)).fetchone()
    return (newest and newest[0]) or 0


def migrate(connection: Connection, prefix: str, *, moved: int | None = None) -> None:
    """Apply what is missing.  A database that is newer than this code is left alone."""
    if not _missing(connection, prefix):
        return
    with connection.transaction():
        # One at a time, whoever else starts at this moment; then look again, for another may have been first.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", (f"{prefix}migrations",))
        for migration in _missing(connection, prefix):
            _apply(connection, migration, prefix, moved)


def _missing(connection: Connection, prefix: str) -> list[Migration]:
    return migrations.missing(known(), version(connection, prefix))


def _apply(connection: Connection, migration: Migration, prefix: str, moved: int | None) -> None:
    connection.execute(
        _ours(
            "CREATE TABLE IF NOT EXISTS onward_migrations "
            "(version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)",
            prefix,
        )
    )
    # Without parameters: then one message may hold many statements.
    connection.execute(_ours(migration.sql, prefix), prepare=False)
    connection.execute(
        _ours("INSERT INTO onward_migrations VALUES ($1, $2, onward_now($3))", prefix),
        (migration.version, migration.name, moved),
    )


def _ours(sql: str, prefix: str) -> bytes:
    return sections.prefixed(sql, prefix).encode()
