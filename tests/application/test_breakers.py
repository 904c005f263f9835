"""Breakers as users meet them: a job is shut in all workers, probed, and opened; nothing is lost by it."""

import logging
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta

import pytest

from onward import Breaker, InvalidLimit, JobContext, Limit, NoDelay, Onward, OptionError, State
from onward.backend import Claim
from onward.errors import BackendError
from tests.application.every_store import redis_server, store, url  # noqa: F401
from tests.waiting import eventually as until

BROKEN = Breaker(failures=3, of=5, pause=30, longest=100, on=ConnectionError)


@pytest.fixture
def jobs(open_app):
    return with_lanes(open_app())


def with_lanes(app):
    """The application, on a store that decides by lanes."""
    if not app.backend.capabilities.lanes:
        pytest.skip("this store has no lanes")
    return app


class OtherSide:
    """A job that calls a service which is there or away."""

    def __init__(self, jobs, breaker=BROKEN, **options):
        self.is_away = True
        self.calls = 0
        settings = {"max_retries": 50, "retry": NoDelay(), **options}

        @jobs.job(breaker=breaker, **settings)
        def charge(order: int) -> None:
            self.calls += 1
            if self.is_away:
                raise ConnectionError("refused")

        self.charge = charge


def shut_for(jobs, clock):
    """The seconds for which the job is shut; None if it is not."""
    (limit,) = [each for each in jobs.limits.list() if each.kind == "job"]
    return (limit.shut_until - clock.now()).total_seconds() if limit.is_shut else None


class TestShutting:
    @pytest.mark.promise("L58")
    def test_too_many_failures_shut_the_job_and_others_go_on(self, jobs, clock):
        other = OtherSide(jobs)

        @jobs.job
        def plain() -> None: ...

        handles = other.charge.enqueue_many([(number,) for number in range(10)])
        beside = plain.enqueue_many([()] * 3)
        jobs.drain()

        assert other.calls == 3
        assert shut_for(jobs, clock) == 30
        assert [handle.state() for handle in beside] == [State.COMPLETED] * 3
        assert sum(jobs.get(handle.id).attempts for handle in handles) == 3
        clock.advance(29)
        assert jobs.drain() == 0

    @pytest.mark.promise("L58")
    def test_a_probe_that_succeeds_opens_for_all_at_once(self, jobs, clock, caplog):
        other = OtherSide(jobs)
        handles = other.charge.enqueue_many([(number,) for number in range(10)])
        with caplog.at_level(logging.INFO, logger="onward"):
            jobs.drain()
            clock.advance(30)
            other.is_away = False
            jobs.drain()

        assert [handle.state() for handle in handles] == [State.COMPLETED] * 10
        assert shut_for(jobs, clock) is None
        assert [line for line in caplog.messages if "job charge is" in line] == [
            "job charge is shut for 30 s in all workers: 3 of its last 5 runs failed",
            "job charge is open again: its probe succeeded",
        ]

    @pytest.mark.promise("L58")
    def test_each_probe_that_fails_shuts_for_twice_as_long_up_to_the_longest(self, jobs, clock):
        other = OtherSide(jobs)
        other.charge.enqueue_many([(number,) for number in range(10)])
        jobs.drain()
        lengths = [shut_for(jobs, clock)]

        for _ in range(4):
            clock.advance(lengths[-1])
            before = other.calls
            jobs.drain()
            assert other.calls == before + 1  # one run for each pause
            lengths.append(shut_for(jobs, clock))

        assert lengths == [30, 60, 100, 100, 100]

    def test_other_failures_and_single_ones_shut_nothing(self, jobs, clock):
        calls = []

        @jobs.job(breaker=BROKEN, max_retries=0)
        def charge(order: int) -> None:
            calls.append(order)
            if order % 3 == 0:
                raise ConnectionError
            if order % 3 == 1:
                raise ValueError

        charge.enqueue_many([(number,) for number in range(20)])
        jobs.drain()

        assert len(calls) == 20
        assert shut_for(jobs, clock) is None

    def test_a_breaker_stands_beside_limits_and_shuts_all_keys(self, jobs, clock):
        @jobs.job(breaker=BROKEN, limit=Limit(running=2, by="customer"), max_retries=5, retry=NoDelay())
        def charge(customer: str) -> None:
            if customer == "bad":
                raise ConnectionError

        charge.enqueue_many([("bad",)] * 3)
        jobs.drain()
        good = charge.enqueue("good")
        assert jobs.drain() == 0
        clock.advance(31)
        jobs.drain()
        assert good.state() is State.COMPLETED

    def test_people_open_what_a_breaker_has_shut(self, jobs, clock):
        other = OtherSide(jobs)
        other.charge.enqueue_many([(number,) for number in range(5)])
        jobs.drain()

        jobs.limits.open("charge")
        other.is_away = False
        jobs.drain()

        assert jobs.counts()[State.COMPLETED] == 5

    def test_process_once_counts_too(self, jobs, clock):
        other = OtherSide(jobs)
        other.charge.enqueue_many([(number,) for number in range(5)])

        assert [jobs.process_once().status for _ in range(5)] == ["requeued"] * 3 + ["empty"] * 2
        assert shut_for(jobs, clock) == 30


