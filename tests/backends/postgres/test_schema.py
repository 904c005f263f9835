"""Migrations: applied once, in order, whole or not at all, also when others start at the same moment."""

import threading
import time

import psycopg
import pytest

from onward.backend import Look
from onward.backends.postgres import PostgresBackend, schema
from onward.errors import BackendMisconfigured, BackendUnavailable, SchemaTooNew
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, at_once, ids
from tests.servers.connecting import connected

TABLES = ["additions", "attempts", "audit", "finished", "flows", "gates", "holds", "jobs", "limits", "migrations"]
TABLES += ["nodes", "notes", "queues", "schedules", "series", "sessions", "waiters"]


@pytest.fixture
def url(fresh_url):
    return fresh_url


@pytest.fixture
def next_migration(monkeypatch):
    """Pretend that the next version of Onward brings this migration."""

    def add(sql):
        migrations = schema.known()
        newest = migrations[-1].version + 1
        monkeypatch.setattr(schema, "known", lambda: [*migrations, schema.Migration(newest, f"{newest:04}_next", sql)])
        return newest

    return add


def until(fact, patience=30):
    deadline = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def tables(sql):
    return [name for (name,) in sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")]


def test_versions_follow_each_other():
    assert [migration.version for migration in schema.known()] == list(range(1, len(schema.known()) + 1))


def test_a_new_database_gets_all_of_them(open_backend, sql):
    open_backend()

    applied = sql("SELECT version, name FROM onward_migrations")
    assert applied == [(migration.version, migration.name) for migration in schema.known()]
    assert tables(sql) == [f"onward_{name}" for name in TABLES]


def test_opening_again_applies_nothing(open_backend, sql, clock):
    open_backend()
    before = sql("SELECT * FROM onward_migrations")
    clock.advance(1)

    open_backend()

    assert sql("SELECT * FROM onward_migrations") == before


def test_a_new_one_is_applied_to_an_old_database_and_keeps_its_jobs(open_backend, sql, next_migration):
    envelope = an_envelope()
    open_backend().enqueue([envelope])
    version = next_migration("ALTER TABLE onward_jobs ADD COLUMN shard integer;")

    upgraded = open_backend()

    assert sql("SELECT max(version) FROM onward_migrations") == [(version,)]
    assert upgraded.get(envelope.id) is not None


def test_a_worker_of_the_last_version_goes_on_after_an_upgrade(open_backend, next_migration):
    old = open_backend()
    lease = a_lease(old)
    next_migration("ALTER TABLE onward_jobs ADD COLUMN shard integer;")
    new = open_backend()
    new.enqueue([envelope := an_envelope()])

    assert old.ack(lease).applied
    assert ids(old.claim(a_claim())) == [envelope.id]


def test_one_that_fails_leaves_nothing_behind(open_backend, sql, next_migration):
    open_backend()
    version = next_migration("CREATE TABLE onward_half (id integer);\nCREATE TABLE onward_jobs (id integer);\n")

    with pytest.raises(BackendMisconfigured, match=r"onward_jobs.* already exists"):
        open_backend()

    assert tables(sql) == [f"onward_{name}" for name in TABLES]
    assert sql("SELECT max(version) FROM onward_migrations") == [(version - 1,)]


def test_of_many_who_start_at_once_one_makes_the_tables(url, sql):
    def start(_):
        backend = connected(PostgresBackend.from_url(url))
        backend.close()
        return True

    assert at_once(4, start) == [True] * 4
    assert sql("SELECT count(*) FROM onward_migrations") == [(len(schema.known()),)]


def test_a_database_of_a_newer_version_is_left_alone(open_backend, sql):
    open_backend().close()
    sql("INSERT INTO onward_migrations VALUES (99, '0099_future', 0)")

    with pytest.raises(SchemaTooNew, match="schema 99 is newer than 1: upgrade onward here") as raised:
        open_backend()

    assert (raised.value.found, raised.value.known) == (99, schema.known()[-1].version)


def test_tables_whose_rows_die_young_leave_room_and_are_vacuumed_often(open_backend, sql):
    open_backend()

    options = {
        table: dict(each.split("=") for each in found or ())
        for table, found in sql(
            "SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'onward%' AND relkind = 'r'"
        )
    }

    assert options["onward_jobs"] == {
        "fillfactor": "70",
        "vacuum_truncate": "false",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_analyze_scale_factor": "0.05",
        "autovacuum_vacuum_cost_delay": "0",
    }
    assert {name: int(options[f"onward_{name}"]["fillfactor"]) for name in ("sessions", "holds")} == {
        "sessions": 50,
        "holds": 70,
    }
    assert sql("SELECT relpersistence FROM pg_class WHERE relname = 'onward_waiters'") == [("u",)]


class TestNamespaces:
    def test_each_has_its_own_tables_and_jobs(self, open_backend, sql):
        shop, mail = open_backend(), open_backend(namespace="mail")
        shop.enqueue([an_envelope(unique_key="k")])

        assert mail.enqueue([an_envelope(unique_key="k")])[0].created
        assert (shop.counts()["available"], mail.counts()["available"]) == (1, 1)
        assert tables(sql) == sorted(f"{prefix}{name}" for prefix in ("onward_", "onward_mail_") for name in TABLES)

    def test_each_has_its_own_version(self, open_backend, sql, next_migration):
        open_backend()
        version = next_migration("CREATE TABLE onward_shards (id integer);")

        open_backend(namespace="mail")

        assert sql("SELECT max(version) FROM onward_mail_migrations") == [(version,)]
        assert sql("SELECT max(version) FROM onward_migrations") == [(version - 1,)]

    def test_the_longest_name_works(self, open_backend):
        backend = open_backend(namespace="n" * 40)

        lease = a_lease(backend)

        assert backend.ack(lease).applied
        assert backend.look(Look(counts=True)).overview.ended == 1


class TestLocks:
    """A session that waits for a whole table keeps all others waiting behind it."""

    def test_a_migration_does_not_queue_behind_a_long_transaction(self, open_backend, next_migration, url, monkeypatch):
        monkeypatch.setattr(schema, "_BRIEFLY", "SET LOCAL lock_timeout = '100ms'")
        running = open_backend()
        next_migration("ALTER TABLE onward_jobs ADD COLUMN shard integer;")
        with psycopg.connect(url) as other:
            other.execute("SELECT count(*) FROM onward_jobs")

            with pytest.raises(BackendUnavailable, match="another transaction has them locked: nothing was changed"):
                open_backend()

            assert running.enqueue([an_envelope()])[0].created
        assert open_backend().counts()["available"] == 1

    def test_it_waits_for_another_who_migrates(self, url, sql, open_backend):
        with psycopg.connect(url) as other:
            other.execute("SELECT pg_advisory_xact_lock(hashtext('onward_migrations'))")
            opening = threading.Thread(target=open_backend)
            opening.start()
            until(lambda: sql("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"))
        opening.join(30)

        assert tables(sql) == [f"onward_{name}" for name in TABLES]


@pytest.mark.promise("F63")
def test_workers_of_this_version_and_the_next_share_the_jobs(start, url, sql, report):
    """The old one was there first, loses its connections meanwhile, and goes on; what starts anew is refused."""
    old = start(_WORK, "old")
    assert old.stdout.readline() == "ready\n"
    new = start(_WORK, "new")
    assert new.stdout.readline() == "ready\n"
    until(lambda: sql("SELECT count(DISTINCT owner) FROM onward_finished") == [(2,)])
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onward'")
    ((before,),) = sql("SELECT max(number) FROM onward_finished")
    until(lambda: sql(f"SELECT count(DISTINCT owner) FROM onward_finished WHERE number > {before}") == [(2,)])
    for process in (old, new):
        print("enough", file=process.stdin, flush=True)
    enqueued = sum(int(each.stdout.readline()) for each in (old, new))

    assert sql(
        "SELECT count(*), count(*) FILTER (WHERE attempts = 1 AND state = 'completed') FROM onward_finished"
    ) == [(enqueued, enqueued)]
    assert sql("SELECT count(*) FROM onward_jobs") == [(0,)]
    with pytest.raises(SchemaTooNew):
        connected(PostgresBackend.from_url(url))
    report(f"workers of two versions on one schema: {enqueued} jobs, each completed once")


_WORK = """
    import sys, threading, time
    from onward.backend import Claim, Session, Settlement, Turn
    from onward.backends.postgres import PostgresBackend, schema
    from onward.errors import BackendUnavailable
    from onward.testing.contract.builders import some_envelopes

    name = sys.argv[2]
    if name == "new":
        known = schema.known()
        sql = "ALTER TABLE onward_jobs ADD COLUMN shard integer NOT NULL DEFAULT 0; CREATE INDEX ON onward_jobs (shard);"
        schema.known = lambda: [*known, schema.Migration(known[-1].version + 1, "0099_shards", sql)]
    backend = PostgresBackend.from_url(sys.argv[1])
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

    enqueued, leases = 0, []
    while not enough.is_set() or leases or any(backend.counts()[state] for state in ("available", "executing")):
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
