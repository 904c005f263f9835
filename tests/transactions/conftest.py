"""Databases that hold both the jobs and a table of the user's own."""

import sqlite3
from contextlib import ExitStack, closing

import psycopg
import pytest

from onward import Onward
from tests.servers.postgres import postgres_server
from tests.servers.stores import emptied

EFFECTS = "CREATE TABLE {} effects (label VARCHAR(100))"


class Database:
    """A database, by the ways in which drivers are told where it is."""

    def __init__(self, url, address, connect):
        self.url = url
        self.address = address
        self.connect = connect

    def query(self, statement):
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return rows

    def effects(self):
        return sorted(label for (label,) in self.query("SELECT label FROM effects"))


@pytest.fixture(scope="session")
def one_postgres():
    """One server is enough: which statements a driver is handed does not depend on its version."""
    with postgres_server("18") as server:
        yield server


@pytest.fixture
def sqlite_database(tmp_path):
    file = str(tmp_path / "shop.db")
    address = {
        "file": file,
        "sqlalchemy": f"sqlite:///{file}",
        "sqlalchemy async": f"sqlite+aiosqlite:///{file}",
        "django": {"ENGINE": "django.db.backends.sqlite3", "NAME": file},
    }
    database = Database(f"sqlite:///{file}", address, lambda: sqlite3.connect(file))
    database.query(EFFECTS.format(""))
    return database


@pytest.fixture
def postgres_database(one_postgres):
    url = emptied(one_postgres)
    folder = str(one_postgres.folder)
    address = {
        "driver": {"host": folder, "user": "onward", "dbname": "postgres"},
        "psycopg": f"postgresql+psycopg://onward@/postgres?host={folder}",
        "psycopg2": f"postgresql+psycopg2://onward@/postgres?host={folder}",
        "asyncpg": f"postgresql+asyncpg://onward@/postgres?host={folder}",
        "django": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "onward",
            "HOST": folder,
        },
    }
    database = Database(url, address, lambda: psycopg.connect(url))
    database.query(EFFECTS.format("IF NOT EXISTS"))
    database.query("DELETE FROM effects")
    return database


@pytest.fixture(params=["sqlite", "postgres"])
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
