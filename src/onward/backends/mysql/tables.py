"""The tables of a database, without opening it as a store: which migrations it lacks, and applying them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from onward.backend import Migration
from onward.backends.mysql import errors, schema
from onward.backends.mysql.connection import Connection, Connections
from onward.backends.mysql.driver import pymysql
from onward.backends.mysql.url import parse_url
from onward.backends.sql.sections import prefix_of
from onward.errors import BackendMisconfigured

__all__ = ["MySQLTables", "preparation"]


class MySQLTables:
    def __init__(self, url: str, namespace: str = "default") -> None:
        address, options = parse_url(url)
        self._prefix = prefix_of(namespace)
        self._connections = Connections(address, options, prepare=lambda _: None)

    def pending(self) -> Sequence[Migration]:
        with self._connected() as connection:
            return schema.missing(connection, self._prefix)

    def script(self) -> str:
        pending = self.pending()
        return schema.script(pending, self._prefix) if pending else ""

    def migrate(self) -> Sequence[Migration]:
        with self._connected() as connection:
            return _migrated(connection, self._prefix, None)

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with errors.translated(self._connections.place), self._connections.borrowed() as connection:
            yield connection


def preparation(prefix: str, moved: int | None) -> Callable[[Connection], None]:
    """Return the function for a process's first connection: it migrates the tables, or raises and says who has to."""

    def prepare(connection: Connection) -> None:
        _migrated(connection, prefix, moved)

    return prepare


def _migrated(connection: Connection, prefix: str, moved: int | None) -> list[Migration]:
    try:
        return schema.migrate(connection, prefix, moved=moved)
    except pymysql.err.MySQLError as error:
        if not errors.is_denied(error):
            raise
        raise BackendMisconfigured(
            f"{connection.place}: the tables {prefix}* are not up to date, and this user may not change them "
            f"({error.args[-1]}): run `onward migrate` as their owner"
        ) from error
