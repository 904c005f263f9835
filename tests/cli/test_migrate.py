"""`onward migrate`: what is missing is applied, printed or told, on every engine that has tables."""

import itertools
import os
import re
import sqlite3
from contextlib import closing

import psycopg
import pymysql
import pytest

from onward import Onward
from onward.backends.mysql import schema as mysql_schema
from onward.backends.postgres import schema as postgres_schema
from onward.backends.sqlite import schema as sqlite_schema
from onward.cli.exits import Exit

SCHEMAS = {"sqlite": sqlite_schema, "postgres": postgres_schema, "mysql": mysql_schema}

_numbers = itertools.count()


@pytest.fixture(params=SCHEMAS)
def engine(request):
    return request.param


@pytest.fixture(autouse=True)
def url(engine, request, tmp_path, monkeypatch):
    """A store that was never opened."""
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
        monkeypatch.setenv("ONWARD_URL", url)
        yield url
        return
    name = f"migrate_{os.getpid()}_{next(_numbers)}"
    if engine == "mysql":
        server = request.getfixturevalue("mariadb")
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            monkeypatch.setenv("ONWARD_URL", server.url(name))
            yield server.url(name)
            cursor.execute(f"DROP DATABASE {name}")
        return
    server = request.getfixturevalue("newest_postgres")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        monkeypatch.setenv("ONWARD_URL", server.url(name))
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def run_script(url, request):
    """Run a script with the engine's own means."""

    def run(script):
        if url.startswith("mysql"):
            server, database = request.getfixturevalue("mariadb"), url.partition("localhost/")[2].partition("?")[0]
            several = pymysql.constants.CLIENT.MULTI_STATEMENTS
            with closing(server.connect(database, client_flag=several)) as connection, connection.cursor() as cursor:
                cursor.execute(script)
                while cursor.nextset():
                    pass
            return
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                connection.executescript(script)
        else:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(script)

    return run


@pytest.fixture
def next_migration(engine, monkeypatch):
    """Pretend that the next version of Onward brings one more."""
    schema = SCHEMAS[engine]

    def add(sql="ALTER TABLE onward_jobs ADD COLUMN shard integer;"):
        known = schema.known()
        added = schema.Migration(known[-1].version + 1, "0099_shards", sql)
        monkeypatch.setattr(schema, "known", lambda: [*known, added])

    return add


def test_a_new_store_gets_its_tables_and_the_second_time_there_is_nothing_to_do(onward):
    assert onward("migrate") == (Exit.OK, "applied 0001_jobs\n", "")

    ran = onward("migrate")
    assert (ran.code, ran.out) == (Exit.OK, "")
    assert "nothing to do" in ran.err


@pytest.mark.promise("F63")
def test_check_says_what_is_pending_and_changes_nothing(onward, next_migration):
    assert onward("migrate", "--check") == (Exit.PENDING, "pending 0001_jobs\n", "")
    assert onward("migrate", "--check").code == Exit.PENDING
    onward("migrate")
    assert onward("migrate", "--check").code == Exit.OK

    next_migration()

    assert onward("migrate", "--check") == (Exit.PENDING, "pending 0099_shards\n", "")
    assert onward("migrate", "--check", "--json").json == [{"version": 2, "name": "0099_shards", "applied": False}]
    assert onward("migrate", "--json").json == [{"version": 2, "name": "0099_shards", "applied": True}]
    assert onward("migrate", "--check").code == Exit.OK


def test_to_look_creates_no_store(onward, engine, tmp_path):
    onward("migrate", "--check")
    onward("migrate", "--sql")

    assert engine != "sqlite" or not (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("namespace", ["default", "mail"])
def test_what_is_printed_does_the_same_in_the_hands_of_another(onward, run_script, namespace, url, next_migration):
    prefix = "onward_" if namespace == "default" else "onward_mail_"

    first = onward("--namespace", namespace, "migrate", "--sql")
    run_script(first.out)
    next_migration()
    second = onward("--namespace", namespace, "migrate", "--sql")
    run_script(second.out)

    assert first.code == second.code == Exit.OK
    assert f"{prefix}finished" in first.out
    assert re.search(rf"ALTER TABLE {prefix}jobs ADD", second.out)
    assert not re.search(rf"CREATE TABLE (IF NOT EXISTS )?{prefix}jobs", second.out)
    assert onward("--namespace", namespace, "migrate", "--check").code == Exit.OK
    with Onward(url, namespace=namespace) as jobs:
        jobs.job(name="work")(lambda: 3).enqueue()
        assert jobs.drain() == 1


def test_nothing_is_printed_where_nothing_is_missing(onward):
    onward("migrate")

    assert onward("migrate", "--sql").out == ""


@pytest.mark.promise("F63")
def test_a_store_of_a_newer_version_is_left_alone_everywhere(onward, run_script):
    onward("migrate")
    run_script("INSERT INTO onward_migrations VALUES (99, '0099_future', 0)")

    for words in (["migrate"], ["migrate", "--check"], ["migrate", "--sql"], ["health"], ["job", "list"], ["reap"]):
        ran = onward(*words)
        assert (ran.code, ran.out) == (Exit.SCHEMA, "")
        assert "schema 99 is newer than 1: upgrade onward here" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["--app", "shop:jobs", "migrate"], Exit.USAGE, "name the store instead"),
        (["migrate", "--sql", "--check"], Exit.USAGE, "give --sql or --check, not both"),
        (["--url", "memory://", "migrate"], Exit.CONFIG, "nothing to migrate"),
        (["--url", "sqlit:///jobs.db", "migrate"], Exit.CONFIG, "did you mean 'sqlite'?"),
        (["--namespace", "not a name", "migrate"], Exit.CONFIG, "not a name"),
    ],
)
def test_what_makes_no_sense_is_refused(onward, words, code, fix):
    ran = onward(*words)

    assert (ran.code, ran.out) == (code, "")
    assert fix in ran.err
