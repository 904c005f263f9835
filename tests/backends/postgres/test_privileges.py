"""Roles that may only what they need: the grants that the documentation gives, and what each role cannot do."""

import re
from pathlib import Path

import psycopg
import pytest

from onward import Onward, State
from onward.backend import Look, Sample, Session
from onward.backends.postgres import PostgresBackend, schema
from onward.backends.postgres.tables import PostgresTables
from onward.contract.samples import MINUTE
from onward.errors import BackendMisconfigured
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, some_envelopes
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.deploy import shipped
from tests.servers.connecting import connected
from tests.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs" / "postgres.md"
ROLES = ("shop_owner", "shop_worker", "shop_producer", "shop_scaler")
DENIED = psycopg.errors.InsufficientPrivilege


@pytest.fixture
def url(fresh_url):
    return fresh_url


@pytest.fixture
def grants():
    """The SQL of the documentation: for the administrator, for the owner, and for the administrator again."""
    section = PAGE.read_text().split("\n## Who may do what\n")[1].split("\n## ")[0]
    return re.findall(r"```sql\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def as_role(url):
    return {role: url.replace("onward@", f"{role}@") for role in ROLES}


@pytest.fixture
def roles(sql, grants):
    """The roles are there, and the tables are not."""
    create, _, _ = grants
    sql(create)
    yield
    for role in ROLES:
        sql(f"DROP OWNED BY {role} CASCADE")
        sql(f"DROP ROLE {role}")


@pytest.fixture
def granted(roles, as_role, grants):
    """The owner has made the tables and granted what the others need."""
    tables = PostgresTables(as_role["shop_owner"])
    assert [each.name for each in tables.migrate()] == [each.name for each in schema.known()]
    tables.close()
    _, grant, _ = grants
    with psycopg.connect(as_role["shop_owner"], autocommit=True) as connection:
        connection.execute(grant)
    return as_role


@pytest.fixture
def worker(granted, open_backend):
    return open_backend(at=granted["shop_worker"])


@pytest.fixture
def producer(granted, open_backend):
    return open_backend(at=granted["shop_producer"])


class TestWorker:
    def test_it_can_do_everything_that_workers_do(self, granted):
        with Onward(granted["shop_worker"]) as jobs:

            @jobs.job(max_retries=1)
            def work(fail: bool = False) -> int:
                if fail:
                    raise ValueError
                return 3

            keyed = work.using(unique_key="k", idempotency_key="i").enqueue()
            replaced = work.using(unique_key="x", delay=60).enqueue()
            replacing = work.using(unique_key="x", unique_strategy="cancel_existing").enqueue()
            failing = work.enqueue(fail=True)
            with jobs.worker(concurrency=2):
                assert keyed.result(30) == replacing.result(30) == 3
                eventually(lambda: failing.state() is State.RETRYABLE)

            jobs.retry(failing.id)
            jobs.drain()
            assert failing.state() is State.DISCARDED
            assert replaced.state() is State.CANCELLED
            jobs.pause("default")
            jobs.resume("default")
            assert jobs.reap() == []
            jobs.prune()
            # One job has died, and this check says so.
            assert {check.name for check in jobs.health() if check.status != "ok"} == {"dying"}

    def test_it_may_read_and_write_every_table_but_the_list_of_migrations(self, granted):
        lacking = """
            SELECT tablename FROM pg_tables
             WHERE tablename LIKE 'onward%' AND NOT (has_table_privilege('shop_worker', tablename, 'SELECT')
               AND has_table_privilege('shop_worker', tablename, 'INSERT')
               AND has_table_privilege('shop_worker', tablename, 'UPDATE')
               AND has_table_privilege('shop_worker', tablename, 'DELETE'))
        """
        with psycopg.connect(granted["shop_worker"]) as connection:
            assert connection.execute(lacking).fetchall() == [("onward_migrations",)]

    def test_its_samples_are_stored(self, worker):
        worker.open_session(Session(owner="w"))
        now = worker.look(Look()).now
        minute = now - now % MINUTE

        assert worker.extend("w", sample=Sample("w", minute, b"{}")).refused is None
        assert "w" in [row.reporter for row in worker.look(Look(series=(minute, minute + MINUTE))).series]

    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE onward_jobs",
            "TRUNCATE onward_jobs",
            "CREATE TABLE other (id integer)",
            "DELETE FROM onward_migrations",
        ],
    )
    def test_it_cannot_touch_the_tables_themselves(self, granted, statement):
        with psycopg.connect(granted["shop_worker"]) as connection, pytest.raises(DENIED):
            connection.execute(statement)


