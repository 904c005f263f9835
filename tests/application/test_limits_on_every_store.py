"""Limits on every store that has lanes: in workers, in `drain` and `process_once`, and who is woken when there is room."""

import threading

import pytest

from onward import Limit, State
from onward.worker import worker as engine
from tests.application.every_store import redis_server, store, url  # noqa: F401
from tests.waiting import PATIENCE


@pytest.fixture
def open_shop(open_app):
    """Open an application on a store that decides by lanes.  On memory there is one: no other sees that store."""
    opened = []

    def open_shop(**settings):
        if opened and opened[0].settings.url == "memory://":
            return opened[0]
        if not open_app().backend.capabilities.lanes:
            pytest.skip("this store has no lanes")
        opened.append(open_app(**settings))
        return opened[-1]

    return open_shop


@pytest.fixture
def elsewhere(open_shop, monkeypatch):
    """Another process, which serves the queue ``there`` and has nothing to do; and how many turns it makes."""

    monkeypatch.setattr(engine, "_WAIT", 3600)  # a worker looks when it is woken, and not every second besides

    class Elsewhere:
        def __init__(self):
            self.jobs = open_shop(clock=None)
            self.ran = threading.Event()
            self.turns = []

        def start(self):
            turn = self.jobs.backend.turn

            def counted(asked):
                if asked.claim is not None and "there" in asked.claim.queues:
                    self.turns.append(asked)
                return turn(asked)

            self.jobs.backend.turn = counted
            self.worker = self.jobs.worker(queues=["there"], concurrency=1)
            self.worker.start()
            self.worker.milestones.wait_for("idle")

        def stop(self):
            self.worker.stop()

    return Elsewhere


@pytest.mark.promise("L46")
def test_a_freed_slot_wakes_another_process_that_waits_for_it(open_shop, elsewhere):
    here, other = open_shop(clock=None), elsewhere()
    running, go_on = threading.Event(), threading.Event()

    def narrow(place: str) -> None:
        if place == "there":
            other.ran.set()
            return
        running.set()
        go_on.wait(PATIENCE)

    limit = Limit(running=1)
    job = here.job(name="narrow", limit=limit)(narrow)
    if other.jobs is not here:
        other.jobs.job(name="narrow", limit=limit)(narrow)
    with here.worker(queues=["here"], concurrency=1):
        job.using(queue="here").enqueue("here")
        assert running.wait(PATIENCE)
        waits = job.using(queue="there").enqueue("there")
        other.start()
        try:
            assert waits.state() is State.AVAILABLE
            looks = len(other.turns)

            go_on.set()

            assert other.ran.wait(PATIENCE)
            assert waits.result(timeout=PATIENCE) is None
            assert len(other.turns) - looks <= 4  # woken, it claims and settles: it does not ask again and again
        finally:
            go_on.set()
            other.stop()


@pytest.mark.parametrize("change", ["open", "set"])
def test_a_process_that_waits_is_woken_when_people_make_room(elsewhere, claim_elsewhere, change):
    other = elsewhere()

    @other.jobs.job(name="narrow", queue="there", limit=Limit(running=1))
    def narrow() -> None:
        other.ran.set()

    narrow.enqueue()
    other.jobs.drain("none")  # declares the limit
    if change == "open":
        other.jobs.limits.shut("narrow")
    else:
        claim_elsewhere(other.jobs, queue="there")
        narrow.enqueue()
    other.start()
    try:
        assert not other.ran.is_set()

        if change == "open":
            other.jobs.limits.open("narrow")
        else:
            other.jobs.limits.set("narrow", running=2)

        assert other.ran.wait(PATIENCE)
    finally:
        other.stop()


def test_a_limit_of_each_key_that_left_the_code_binds_nothing(open_shop, claim_elsewhere):
    earlier, later = open_shop(fair_by="tenant"), open_shop(fair_by="tenant")
    if earlier is later:
        pytest.skip("no other deployment sees this store")
    earlier.job(name="render", limit=Limit(running=1, by="tenant"))(_render)
    earlier.drain("none")  # declares the limit

    job = later.job(name="render", limit=Limit(running=9))(_render)
    job.enqueue_many([("acme",)] * 5)
    later.drain("none")

    assert len(claim_elsewhere(later, limit=5)) == 5


def _render(tenant: str) -> None: ...


class TestInline:
    """`process_once` and `drain` are claims like any other."""

    @pytest.fixture
    def jobs(self, open_shop):
        return open_shop()

    def test_they_start_nothing_that_has_no_slot(self, jobs, claim_elsewhere):
        @jobs.job(limit=Limit(running=1))
        def narrow() -> None: ...

        first, second = narrow.enqueue_many([(), ()])
        jobs.drain("none")  # declares the limit
        (held,) = claim_elsewhere(jobs, limit=2)

        assert jobs.process_once().status == "empty"
        assert jobs.drain() == 0
        assert jobs.backend.ack(held).applied
        assert jobs.process_once().status == "acked"
        assert {first.state(), second.state()} == {State.COMPLETED}

    def test_they_start_no_more_than_there_are_tokens(self, jobs, clock):
        @jobs.job(limit=Limit(rate="3/min", by="customer"))
        def call(customer: str) -> None: ...

        call.enqueue_many([("a",)] * 5 + [("b",)])

        assert [jobs.process_once().status for _ in range(6)] == ["acked"] * 4 + ["empty"] * 2
        clock.advance(20)
        assert jobs.drain() == 1
        clock.advance(40)
        assert jobs.drain() == 1

    def test_they_start_nothing_that_is_shut(self, jobs):
        @jobs.job(limit=Limit(running=9))
        def call() -> None: ...

        call.enqueue()
        jobs.drain("none")
        jobs.limits.shut("call")
        assert (jobs.process_once().status, jobs.drain()) == ("empty", 0)
        jobs.limits.open("call")
        assert jobs.drain() == 1

    def test_tenants_take_turns(self, open_shop):
        jobs, order = open_shop(fair_by="tenant"), []

        @jobs.job
        def render(tenant: str) -> None:
            order.append(tenant)

        render.enqueue_many([("big",)] * 30)
        render.enqueue_many([("small",)] * 3)
        for _ in range(8):
            jobs.process_once()

        assert order.count("small") == 3
