"""Stores of every kind that jobs can move between, empty, by name."""

from contextlib import ExitStack, closing

import pytest

from onward.backends.memory import MemoryBackend
from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.redis import RedisBackend
from onward.backends.sqlite import SqliteBackend
from onward.testing import FakeClock
from tests.servers import redis as redis_servers
from tests.servers.stores import emptied


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(scope="session")
def newest_redis():
    """For what does not depend on the product."""
    with redis_servers.redis_server("redis") as server:
        yield server


@pytest.fixture
def open_store(request, clock, tmp_path):
    """``open_store("postgres")``: a store of this kind, that goes by the clock."""
    with ExitStack() as opened:

        def open_store(kind, name="jobs"):
            if kind == "memory":
                return MemoryBackend(clock=clock)
            if kind == "sqlite":
                backend = SqliteBackend.open(tmp_path / f"{name}.db", clock=clock, durability="relaxed")
            elif kind == "postgres":
                url = emptied(request.getfixturevalue("newest_postgres"))
                backend = PostgresBackend.from_url(url, clock=clock)
            elif kind == "redis":
                url = redis_servers.emptied(request.getfixturevalue("newest_redis"))
                backend = RedisBackend.from_url(url, clock=clock)
            else:
                backend = MySQLBackend.from_url(request.getfixturevalue("mariadb").emptied(), clock=clock)
            return opened.enter_context(closing(backend))

        yield open_store
