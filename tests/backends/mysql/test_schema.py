"""Tables are made once, by the first that comes; a database that is newer than the code is left alone."""

from contextlib import closing, suppress

import pymysql
import pytest

from onward.backends.mysql import MySQLBackend, schema
from onward.errors import SchemaTooNew
from onward.testing.contract.builders import an_envelope, at_once
from tests.servers.connecting import connected


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
        connected(MySQLBackend.from_url(fresh_url))


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


class TestTwoVersions:
    @pytest.fixture
    def url(self, fresh_url):
        return fresh_url

    @pytest.mark.promise("F63")
    def test_workers_of_this_one_and_the_next_share_the_jobs(self, start, url, mariadb, until, report):
        """The old one was there first, loses its connections meanwhile, and goes on; what starts anew is refused."""
        with closing(mariadb.connect(database_of(url))) as connection, connection.cursor() as cursor:

            def ask(statement):
                cursor.execute(statement)
                return list(cursor.fetchall())

            def both_finish():
                ((before,),) = ask("SELECT coalesce(max(finished_at), 0) FROM onward_finished")
                until(
                    lambda: (
                        ask(f"SELECT count(DISTINCT owner) FROM onward_finished WHERE finished_at > {before}") == [(2,)]
                    )
                )

            old = start(_WORK, "old")
            assert old.stdout.readline() == "ready\n"
            new = start(_WORK, "new")
            assert new.stdout.readline() == "ready\n"
            both_finish()
            for (session,) in ask(_OTHERS):
                with suppress(pymysql.err.OperationalError):  # it has gone by itself
                    ask(f"KILL {session}")
            both_finish()
            for process in (old, new):
                print("enough", file=process.stdin, flush=True)
            enqueued = sum(int(each.stdout.readline()) for each in (old, new))

            finished = ask("SELECT count(*), sum(attempts = 1 AND state = 'completed') FROM onward_finished")
            assert finished == [(enqueued, enqueued)]
            assert ask("SELECT count(*) FROM onward_jobs") == [(0,)]
        with pytest.raises(SchemaTooNew):
            connected(MySQLBackend.from_url(url))
        report(f"workers of two versions on one schema of MariaDB: {enqueued} jobs, each completed once")


_OTHERS = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
_WORK = """
    import sys, threading, time
    from onward.backend import Claim, Session, Settlement, Turn
    from onward.backends.mysql import MySQLBackend, schema
    from onward.errors import BackendUnavailable
    from onward.testing.contract.builders import some_envelopes

    name = sys.argv[2]
    if name == "new":
        known = schema.known()
        sql = "ALTER TABLE onward_jobs ADD COLUMN shard int NOT NULL DEFAULT 0;"
        schema.known = lambda: [*known, schema.Migration(known[-1].version + 1, "0099_shards", sql)]
    backend = MySQLBackend.from_url(sys.argv[1])
    backend.connect()
    backend.open_session(Session(owner=name))
    enough = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), enough.set()), daemon=True).start()
    print("ready", flush=True)

    def insist(call):
        while True:
            try:
                return call()
            except BackendUnavailable:
                time.sleep(0.01)

    def busy():
        return any(insist(backend.counts)[state] for state in ("available", "executing"))

    enqueued, leases = 0, []
    while not enough.is_set() or leases or busy():
        if not enough.is_set():
            envelopes = some_envelopes(5)
            insist(lambda: backend.enqueue(envelopes, retried=True))
            enqueued += 5
        settled, claim = [Settlement.ack(lease) for lease in leases], Claim(queues=("default",), limit=5)
        try:
            leases = backend.turn(Turn(owner=name, settlements=settled, claim=claim)).leases
        except BackendUnavailable:  # whatever it has now
            leases = insist(lambda: backend.open_session(Session(owner=name), adopts=name)) or []
    print(enqueued, flush=True)
"""


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
        "UPDATE onward_jobs SET state = 'scheduled', line = 'render/'",
    ],
)
def test_what_the_indexes_rely_on_cannot_be_broken(backend, sql, broken):
    backend.enqueue([an_envelope()])

    with pytest.raises(pymysql.err.MySQLError, match=r"CONSTRAINT|generated column"):
        sql(broken)
