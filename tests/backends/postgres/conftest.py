"""A database, a clock that stands still, and ways to open and run things on them."""

import itertools
import os
from contextlib import ExitStack, closing

import psycopg
import pytest

from onward.backends.postgres import PostgresBackend
from tests.servers.connecting import connected
from tests.servers.proxy import proxy_to
from tests.servers.stores import emptied

_numbers = itertools.count()


@pytest.fixture
def store_name(postgres):
    """As reports name it."""
    return f"PostgreSQL {postgres.version}"


@pytest.fixture
def url(postgres):
    """A database with empty tables."""
    return emptied(postgres)


@pytest.fixture
def address(url):
    return url


@pytest.fixture
def fresh_url(postgres):
    """A database without tables."""
    name = f"fresh_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sql(url):
    """Look into the database, past the backend."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield lambda statement, *values: _rows(connection.execute(statement, values or None))


def _rows(cursor):
    return cursor.fetchall() if cursor.description else []


@pytest.fixture
def no_deadlock(postgres):
    """Fail the test if the server has undone a transaction of it because of a deadlock."""
    with postgres.without_deadlock():
        yield


@pytest.fixture
def open_backend(url, clock):
    """Open the database as often as asked for; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_it(at=url, **options):
            return opened.enter_context(closing(connected(PostgresBackend.from_url(at, **{"clock": clock, **options}))))

        yield open_it


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def proxy(postgres, url):
    with proxy_to(postgres) as proxy:
        yield proxy
