"""An application on a file, whose tables a test may write to as an attacker would."""

import os
import sqlite3
from contextlib import closing

import pytest

from onward import Onward
from onward.testing import FakeClock


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobs(tmp_path, clock):
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed", clock=clock) as jobs:
        yield jobs


@pytest.fixture
def attack(jobs, tmp_path):
    """Write to the tables, past the backend."""

    def attack(sql, *values):
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            return connection.execute(sql, values).rowcount

    return attack
