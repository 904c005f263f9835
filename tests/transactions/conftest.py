"""Databases that hold both the jobs and a table of the user's own."""

from contextlib import ExitStack

import pytest

from onward import Onward
from tests.servers.databases import in_mariadb, in_postgres, in_sqlite


@pytest.fixture
def sqlite_database(tmp_path):
    return in_sqlite(tmp_path)


@pytest.fixture
def postgres_database(newest_postgres):
    return in_postgres(newest_postgres)


@pytest.fixture
def mariadb_database(mariadb):
    return in_mariadb(mariadb)


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request):
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture
def open_app(database):
    """The application: ``jobs = open_app()``."""
    with ExitStack() as opened:
        yield lambda url=database.url, **options: opened.enter_context(Onward(url, **options))


@pytest.fixture
def jobs(open_app):
    return open_app()


@pytest.fixture
def note(jobs):
    @jobs.job
    def note(label: str) -> str:
        return label

    return note


@pytest.fixture
def told():
    """What handlers have to say."""
    return []
