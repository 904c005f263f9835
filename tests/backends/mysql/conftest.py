"""A database, a clock that stands still, and ways to open and run things on them."""

import itertools
import os
from contextlib import ExitStack, closing, contextmanager

import pytest

from onward.backends.mysql import MySQLBackend
from tests.servers.connecting import connected
from tests.servers.mariadb import mariadb_server
from tests.servers.proxy import proxy_to
from tests.waiting import eventually

_numbers = itertools.count()


@pytest.fixture
def store_name():
    """As reports name it."""
    return "MariaDB"


@pytest.fixture
def url(mariadb):
    """A database with empty tables."""
    return mariadb.emptied()


@pytest.fixture
def address(url):
    return url


@pytest.fixture
def fresh_url(mariadb, sql):
    """A database without tables."""
    name = f"fresh_{os.getpid()}_{next(_numbers)}"
    sql(f"CREATE DATABASE {name}")
    yield mariadb.url(name)
    sql(f"DROP DATABASE {name}")


@pytest.fixture(scope="session")
def spare_server():
    """A server that tests may spoil, and leave as they found it."""
    with mariadb_server() as server:
        yield server


@pytest.fixture
def other_session(mariadb, url):
    """Another session's transaction, past the backend: it ends with the block."""

    @contextmanager
    def begin():
        with closing(mariadb.connect("jobs", autocommit=False)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield cursor
            connection.commit()

    return begin


@pytest.fixture
def sql(mariadb, url):
    """Look into the database, past the backend."""
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:

        def run(statement, *values):
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

        yield run


@pytest.fixture
def no_deadlock(mariadb):
    """Fail the test if the server has undone a transaction of it because of a deadlock."""
    with mariadb.without_deadlock():
        yield


@pytest.fixture
def open_backend(url, clock):
    """Open the database as often as asked for; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_it(at=url, **options):
            return opened.enter_context(closing(connected(MySQLBackend.from_url(at, **{"clock": clock, **options}))))

        yield open_it


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def proxy(mariadb, url):
    with proxy_to(mariadb) as proxy:
        yield proxy


@pytest.fixture
def until():
    """Wait for a fact."""
    return eventually