class TestProducer:
    def test_it_can_enqueue_in_every_way_that_takes_nothing_from_others(self, producer, worker):
        envelope = an_envelope()
        stored = producer.enqueue([envelope, *some_envelopes(100), an_envelope(unique_key="k"), an_envelope(delay=60)])
        again = producer.enqueue([envelope], retried=True)
        rival = producer.enqueue([an_envelope(unique_key="k")])

        assert all(each.created for each in stored)
        assert [(each.created, each.existing_id) for each in again] == [(False, envelope.id)]
        assert [(each.created, each.existing_id) for each in rival] == [(False, stored[-2].id)]
        assert len(worker.claim(a_claim(limit=200))) == 102

    def test_it_can_enqueue_a_flow_that_a_worker_ends(self, producer, worker):
        stage = FlowStage(producer, None, a=Part(2), b=Part(after="a"))
        stage.backend = worker

        stage.end("a", ack)
        stage.end("b", ack)

        assert stage.state() == "completed"

    def test_what_it_enqueued_and_was_run_is_not_stored_again(self, producer, worker):
        producer.enqueue([envelope := an_envelope()])
        worker.ack(*worker.claim(a_claim()))

        assert not producer.enqueue([envelope], retried=True)[0].created

    def test_it_wakes_who_sleeps(self, producer, worker, granted):
        worker.wait(["default"], 0.01)  # it leaves word
        with psycopg.connect(granted["shop_worker"], autocommit=True) as ear:
            ear.execute("LISTEN onward_wake")
            producer.enqueue([an_envelope()])

            assert [note.payload for note in ear.notifies(timeout=30, stop_after=1)] == ['["default"]']

    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT sealed FROM onward_jobs",
            "SELECT result FROM onward_finished",
            "SELECT * FROM onward_attempts",
            "UPDATE onward_jobs SET state = 'completed'",
            "DELETE FROM onward_jobs",
            "INSERT INTO onward_finished (id) VALUES ('x')",
            "INSERT INTO onward_sessions (owner) VALUES ('me')",
            "UPDATE onward_queues SET paused_at = 1",
            "CREATE TABLE other (id integer)",
        ],
    )
    def test_it_can_do_nothing_else(self, granted, statement):
        with psycopg.connect(granted["shop_producer"]) as connection, pytest.raises(DENIED):
            connection.execute(statement)

    def test_it_is_told_what_it_may_not(self, producer):
        producer.enqueue([an_envelope(unique_key="k")])

        with pytest.raises(BackendMisconfigured, match="permission denied for table onward_jobs"):
            producer.enqueue([an_envelope(unique_key="k", unique_strategy="cancel_existing")])


class TestScaler:
    @pytest.mark.promise("S169")
    def test_what_is_shipped_for_an_autoscaler_asks_with_its_rights_alone(self, granted, producer):
        producer.enqueue([*some_envelopes(3, queue="mail"), an_envelope(), an_envelope(queue="elsewhere")])
        _, scaled = shipped.documents("kubernetes/scaling.yaml")
        (trigger,) = scaled["spec"]["triggers"]

        with psycopg.connect(granted["shop_scaler"]) as connection:
            assert connection.execute(trigger["metadata"]["query"]).fetchall() == [(4,)]

    @pytest.mark.parametrize(
        "statement", ["SELECT id FROM onward_jobs", "SELECT sealed FROM onward_jobs", "DELETE FROM onward_jobs"]
    )
    def test_it_can_do_nothing_else(self, granted, statement):
        with psycopg.connect(granted["shop_scaler"]) as connection, pytest.raises(DENIED):
            connection.execute(statement)


class TestOutOfDate:
    """A role that may not change the tables opens them if they are up to date, and is told the fix if they are not."""

    def test_without_tables(self, roles, as_role):
        with pytest.raises(
            BackendMisconfigured, match=r"shop_worker may not change them .*run `onward migrate` as their"
        ):
            connected(PostgresBackend.from_url(as_role["shop_worker"]))

    @pytest.mark.parametrize("role", ["shop_worker", "shop_producer"])
    def test_with_old_ones(self, granted, role, monkeypatch):
        connected(PostgresBackend.from_url(granted[role])).close()
        newer = schema.Migration(99, "0099_shards", "ALTER TABLE onward_jobs ADD COLUMN shard integer;")
        known = schema.known()
        monkeypatch.setattr(schema, "known", lambda: [*known, newer])

        with pytest.raises(
            BackendMisconfigured, match=rf"{role} may not change them .*run `onward migrate` as their owner"
        ):
            connected(PostgresBackend.from_url(granted[role]))

        tables = PostgresTables(granted[role])
        assert [each.name for each in tables.pending()] == ["0099_shards"]  # to look takes no rights
        assert "ALTER TABLE onward_jobs ADD" in tables.script()
        tables.close()

    def test_who_may_not_even_look_is_told_what_to_grant(self, granted, sql):
        sql("REVOKE SELECT ON onward_migrations FROM shop_producer")

        with pytest.raises(BackendMisconfigured, match="GRANT SELECT ON onward_migrations to this role"):
            connected(PostgresBackend.from_url(granted["shop_producer"]))


def test_whether_health_sees_the_transactions_of_others_is_said(worker, granted, grants, sql, monkeypatch):
    def horizon():
        (check,) = [check for check in worker.health() if check.name == "horizon"]
        return check

    assert "of this role" in horizon().detail

    *_, see = grants
    sql(see)

    assert "of this role" not in horizon().detail
    assert a_lease(worker)
