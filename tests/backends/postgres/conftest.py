"""A database, a clock that stands still, and ways to open and run things on them."""

import itertools
import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack, closing

import psycopg
import pytest

from onward.backends.postgres import PostgresBackend
from onward.testing import FakeClock
from tests.servers.connecting import connected
from tests.servers.proxy import proxy_to
from tests.servers.stores import emptied

PATIENCE = 60  # seconds a test waits for another process: reached only when something is broken

_numbers = itertools.count()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def url(postgres):
    """A database with empty tables."""
    return emptied(postgres)


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


@pytest.fixture
def start(url):
    """Start a Python program in another process.  It finds the URL in ``sys.argv[1]``."""
    started = []

    def start_it(source, *arguments, **options):
        program = [sys.executable, "-c", textwrap.dedent(source), url, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **options
        )
        started.append(process)
        return process

    yield start_it
    for process in started:
        process.kill()
        process.communicate()
