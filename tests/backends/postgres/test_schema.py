"""Migrations: applied once, in order, whole or not at all, whoever else starts at the same moment."""

import psycopg
import pytest

from onward.backends.postgres import PostgresBackend, schema
from onward.errors import BackendMisconfigured, SchemaTooNew
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, at_once, ids

TABLES = ["attempts", "finished", "holds", "jobs", "migrations", "queues", "sessions", "waiters"]


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
        backend = PostgresBackend.from_url(url)
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
        assert backend.overview().ended == 1


class TestPrivileges:
    """A role that may use the tables needs nothing else, once they are there."""

    @pytest.fixture
    def worker_url(self, postgres, url, sql):
        sql("DROP ROLE IF EXISTS onward_worker")
        sql("CREATE ROLE onward_worker LOGIN")
        sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        yield url.replace("onward@", "onward_worker@")
        sql("DROP OWNED BY onward_worker")
        sql("DROP ROLE onward_worker")

    def test_who_may_not_create_tables_is_told_so(self, worker_url):
        with pytest.raises(BackendMisconfigured, match="permission denied for schema public"):
            PostgresBackend.from_url(worker_url)

    def test_who_may_use_them_can_work(self, open_backend, worker_url, sql):
        open_backend().close()
        sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO onward_worker")
        sql("GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public TO onward_worker")

        worker = open_backend(at=worker_url)
        lease = a_lease(worker, idempotency_key="k")

        assert worker.ack(lease).applied
        assert worker.reap() == []
        assert worker.overview().ended == 1
        assert all(check.status == "ok" for check in worker.health())
        with psycopg.connect(worker_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DROP TABLE onward_jobs")
