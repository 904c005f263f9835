"""The SQLite backend keeps the contract, through one client and through two on the same file."""

import shutil
import sqlite3
from contextlib import ExitStack, closing

import pytest

from onward.backends.sqlite import SqliteBackend
from onward.testing.contract import BackendContract


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory):
    """Creating the tables takes longer than most tests; copying an empty file does not."""
    path = tmp_path_factory.mktemp("empty") / "jobs.db"
    SqliteBackend.open(path).close()
    return path


class TestSqlite(BackendContract):
    @pytest.fixture
    def file(self, empty_file, tmp_path):
        return shutil.copy(empty_file, tmp_path / "jobs.db")

    @pytest.fixture
    def open_client(self, file, clock):
        with ExitStack() as clients:
            yield lambda: clients.enter_context(closing(SqliteBackend.open(file, clock=clock)))

    @pytest.fixture
    def backend(self, open_client):
        return open_client()

    @pytest.fixture
    def lose_session(self, file):
        def lose(owner):
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                connection.execute("DELETE FROM onward_sessions WHERE owner = ?", (owner,))

        return lose

    @pytest.fixture
    def damage_schedule(self, file):
        def damage(name):
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                connection.execute("PRAGMA ignore_check_constraints = ON")
                connection.execute("UPDATE onward_schedules SET version = 0, booked_until = -1 WHERE name = ?", (name,))

        return damage
