"""Tables are made once, by whoever comes first; a database that is newer than the code is left alone."""

import pytest

from onward.backends.mysql import MySQLBackend, schema
from onward.errors import SchemaTooNew
from onward.testing.contract.builders import an_envelope, at_once


def database_of(url):
    return url.partition("localhost/")[2].partition("?")[0]


def test_many_who_come_at_once_make_the_tables_once(fresh_url, open_backend, sql):
    backends = at_once(4, lambda _: open_backend(at=fresh_url))

    assert all(backend.enqueue([an_envelope()])[0].created for backend in backends)
    assert sql(f"SELECT version FROM {database_of(fresh_url)}.onward_migrations") == [(1,)]


def test_a_schema_that_is_newer_is_refused_and_left_alone(fresh_url, open_backend, sql):
    open_backend(at=fresh_url).close()
    sql(f"INSERT INTO {database_of(fresh_url)}.onward_migrations VALUES (999, 'later', 0)")

    with pytest.raises(SchemaTooNew, match="999"):
        MySQLBackend.from_url(fresh_url)


@pytest.mark.parametrize("left", ["jobs", "jobs, {0}.onward_finished, {0}.onward_holds"])
def test_what_was_left_half_made_is_made_whole(fresh_url, open_backend, sql, left):
    """A CREATE TABLE cannot be undone: who died in the middle leaves some of them, and no number."""
    open_backend(at=fresh_url).close()
    database = database_of(fresh_url)
    sql(f"DELETE FROM {database}.onward_migrations")
    sql(f"DROP TABLE {database}.onward_{left.format(database)}")

    backend = open_backend(at=fresh_url)

    assert backend.enqueue([an_envelope()])[0].created
    assert sql(f"SELECT version FROM {database}.onward_migrations") == [(1,)]


def test_namespaces_do_not_see_each_other(url, open_backend):
    backend, other = open_backend(), open_backend(namespace="n" * 40)
    backend.enqueue([an_envelope()])

    assert other.counts()["available"] == 0


def test_the_migrations_are_numbered_without_a_gap():
    assert [migration.version for migration in schema.known()] == list(range(1, len(schema.known()) + 1))


@pytest.mark.parametrize(
    "broken",
    [
        "UPDATE onward_jobs SET place = 7",
        "UPDATE onward_jobs SET asked = true",
        "UPDATE onward_jobs SET waits = 1",
        "UPDATE onward_jobs SET state = 'scheduled', `rank` = -5, place = -5",
    ],
)
def test_what_the_indexes_rely_on_cannot_be_broken(backend, sql, broken):
    import pymysql

    backend.enqueue([an_envelope()])

    with pytest.raises(pymysql.err.OperationalError, match="CONSTRAINT"):
        sql(broken)
