"""The tables of a database, without opening it as a store: which migrations it lacks, and applying them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from onward.backend import Migration
from onward.backends.postgres import errors, schema
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.url import parse_url
from onward.backends.sql.sections import prefix_of
from onward.errors import BackendMisconfigured, BackendUnavailable

__all__ = ["PostgresTables", "preparation"]


class PostgresTables:
    def __init__(self, url: str, namespace: str = "default") -> None:
        address, options = parse_url(url)
        self._prefix = prefix_of(namespace)
        self._connections = Connections(address, options, prepare=lambda *_: None)

    def pending(self) -> Sequence[Migration]:
        with self._connected() as connection:
            return schema.missing(connection, self._prefix)

    def script(self) -> str:
        pending = self.pending()
        return schema.script(pending, self._prefix) if pending else ""

    def migrate(self) -> Sequence[Migration]:
        with self._connected() as connection:
            return _migrated(connection, self._prefix, None, self._connections.place)

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        place = self._connections.place
        with errors.translated(place), self._connections.borrowed() as connection, _readable(self._prefix, place):
            yield connection


def preparation(prefix: str, moved: int | None) -> Callable[[Connection, str], None]:
    """Return the function for a process's first connection: it migrates the tables, or raises and says who has to."""

    def prepare(connection: Connection, place: str) -> None:
        with _readable(prefix, place):
            pending = schema.missing(connection, prefix)
        if pending:
            _migrated(connection, prefix, moved, place)

    return prepare


def _migrated(connection: Connection, prefix: str, moved: int | None, place: str) -> list[Migration]:
    try:
        return schema.migrate(connection, prefix, moved=moved)
    except psycopg.errors.InsufficientPrivilege as error:
        raise BackendMisconfigured(
            f"{place}: the tables {prefix}* are not up to date, and {connection.info.user} may not change them "
            f"({str(error).splitlines()[0]}): run `onward migrate` as their owner"
        ) from error
    except psycopg.errors.LockNotAvailable as error:
        raise BackendUnavailable(
            f"{place}: the tables {prefix}* are not up to date, and another transaction has them locked: nothing was "
            f"changed, so that no other process has to wait; end it, or try again"
        ) from error


@contextmanager
def _readable(prefix: str, place: str) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise BackendMisconfigured(
            f"{place}: {str(error).splitlines()[0]}: GRANT SELECT ON {prefix}migrations to this role"
        ) from error
