"""A lease is begun only while the session is known to live: not after a pause, not while the store is away."""

import pytest

from onward.errors import BackendUnavailable
from tests.worker.stores import Weather, weathered

AWAY = BackendUnavailable("the store is away")


@pytest.fixture
def weather():
    return Weather()


@pytest.fixture
def jobs(open_app_on, weather):
    return open_app_on(weathered(weather))


@pytest.mark.promise("F17")
def test_after_a_pause_nothing_begins_before_the_session_is_renewed(jobs, weather, boot, full_worker, gate, eventually):
    inflight = full_worker(jobs, clock=boot)
    weather.verbs = ("extend",)
    weather.error = AWAY

    boot.advance(31)
    gate.open()
    inflight.worker.milestones.wait_for("settled", 1_001)  # the slow one has ended, and its slot is free
    eventually(lambda: weather.failed >= 2)  # a thread wanted to begin, and asked
    assert len(inflight.done) == 1_000

    weather.error = None
    inflight.worker.milestones.wait_for("settled", 1_101)
    assert sorted(inflight.done) == list(range(1_100))


@pytest.mark.promise("F17")
def test_a_worker_that_wakes_up_to_a_dead_session_drops_what_it_holds(
    jobs, clock, boot, full_worker, gate, eventually, count_of, counters
):
    inflight = full_worker(jobs, clock=boot)

    clock.advance(31)
    assert len(jobs.reap()) > 1
    boot.advance(31)
    inflight.worker._session.fresh()  # as a thread asks that wants to begin a job
    inflight.worker.milestones.wait_for("reopened")
    (ctx,) = inflight.contexts
    assert (ctx.lost, ctx.cancelled) == (True, True)
    assert len(inflight.done) == 1_000
    gate.open()

    # What was dropped comes back as a suspect, one by one, and runs once.
    eventually(lambda: count_of(jobs) == {"completed": 1_101})
    assert sorted(inflight.done) == list(range(1_100))
    inflight.worker.stop()
    assert counters(jobs)["leases_lost"] == 1
    assert counters(jobs)["jobs_succeeded"] == 1_101


def test_while_the_store_is_away_nothing_new_begins(jobs, weather, full_worker, gate, eventually, count_of):
    inflight = full_worker(jobs)

    weather.error = AWAY
    inflight.worker._session.renew()  # as its thread does every ten seconds
    gate.open()
    inflight.worker.milestones.wait_for("unanswered", 2)
    assert not inflight.worker._inflight.running
    assert len(inflight.done) == 1_000

    weather.error = None
    eventually(lambda: count_of(jobs) == {"completed": 1_101})
    assert sorted(inflight.done) == list(range(1_100))


@pytest.mark.promise("F17")
def test_what_was_given_to_others_during_an_outage_does_not_begin_after_it(
    jobs, weather, clock, full_worker, gate, restless, count_of
):
    """The outage was longer than a lease: others have run everything by the time the store answers again."""
    inflight = full_worker(jobs)
    weather.threads = "onward-"  # only the worker's: others reach the store
    weather.error = AWAY
    inflight.worker._session.out_of_contact()
    gate.open()
    inflight.worker.milestones.wait_for("unanswered", 2)
    clock.advance(31)
    jobs.reap()
    assert jobs.drain() == 101
    assert sorted(inflight.done) == list(range(1_100))

    weather.error = None
    inflight.worker.milestones.wait_for("reopened")
    inflight.worker.stop()
    assert sorted(inflight.done) == list(range(1_100))
    assert count_of(jobs) == {"completed": 1_101}


def test_an_idle_worker_renews_before_it_claims(jobs, weather, boot, work_on):
    @jobs.job
    def work(): ...

    worker = work_on(jobs, clock=boot)
    worker.milestones.wait_for("idle")
    weather.verbs = ("extend",)
    weather.error = AWAY

    boot.advance(31)
    work.enqueue()
    worker._session.fresh()
    while weather.failed < 3:  # it asks, and is not answered
        worker.milestones.wait_for("turn", 1)
    assert worker.milestones.count("claimed") == 0

    weather.error = None
    worker.milestones.wait_for("settled", 1)


def test_a_coroutine_does_not_begin_on_a_stale_session_either(jobs, weather, boot, work_on, gate, patient, eventually):
    done = []

    @jobs.job
    async def short(n: int):
        done.append(n)

    @jobs.job
    def slow():
        gate.pass_through()

    short.enqueue_many([(n,) for n in range(500)])
    slow.enqueue()
    short.enqueue_many([(n,) for n in range(500, 550)])
    worker = work_on(jobs, concurrency=1, clock=boot)
    gate.wait_for()
    worker.milestones.wait_for("claimed", 502)
    weather.verbs = ("extend",)
    weather.error = AWAY

    boot.advance(31)
    gate.open()
    worker.milestones.wait_for("settled", 501)
    eventually(lambda: weather.failed >= 2)
    assert len(done) == 500

    weather.error = None
    worker.milestones.wait_for("settled", 551)
    assert sorted(done) == list(range(550))
