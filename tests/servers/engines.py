"""The stores that whole programs are tested on: where each is, and what a test may do to it past all code of ours.

Another engine is one more line in ``ENGINES``: how its server is started, and a class with the same few things.
"""

import contextlib
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg

from tests.servers import mariadb, redis
from tests.servers.postgres import VERSIONS, postgres_program, postgres_server
from tests.servers.stores import TABLES, emptied


class SqlStore:
    """What a test wants to know, of tables."""

    tables: tuple[str, ...] = TABLES
    _server: Any

    def everything(self) -> bytes:
        """All that is in it, as it lies there."""
        cells = [cell for table in self.tables for row in self.query(f"SELECT * FROM onward_{table}") for cell in row]
        return b"\n".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def deadlocks(self) -> int:
        """How many the server has counted.  A file has one writer at a time."""
        return 0

    def latest_deadlock(self) -> str:
        """What the server tells of it."""
        return str(self._server.latest_deadlock())

    def sessions(self) -> dict[str, int]:
        """Those that are open, with the instants at which they expire."""
        return dict(self.query("SELECT owner, expires_at FROM onward_sessions"))

    def kill_server(self) -> None:
        """Kill it, as if the power had gone, and start it again.  A file has none."""
        self._server.restart(signal.SIGKILL)

    def executing(self) -> int:
        ((count,),) = self.query("SELECT count(*) FROM onward_jobs WHERE state = 'executing'")
        return count

    def finished(self) -> int:
        ((count,),) = self.query("SELECT count(*) FROM onward_finished")
        return count


class SqliteStore(SqlStore):
    """A file."""

    tables = (
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

    def __init__(self, _: Any, folder: Path) -> None:
        self.file = folder / "jobs.db"

    def url(self, *, patience: float | None = None) -> str:
        """``patience``: the seconds that a call waits for a lock."""
        return f"sqlite:///{self.file}" + ("" if patience is None else f"?busy_timeout={patience}")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """No process claims, settles or renews meanwhile; readers go on."""
        with closing(sqlite3.connect(self.file, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")


class PostgresStore(SqlStore):
    """The tables of the default namespace, empty at first."""

    def __init__(self, server: Any, _: Path) -> None:
        self._url = server.url()
        self._server = server
        # A process that was killed by an earlier test may not have ended there yet.
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        emptied(server)

    def url(self, *, patience: float | None = None) -> str:
        wait = "" if patience is None else f"&options={quote(f'-c lock_timeout={round(patience * 1000)}')}"
        return f"{self._url}{wait}"

    def deadlocks(self) -> int:
        return int(self._server.deadlocks())

    def kill_server(self) -> None:
        self._server.restart(signal.SIGQUIT)  # all of its processes

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with psycopg.connect(self._url) as connection:
            tables = ", ".join(f"onward_{table}" for table in TABLES)
            connection.execute(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")
            yield
            connection.rollback()


class MariaDBStore(SqlStore):
    """The tables of the default namespace, empty at first."""

    tables = mariadb.TABLES

    def __init__(self, server: Any, _: Path) -> None:
        self._server = server
        server.end_sessions()
        self._url = server.emptied()

    def url(self, *, patience: float | None = None) -> str:
        return self._url + ("" if patience is None else f"&lock_timeout={max(1, round(patience))}")

    def deadlocks(self) -> int:
        return int(self._server.deadlocks())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self._server.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with closing(self._server.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES " + ", ".join(f"onward_{table} READ" for table in mariadb.TABLES))
            yield
            cursor.execute("UNLOCK TABLES")


class RedisStore:
    """The keys of the default namespace, none at first."""

    def __init__(self, server: Any, _: Path) -> None:
        self._server = server
        with server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)  # of those who were killed by an earlier test
        self._url = redis.emptied(server)

    def url(self, *, patience: float | None = None) -> str:
        """``patience``: the seconds that a call waits for its answer."""
        return self._url if patience is None else self._server.url(timeout=max(1, round(patience)))

    def sessions(self) -> dict[str, int]:
        with self._server.client() as client:
            return {owner.decode(): int(at) for owner, at in client.zrange("{onward}:expiry", 0, -1, withscores=True)}

    def everything(self) -> bytes:
        """All that is in it, as it lies there."""
        with self._server.client() as client:
            return b"\n".join(part for key in client.scan_iter() for part in (key, *_parts(client, key)))

    def deadlocks(self) -> int:
        """A script runs alone."""
        return 0

    def kill_server(self) -> None:
        self._server.restart(signal.SIGKILL)

    def executing(self) -> int:
        with self._server.client() as client:
            return int(client.hget("{onward}:counts", "3") or 0)

    def finished(self) -> int:
        with self._server.client() as client:
            return sum(client.zcard(f"{{onward}}:ended:{state}") for state in (5, 6, 7))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with self._server.client() as client:
            client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            try:
                yield
            finally:
                client.execute_command("CLIENT", "UNPAUSE")


def _parts(client: Any, key: bytes) -> Iterator[bytes]:
    match client.type(key):
        case b"string":
            yield client.get(key)
        case b"hash":
            for pair in client.hgetall(key).items():
                yield from pair
        case b"zset":
            yield from client.zrange(key, 0, -1)
        case b"set":
            yield from client.smembers(key)
        case b"list":
            yield from client.lrange(key, 0, -1)
        case kind:
            raise AssertionError(f"{key!r} is a {kind!r}, which is not read here")


class Engine(NamedTuple):
    server: Callable[[], AbstractContextManager[Any]]
    store: Callable[[Any, Path], Any]


ENGINES = {
    "sqlite": Engine(nullcontext, SqliteStore),
    "postgres": Engine(partial(postgres_server, VERSIONS[-1]), PostgresStore),
    "mariadb": Engine(mariadb.mariadb_server, MariaDBStore),
    "redis": Engine(partial(redis.redis_server, "redis"), RedisStore),
}


@contextlib.contextmanager
def private_store(name: str, folder: Path) -> Iterator[Any]:
    """A store on a server of its own."""
    engine = ENGINES[name]
    with engine.server() as server:
        yield engine.store(server, folder)


def version_of(name: str) -> str:
    """Which version of an engine the proofs run on; nothing if it has none."""
    if name == "sqlite":
        return sqlite3.sqlite_version
    programs = {"postgres": partial(postgres_program, VERSIONS[-1]), "mariadb": mariadb.mariadb_program}
    programs["redis"] = partial(redis.redis_program, "redis")
    if name not in programs or (program := programs[name]()) is None:
        return ""
    said = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+[.\d]*", said)
    return found[0] if found else ""
