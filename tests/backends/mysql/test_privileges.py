"""Users who may only what they need: the grants that the documentation gives, and what each user cannot do."""

import re
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from onward import JobContext, Onward, State
from onward.backends.mysql import MySQLBackend, schema
from onward.backends.mysql.tables import MySQLTables
from onward.errors import BackendMisconfigured
from onward.testing.contract.builders import a_claim, an_envelope, some_envelopes
from onward.testing.contract.flow_stage import FlowStage, Part
from tests.servers.connecting import connected
from tests.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs" / "mysql.md"
USERS = ("shop_owner", "shop_worker", "shop_producer")


@pytest.fixture
def database(fresh_url):
    return fresh_url.partition("localhost/")[2].partition("?")[0]


@pytest.fixture
def as_user(fresh_url):
    return {user: fresh_url.replace("onward@", f"{user}@") for user in USERS}


@pytest.fixture
def granted(sql, as_user, database):
    """The users are there, the owner has made the tables, and the others were granted what they need."""
    section = PAGE.read_text().split("\n## Who may do what\n")[1].split("\n## ")[0].replace("shop.", f"{database}.")
    create, grant = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    _each(sql, create)
    try:
        with closing(MySQLTables(as_user["shop_owner"])) as tables:
            assert [each.name for each in tables.migrate()] == [each.name for each in schema.known()]
        _each(sql, grant)
        yield as_user
    finally:
        sql(f"DROP USER {', '.join(USERS)}")


def _each(sql, script):
    for statement in re.sub(r"--.*", "", script).split(";")[:-1]:
        sql(statement)


@pytest.fixture
def run_as(mariadb, database, granted):
    """Run a statement past the backend, as this user."""

    def run(user, statement):
        with closing(mariadb.connect(database, user=user)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    return run


class TestWorker:
    def test_it_can_do_everything_that_workers_do(self, granted):
        with Onward(granted["shop_worker"]) as jobs:

            @jobs.job(max_retries=1)
            def work(ctx: JobContext, fail: bool = False) -> None:
                if fail:
                    raise ValueError
                with ctx.transaction() as conn:
                    conn.complete(3)

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
            flow = jobs.flow("nightly")
            empty = flow.map(work, [], node="empty")
            flow.add(work, after=flow.map(work, [(), ()], node="members", after=empty))
            handle = flow.enqueue()
            assert handle.cancel()
            assert handle.retry() == 3
            jobs.drain()
            assert handle.state() == "completed"
            jobs.pause("default")
            jobs.resume("default")
            assert jobs.reap() == []
            jobs.prune()
            # One job has died, and this check says so.
            assert {check.name for check in jobs.health() if check.status != "ok"} == {"dying"}

    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE onward_jobs",
            "TRUNCATE onward_jobs",
            "CREATE TABLE other (id integer)",
            "DELETE FROM onward_migrations",
        ],
    )
    def test_it_cannot_touch_the_tables_themselves(self, run_as, statement):
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            run_as("shop_worker", statement)


class TestProducer:
    def test_it_can_enqueue_in_every_way_that_takes_nothing_from_others(self, granted):
        with (
            closing(connected(MySQLBackend.from_url(granted["shop_producer"]))) as producer,
            closing(connected(MySQLBackend.from_url(granted["shop_worker"]))) as worker,
        ):
            envelope = an_envelope()
            new = [envelope, *some_envelopes(100), an_envelope(unique_key="k"), an_envelope(delay=60)]
            stored = producer.enqueue(new)
            again = producer.enqueue([envelope], retried=True)
            rival = producer.enqueue([an_envelope(unique_key="k")])

            assert all(each.created for each in stored)
            assert [(each.created, each.existing_id) for each in again] == [(False, envelope.id)]
            assert [(each.created, each.existing_id) for each in rival] == [(False, stored[-2].id)]
            stage = FlowStage(producer, None, a=Part(2), b=Part(after="a"))
            assert [answer.created for answer in producer.enqueue(stage.all, retried=True)] == [False] * 3
            assert [len(worker.claim(a_claim(queues=(node,), limit=10))) for node in "ab"] == [2, 0]
            assert len(worker.claim(a_claim(limit=200))) == 102
            with pytest.raises(BackendMisconfigured, match="denied"):
                producer.enqueue([an_envelope(unique_key="k", unique_strategy="cancel_existing")])

    def test_it_can_enqueue_in_a_transaction_of_its_own(self, granted, mariadb, database):
        with (
            Onward(granted["shop_producer"]) as jobs,
            closing(mariadb.connect(database, user="shop_producer", autocommit=False)) as connection,
        ):
            with jobs.transaction(connection) as tx:
                handle = tx.enqueue("work")
                with pytest.raises(pymysql.err.OperationalError, match="UPDATE command denied"):
                    tx.enqueue("work", unique_key="k")  # it would lock the job that has the key
            connection.commit()

        with Onward(granted["shop_worker"]) as jobs:
            assert [job.id for job in jobs.list()] == [handle.id]

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
    def test_it_can_do_nothing_else(self, run_as, statement):
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            run_as("shop_producer", statement)


@pytest.mark.parametrize("user", ["shop_worker", "shop_producer"])
def test_who_may_not_change_tables_that_are_out_of_date_is_told_the_fix(granted, user, monkeypatch):
    newer = schema.Migration(99, "0099_shards", "ALTER TABLE onward_jobs ADD COLUMN shard integer;")
    known = schema.known()
    monkeypatch.setattr(schema, "known", lambda: [*known, newer])

    with pytest.raises(BackendMisconfigured, match="run `onward migrate` as their owner"):
        connected(MySQLBackend.from_url(granted[user]))
