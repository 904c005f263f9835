"""Sweeps: many leases at once, and none that keeps the others."""

import sqlite3
from contextlib import closing

import pytest

from tests.backends.sweeping import Sweeps


class TestSweeps(Sweeps):
    @pytest.fixture
    def refuse(self, file):
        return lambda job_id: _run(
            file,
            f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs WHEN old.id = '{job_id}' "
            "BEGIN SELECT raise(ABORT, 'not this one'); END",
        )

    @pytest.fixture
    def relent(self, file):
        return lambda: _run(file, "DROP TRIGGER refuse")


def _run(file, statement):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)
