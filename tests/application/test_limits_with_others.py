"""Limits together with what else Onward does, on every store that has lanes."""

import contextlib
import logging
import sqlite3

import psycopg
import pymysql
import pytest
import redis

from onward import JobContext, Limit, NoDelay, State
from onward.backend import Session, Settlement
from onward.backends.mysql.url import parse_url
from onward.contract.transactions import Transacts
from onward.security.key_ring import KeyRing
from tests.application.every_store import redis_server, store, url  # noqa: F401

RING = KeyRing.parse("k1:" + "a1" * 32)
CANARY = "canary-4242-4242"


@pytest.fixture
def open_shop(open_app):
    def open_shop(**settings):
        jobs = open_app(**settings)
        if not jobs.backend.capabilities.lanes:
            pytest.skip("this store has no lanes")
        return jobs

    return open_shop


@pytest.fixture
def shop(open_shop):
    return open_shop()


@pytest.fixture
def stored(store, url, folder):  # noqa: F811
    """Return every byte that the store keeps, as text."""

    def rows_of(cursor, tables):
        for table in tables:
            cursor.execute(f"SELECT * FROM {table}")
            yield from cursor.fetchall()

    def stored():
        match store:
            case "sqlite":
                with contextlib.closing(sqlite3.connect(folder / "jobs.db")) as connection:
                    cursor = connection.cursor()
                    tables = [name for (name,) in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                    return repr(list(rows_of(cursor, tables)))
            case "postgres":
                with psycopg.connect(url) as connection:
                    cursor = connection.cursor()
                    cursor.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'onward%'")
                    return repr(list(rows_of(cursor, [name for (name,) in cursor.fetchall()])))
            case "mariadb":
                with contextlib.closing(pymysql.connect(**parse_url(url)[0].arguments)) as connection:
                    cursor = connection.cursor()
                    cursor.execute("SHOW TABLES")
                    return repr(list(rows_of(cursor, [name for (name,) in cursor.fetchall()])))
            case "redis":
                with contextlib.closing(redis.Redis.from_url(url.removeprefix("redis+"))) as client:
                    return repr([(key, client.dump(key)) for key in client.scan_iter()])
        pytest.skip("what lies in memory is seen by nobody else")

    return stored


class TestEncryption:
    def test_keys_are_kept_and_logged_as_digests_and_limit_all_the_same(
        self, open_shop, claim_elsewhere, stored, caplog
    ):
        caplog.set_level(logging.DEBUG)
        jobs = open_shop(signing_keys=RING, encryption=True)

        @jobs.job(limit=(Limit(running=9), Limit(running=1, rate="100/min", by="tenant")))
        def render(tenant: str) -> None: ...

        render.enqueue_many([(CANARY,)] * 2 + [("other",)] * 2)
        render.using(lane=CANARY).enqueue("third")
        jobs.drain("none")  # declares the limit

        leases = claim_elsewhere(jobs, limit=9)

        assert len({lease.lane for lease in leases}) == len(leases) == 2
        assert not any(CANARY in lease.lane for lease in leases)
        assert not any(CANARY in (job.lane or "") for job in jobs.list())
        assert CANARY not in caplog.text
        everything = stored()
        assert "render" in everything
        assert CANARY not in everything


class TestNamespaces:
    def test_limits_of_one_name_in_two_namespaces_are_two_limits(self, open_shop, claim_elsewhere):
        shop, blog = open_shop(namespace="shop"), open_shop(namespace="blog")
        for jobs, running in ((shop, 1), (blog, 3)):
            job = jobs.job(name="render", limit=(Limit(running=running), Limit(rate="2/min", by="tenant")))(_render)
            job.enqueue_many([("acme",)] * 3 + [("zoo",)] * 3)
            jobs.drain("none")

        assert [len(claim_elsewhere(jobs, limit=9)) for jobs in (shop, blog)] == [1, 3]
        assert [jobs.limits.list()[0].running_now for jobs in (shop, blog)] == [1, 3]

        shop.limits.shut("render")
        shop.limits.set("render", running=9)
        assert [limit.is_shut for limit in blog.limits.list() if limit.kind == "job"] == [False]
        assert [limit.running for limit in blog.limits.list() if limit.kind == "job"] == [3]


class TestRuns:
    def test_a_job_that_sleeps_has_given_its_slot_to_others(self, shop, clock):
        order = []

        @shop.job(limit=Limit(running=1, by="tenant"))
        def render(ctx: JobContext, tenant: str, number: int) -> None:
            order.append(number)
            ctx.step("work", int)
            ctx.sleep("nap", "1h")
            order.append(-number)

        render.enqueue_many([("acme", 1), ("acme", 2)])

        assert shop.drain() == 2
        clock.advance(3601)
        assert shop.drain() == 2
        assert sorted(order) == [-2, -1, 1, 1, 2, 2]

    def test_a_hook_that_fails_keeps_no_slot(self, shop):
        failing = [True]

        @shop.around
        def broken(ctx: JobContext):
            if failing[0]:
                raise ConnectionError("no session")
            yield

        @shop.job(limit=Limit(running=1), max_retries=3, retry=NoDelay())
        def render() -> None: ...

        handles = render.enqueue_many([(), ()])
        for _ in range(2):
            shop.process_once()
        failing[0] = False

        shop.drain()
        assert [handle.state() for handle in handles] == [State.COMPLETED] * 2

    def test_a_job_of_a_schedule_stands_in_its_lane(self, shop, clock, claim_elsewhere):
        @shop.schedule("@every 30s", args={"tenant": "acme"})
        @shop.job(limit=Limit(running=1, by="tenant"))
        def render(tenant: str) -> None: ...

        render.enqueue("acme")
        shop.drain("none")
        (held,) = claim_elsewhere(shop, limit=9)
        shop.schedules.tick()
        clock.advance(31)

        assert shop.drain() == 0
        assert {job.lane for job in shop.list()} == {"render/acme"}
        assert shop.backend.ack(held).applied
        assert shop.drain() >= 1

    def test_what_is_replayed_waits_for_a_slot_of_its_lane(self, shop, claim_elsewhere):
        broken = [True]

        @shop.job(limit=Limit(running=1, by="tenant"), max_retries=0)
        def render(tenant: str) -> None:
            if broken[0]:
                raise ValueError(tenant)

        dead = render.enqueue("acme")
        shop.drain()
        assert dead.state() is State.DISCARDED
        render.enqueue("acme")
        (held,) = claim_elsewhere(shop, limit=9)
        broken[0] = False

        assert shop.dead_letters.replay([dead.id]) == 1
        assert (shop.get(dead.id).lane, shop.drain()) == ("render/acme", 0)
        assert shop.backend.ack(held).applied
        assert (shop.drain(), dead.state()) == (1, State.COMPLETED)

    def test_leases_that_another_process_adopts_keep_their_slots_until_it_settles_them(self, shop, claim_elsewhere):
        @shop.job(limit=(Limit(running=2), Limit(running=1, by="tenant")))
        def render(tenant: str) -> None: ...

        render.enqueue_many([(f"tenant-{number % 3}",) for number in range(6)])
        shop.drain("none")
        held = claim_elsewhere(shop, limit=9)

        adopted = shop.backend.open_session(Session(owner="heir"), adopts="elsewhere")

        assert {lease.lane for lease in adopted} == {lease.lane for lease in held}
        assert (len(adopted), shop.drain()) == (2, 0)
        shop.backend.settle([Settlement.ack(lease) for lease in adopted])
        assert (shop.drain(), shop.counts()[State.COMPLETED]) == (4, 6)

    def test_a_job_that_is_completed_in_a_transaction_of_its_handler_frees_its_slot(self, shop):
        if not isinstance(shop.backend, Transacts):
            pytest.skip("this store has no transactions")

        @shop.job(limit=(Limit(running=1), Limit(running=1, by="tenant")))
        def render(ctx: JobContext, tenant: str) -> None:
            with ctx.transaction() as conn:
                assert conn is not None

        render.enqueue_many([("acme",)] * 3)

        assert (shop.drain(), shop.counts()[State.COMPLETED]) == (3, 3)
        assert shop.limits.list()[0].running_now == 0


def _render(tenant: str) -> None: ...
