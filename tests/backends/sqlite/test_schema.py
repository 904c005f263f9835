"""Migrations: applied once, in order, whole or not at all."""

import sqlite3
from contextlib import closing

import pytest

from onward.backends.sqlite import schema
from onward.errors import BackendError, SchemaTooNew
from onward.testing.contract.builders import an_envelope


@pytest.fixture
def sqlite(file):
    """Look into the file, past the backend."""

    def execute(sql, *parameters):
        with closing(sqlite3.connect(file)) as connection, connection:
            return connection.execute(sql, parameters).fetchall()

    return execute


@pytest.fixture
def next_migration(monkeypatch):
    """Pretend that the next version of Onward brings this migration."""

    def add(sql):
        migrations = schema.known()
        newest = migrations[-1].version + 1
        monkeypatch.setattr(schema, "known", lambda: [*migrations, schema.Migration(newest, f"{newest:04}_next", sql)])
        return newest

    return add


def test_versions_follow_each_other():
    assert [migration.version for migration in schema.known()] == list(range(1, len(schema.known()) + 1))


def test_a_new_file_gets_all_of_them(backend, sqlite):
    applied = sqlite("SELECT version, name FROM onward_migrations")

    assert applied == [(migration.version, migration.name) for migration in schema.known()]


def test_opening_again_applies_nothing(open_backend, sqlite, clock):
    open_backend()
    before = sqlite("SELECT * FROM onward_migrations")
    clock.advance(1)

    open_backend()

    assert sqlite("SELECT * FROM onward_migrations") == before


def test_a_new_one_is_applied_to_an_old_file_and_keeps_its_jobs(open_backend, sqlite, next_migration):
    envelope = an_envelope()
    open_backend().enqueue([envelope])
    version = next_migration("ALTER TABLE onward_jobs ADD COLUMN shard INTEGER;")

    upgraded = open_backend()

    assert sqlite("SELECT max(version) FROM onward_migrations") == [(version,)]
    assert upgraded.get(envelope.id) is not None


def test_each_namespace_has_its_own_version(open_backend, sqlite, next_migration):
    open_backend()
    version = next_migration("CREATE TABLE onward_shards (id INTEGER);")

    open_backend(namespace="mail")

    assert sqlite("SELECT max(version) FROM onward_mail_migrations") == [(version,)]
    assert sqlite("SELECT max(version) FROM onward_migrations") == [(version - 1,)]


def test_one_that_fails_leaves_nothing_behind(open_backend, sqlite, next_migration):
    open_backend()
    tables = sqlite("SELECT name FROM sqlite_master ORDER BY name")
    version = next_migration("CREATE TABLE onward_half (id INTEGER);\nCREATE TABLE onward_jobs (id INTEGER);\n")

    with pytest.raises(BackendError, match="onward_jobs already exists"):
        open_backend()

    assert sqlite("SELECT name FROM sqlite_master ORDER BY name") == tables
    assert sqlite("SELECT max(version) FROM onward_migrations") == [(version - 1,)]


def test_a_file_of_a_newer_version_is_left_alone(open_backend, file, sqlite):
    open_backend().close()
    sqlite("INSERT INTO onward_migrations VALUES (99, '0099_future', 0)")
    before = file.read_bytes()

    with pytest.raises(SchemaTooNew, match="schema 99 is newer than 1: upgrade onward here") as raised:
        open_backend()

    assert (raised.value.found, raised.value.known) == (99, schema.known()[-1].version)
    assert file.read_bytes() == before


def test_a_semicolon_in_a_comment_ends_no_statement():
    sql = "CREATE TABLE a ( -- first; second\n id INTEGER\n);\nCREATE TABLE b (id INTEGER);\n"

    assert [statement.split("(")[0].strip() for statement in schema._statements(sql)] == [
        "CREATE TABLE a",
        "CREATE TABLE b",
    ]