class TestNothingIsLost:
    @pytest.mark.promise("L60")
    def test_a_run_under_way_that_fails_while_it_is_shut_burns_nothing(self, open_app):
        jobs = with_lanes(open_app(clock=None))
        running, fails = threading.Barrier(5, timeout=30), [threading.Event() for _ in range(4)]

        @jobs.job(breaker=Breaker(failures=2, of=4, pause=60, on=ConnectionError), max_retries=0)
        def charge(number: int) -> None:
            running.wait()
            fails[number].wait(30)
            raise ConnectionError

        handles = charge.enqueue_many([(number,) for number in range(4)])
        with jobs.worker(concurrency=4):
            running.wait()
            for number in (0, 1):
                fails[number].set()
                until(lambda number=number: handles[number].state() is State.DISCARDED)
            (limit,) = jobs.limits.list()
            assert limit.is_shut
            for number in (2, 3):
                fails[number].set()
                until(lambda number=number: handles[number].state() is State.SCHEDULED)

        for handle in handles[2:]:
            record = jobs.get(handle.id)
            assert (record.attempts, record.errors) == (0, ())
            assert abs(record.available_at - limit.shut_until) < timedelta(seconds=2)

    @pytest.mark.promise("L60")
    def test_expires_still_expires(self, jobs, clock):
        other = OtherSide(jobs)
        other.charge.enqueue_many([(number,) for number in range(3)])
        jobs.drain()
        late = other.charge.using(expires=10).enqueue(9)
        clock.advance(31)
        other.is_away = False
        jobs.drain()

        assert (late.state(), jobs.get(late.id).reason) == (State.CANCELLED, "expired")

    @pytest.mark.promise("L60")
    def test_a_breaker_that_left_the_code_shuts_no_longer_than_twice_the_longest(self, open_app, clock, store):  # noqa: F811
        if store == "memory":
            pytest.skip("no other application sees this store")
        jobs = with_lanes(open_app())
        other = OtherSide(jobs)
        other.charge.enqueue_many([(number,) for number in range(12)])
        jobs.drain()
        for _ in range(4):
            clock.advance(shut_for(jobs, clock))
            jobs.drain()
        assert shut_for(jobs, clock) == 100
        newer = open_app()

        @newer.job(name="charge")
        def charge(order: int) -> None: ...

        assert newer.drain() == 0
        clock.advance(201)
        assert newer.process_once().status == "acked"
        newer.drain()
        assert newer.counts()[State.COMPLETED] == 12

    @pytest.mark.promise("L58", "L60")
    def test_another_process_sees_that_the_job_is_shut(self, open_app, clock, store):  # noqa: F811
        if store == "memory":
            pytest.skip("no other application sees this store")
        first, second = with_lanes(open_app()), open_app()
        other = OtherSide(first)
        other.charge.using(queue="first").enqueue_many([(number,) for number in range(5)])

        @second.job(breaker=BROKEN, max_retries=0, queue="second")
        def charge(order: int) -> None:
            first.drain("first")  # which shuts the job while this run is under way
            raise ConnectionError

        handle = charge.enqueue(7)
        assert second.drain("second") == 1

        assert other.calls == 3
        assert (handle.state(), second.get(handle.id).attempts) == (State.SCHEDULED, 0)
        assert second.get(handle.id).available_at == clock.now() + timedelta(seconds=30)
        charge.enqueue(8)
        assert second.drain("second") == 0


