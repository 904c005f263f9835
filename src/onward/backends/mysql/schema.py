"""Bringing a database's tables up to date: plain SQL files, applied in order, each of them once.

Neither database can undo a CREATE TABLE.  So the statements of a file can be run again, and its number is written last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward.backends.mysql.connection import Connection
from onward.backends.mysql.literals import literal
from onward.backends.mysql.queries import CLOCK
from onward.backends.sql import migrations, sections
from onward.backends.sql.migrations import Migration
from onward.backends.sql.sections import TABLES
from onward.backends.sql.text import TextColumns
from onward.errors import BackendUnavailable

__all__ = ["FLOW_TABLES", "Migration", "known", "migrate", "missing", "script", "text_columns", "version"]

FLOW_TABLES = ("flows", "nodes", "additions", "members")

_LOCK_TIMEOUT = 60  # seconds to wait for another process that migrates
_LOCK = (
    "left(sha2(concat(database(), '.onward_migrations'), 256), 60)"  # its name is the server's, and has 64 characters
)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS onward_migrations "
    "(version int PRIMARY KEY, name varchar(200) NOT NULL, applied_at bigint NOT NULL) ENGINE = InnoDB"
)


def known() -> list[Migration]:
    """Return the migrations of this version of Onward, in order."""
    return migrations.shipped("onward.backends.mysql")


def version(connection: Connection, prefix: str) -> int:
    """Return the number of the newest migration that this database has; 0 if it has none."""
    table = literal(f"{prefix}migrations")
    (found,) = connection.send(
        b"SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = " + table
    )
    if not found.rows:
        return 0
    (newest,) = connection.send(_ours("SELECT max(version) FROM onward_migrations", prefix))
    return newest.rows[0][0] or 0


def missing(connection: Connection, prefix: str) -> list[Migration]:
    """Return the migrations that this database lacks.  Raises for a database that is newer than this code."""
    return migrations.missing(known(), version(connection, prefix))


def text_columns(connection: Connection, prefix: str) -> Iterator[TextColumns]:
    """Yield the columns of each table that hold text; keys do, as bytes."""
    for name in (*TABLES, *FLOW_TABLES):
        (described,) = connection.send(
            b"SELECT column_name, column_key = 'PRI' FROM information_schema.columns WHERE table_schema = database() "
            b"AND (data_type IN ('varchar', 'longtext', 'varbinary') OR extra = 'auto_increment') "
            b"AND coalesce(generation_expression, '') = '' AND table_name = " + literal(f"{prefix}{name}")
        )
        texts = [f"`{column}`" for column, _ in described.rows]
        keys = [f"`{column}`" for column, is_key in described.rows if is_key]
        yield TextColumns(f"{prefix}{name}", texts, keys)


def migrate(connection: Connection, prefix: str, *, moved: int | None = None) -> list[Migration]:
    """Apply the missing migrations, and return them.  A database that is newer than this code is left alone."""
    if not missing(connection, prefix):
        return []
    # One process at a time; then look again, because another may have been first.
    (lock,) = connection.send(_ours(f"SELECT get_lock({_LOCK}, {_LOCK_TIMEOUT})", prefix))
    if lock.rows[0][0] != 1:
        raise BackendUnavailable(
            f"{connection.place}: another process has been migrating this database for {_LOCK_TIMEOUT} s: try again"
        )
    try:
        pending = missing(connection, prefix)
        for migration in pending:
            connection.send(_ours(f"{_TABLE};{_statements(migration)};{_noted(migration, moved)}", prefix))
    finally:
        if connection.in_step:
            connection.send(_ours(f"SELECT release_lock({_LOCK})", prefix))
    return pending


def script(pending: Sequence[Migration], prefix: str) -> str:
    """Return the statements of `migrate` as a script for the server's own client."""
    lines = [f"DO get_lock({_LOCK}, {_LOCK_TIMEOUT});", f"{_TABLE};"]
    for migration in pending:
        lines += [f"-- {migration.name}", migration.sql.strip(), f"{_noted(migration, None)};"]
    return sections.prefixed("\n".join([*lines, f"DO release_lock({_LOCK});"]), prefix)


def _statements(migration: Migration) -> str:
    lines = (line.split("--", 1)[0].rstrip() for line in migration.sql.splitlines())
    return "\n".join(line for line in lines if line).removesuffix(";")


def _noted(migration: Migration, moved: int | None) -> str:
    now = CLOCK.decode() if moved is None else moved
    return f"INSERT INTO onward_migrations VALUES ({migration.version}, '{migration.name}', {now})"  # noqa: S608  a file of ours


def _ours(sql: str, prefix: str) -> bytes:
    return sections.prefixed(sql, prefix).encode()
