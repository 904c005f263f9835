"""Every driver, by what became of a transaction: the job exists if and only if it was committed.

One program per driver, which is really killed in the middle of its last transaction.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Onward
from tests.servers.mysqlclient import importable_from
from tests.transactions.program import DRIVERS

# Driver or library, database, and which of the database's addresses it takes.
TABLE = {
    ("psycopg", "postgres"): "driver",
    ("psycopg_autocommit", "postgres"): "driver",
    ("psycopg_async", "postgres"): "driver",
    ("psycopg2", "postgres"): "driver",
    ("asyncpg", "postgres"): "driver",
    ("asyncpg_pool", "postgres"): "driver",
    ("pymysql", "mariadb"): "driver",
    ("mysqlclient", "mariadb"): "driver",
    ("sqlite3", "sqlite"): "file",
    ("sqlite3_begun", "sqlite"): "file",
    ("aiosqlite", "sqlite"): "file",
    ("sqlalchemy_connection", "sqlite"): "sqlalchemy",
    ("sqlalchemy_connection", "postgres"): "psycopg",
    ("sqlalchemy_connection", "mariadb"): "mysqldb",
    ("sqlalchemy_session", "sqlite"): "sqlalchemy",
    ("sqlalchemy_session", "postgres"): "psycopg2",
    ("sqlalchemy_session", "mariadb"): "pymysql",
    ("sqlalchemy_async_session", "sqlite"): "sqlalchemy async",
    ("sqlalchemy_async_session", "postgres"): "asyncpg",
    ("django", "sqlite"): "django",
    ("django", "postgres"): "django",
    ("django", "mariadb"): "django",
}


@pytest.mark.promise("F90", "F91")
@pytest.mark.parametrize(("driver", "where"), TABLE, ids="-".join)
def test_the_job_exists_if_and_only_if_the_transaction_commits(driver, where, request, tmp_path, report):
    database = request.getfixturevalue(f"{where}_database")
    program = _start(*command_of(driver, where, database, tmp_path))
    try:
        assert program.stdout.readline() == "in the middle\n", program.communicate()[1]
    finally:
        program.kill()
        program.communicate()

    with Onward(database.url) as jobs:
        there = sorted(job.payload["label"] for job in jobs.list())

    cells = {"commit": True, "rollback": False, "killed": False}
    found = {label: (label in there, label in database.effects()) for label in cells}
    report(f"transactions, {driver:25} on {where:9}" + "".join(f" {_cell(label, found[label])}" for label in cells))
    assert found == {label: (exists, exists) for label, exists in cells.items()}
    assert there == ["commit"]  # once


def test_no_driver_is_left_out_of_the_table():
    assert {driver for driver, _ in TABLE} == set(DRIVERS)


def _extra_drivers(driver, where, folder):
    """Django's MySQL, and one of SQLAlchemy's, go through mysqlclient."""
    needs_it = driver == "mysqlclient" or (where == "mariadb" and TABLE[driver, where] in ("mysqldb", "django"))
    return importable_from(folder) if needs_it else None


def command_of(driver, where, database, folder):
    """The program of a driver, and the environment that it needs."""
    address, extra = TABLE[driver, where], _extra_drivers(driver, where, folder)
    chosen = database.address[address]
    told = chosen if address == "driver" else {_word(address): chosen}
    path = os.pathsep.join([*map(str, filter(None, [extra, Path.cwd()])), *sys.path])
    command = [sys.executable, "-m", "tests.transactions.program", driver, database.url, json.dumps(told)]
    return command, {**os.environ, "PYTHONPATH": path}


def _start(command, environment):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment, **pipes)


def _word(address):
    return address if address in ("file", "django") else "sqlalchemy"


def _cell(label, found):
    job, effect = found
    return f"{label}: {'both' if job and effect else 'neither' if not (job or effect) else 'HALF'}"