class TestTheStoresOwnBreaker:
    """Contract: failures of handlers never pause a worker, and errors of the store never shut a job."""

    @pytest.mark.promise("L59")
    def test_failures_of_handlers_do_not_pause_the_worker(self, open_app):
        jobs = with_lanes(open_app(clock=None))
        other = OtherSide(jobs, Breaker(failures=1, of=1, pause=60))

        @jobs.job(max_retries=0)
        def fails() -> None:
            raise BackendError("what a store says, said by a handler")

        @jobs.job
        def plain() -> int:
            return 1

        other.charge.enqueue(1)
        fails.enqueue_many([()] * 20)
        with jobs.worker(concurrency=4):
            until(lambda: jobs.counts()[State.DISCARDED] == 20)
            assert plain.enqueue().result(timeout=20) == 1  # the store's breaker would pause for a minute
        assert other.calls == 1

    @pytest.mark.promise("L59")
    def test_errors_of_the_store_do_not_shut_the_job(self, open_app):
        jobs = with_lanes(open_app(clock=None))
        other = OtherSide(jobs, Breaker(failures=1, of=5, pause=60))
        other.is_away = False
        turn, left = jobs.backend.turn, [3]

        def failing(asked):
            if asked.settlements and left[0]:
                left[0] -= 1
                raise BackendError("no space left")
            return turn(asked)

        jobs.backend.turn = failing
        handles = other.charge.enqueue_many([(number,) for number in range(4)])
        with jobs.worker(concurrency=1):
            until(lambda: all(handle.state() is State.COMPLETED for handle in handles))
        assert left == [0]
        assert [each.is_shut for each in jobs.limits.list()] == [False]


class TestDefining:
    @pytest.mark.parametrize("given", [5, Limit(running=1), "yes"])
    def test_what_is_no_breaker_is_refused_where_it_is_said(self, given):
        jobs = Onward("memory://")
        with pytest.raises(InvalidLimit, match="charge: breaker takes Breaker"):

            @jobs.job(breaker=given)
            def charge() -> None: ...

        assert "charge" not in jobs.names

    @pytest.mark.promise("L56")
    def test_a_broker_refuses_it_and_names_the_fix(self):
        jobs = Onward("beanstalk://localhost:1")
        with pytest.raises(OptionError, match=r"cannot keep breaker .*use a database or Redis as the url"):

            @jobs.job(breaker=Breaker())
            def charge() -> None: ...

    def test_a_job_with_a_breaker_alone_has_lanes_and_is_declared(self):
        with Onward("memory://") as jobs:

            @jobs.job(breaker=Breaker())
            def charge() -> None: ...

            handle = charge.enqueue()
            assert jobs.get(handle.id).lane == "charge"
            jobs.drain()
            assert [(each.kind, each.name, each.running, each.rate) for each in jobs.limits.list()] == [
                ("job", "charge", None, None)
            ]
            jobs.limits.set("charge", running=1)
            assert [each.running for each in jobs.limits.list()] == [1]


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_probe_that_completes_its_job_in_a_transaction_opens_it(jobs, clock, folder):
    away = [True]

    @jobs.job(breaker=BROKEN, max_retries=50, retry=NoDelay())
    def charge(ctx: JobContext, order: int) -> None:
        if away[0]:
            raise ConnectionError
        with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with ctx.transaction(connection):
                pass
            connection.execute("COMMIT")

    handles = charge.enqueue_many([(number,) for number in range(5)])
    jobs.drain()
    assert shut_for(jobs, clock) == 30
    away[0] = False
    clock.advance(30)

    assert jobs.process_once().status == "acked"

    assert shut_for(jobs, clock) is None
    (gate,) = [each for each in jobs.limits.list() if each.kind == "job"]
    assert not gate.is_shut
    claimed = jobs.backend.claim(Claim(queues=("default",), owner="elsewhere", limit=9))
    assert [lease.probe for lease in claimed] == [0] * 4  # open for all, not one at a time
    assert handles
