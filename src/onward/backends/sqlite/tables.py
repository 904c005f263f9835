"""The tables of a file, without opening it as a store: which migrations it lacks, and applying them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from onward.backend import Migration
from onward.backends.sql.sections import prefix_of
from onward.backends.sqlite import errors, schema
from onward.backends.sqlite.backend import SqliteBackend
from onward.backends.sqlite.url import parse_url

__all__ = ["SqliteTables"]


class SqliteTables:
    def __init__(self, url: str, namespace: str = "default") -> None:
        path, options = parse_url(url)
        self._url = url
        self._namespace = namespace
        self._prefix = prefix_of(namespace)
        self._file = Path(path).absolute()
        self._busy_timeout = options.get("busy_timeout", 30.0)

    def pending(self) -> Sequence[Migration]:
        if not self._file.exists():
            return schema.known()
        address = f"{self._file.as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=self._busy_timeout)) as connection:
                return schema.missing(connection, self._prefix)
        except sqlite3.Error as error:
            raise errors.translation(error, self._file) from error

    def script(self) -> str:
        pending = self.pending()
        return schema.script(pending, self._prefix) if pending else ""

    def migrate(self) -> Sequence[Migration]:
        pending = self.pending()
        with closing(SqliteBackend.from_url(self._url, namespace=self._namespace)) as backend:
            backend.connect()  # this migrates the file
        return pending

    def close(self) -> None:
        """Do nothing: no connection is kept open."""
