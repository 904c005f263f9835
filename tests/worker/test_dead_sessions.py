"""A session that is reaped under a running worker: another worker has its leases, and it goes on under a new name."""

import threading

import pytest

from onward import JobContext
from onward.backend import Claim
from onward.base.clock import boottime
from onward.telemetry import JobLeaseLost


@pytest.fixture
def reap(jobs, clock):
    """Let a lease pass by the store's clock, and give back what was held."""

    def reap():
        clock.advance(31)
        return jobs.reap()

    return reap


@pytest.mark.promise("F07", "F17")
def test_a_late_settlement_is_a_lost_lease_and_work_goes_on(jobs, work_on, reap, gate, counters, listen, eventually):
    heard = listen(jobs)
    seen = []

    @jobs.job
    def work(ctx: JobContext):
        if ctx.delivery == 1:
            gate.pass_through()
        seen.append((ctx.delivery, ctx.lost))

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    assert [each.id for each in reap()] == [handle.id]
    worker.milestones.wait_for("reopened")  # it finds out by the next turn, at the latest by the next renewal
    eventually(lambda: handle.state() == "completed")
    gate.open()
    worker.milestones.wait_for("settled", 2)

    assert sorted(seen) == [(1, True), (2, False)]
    assert [event.id for event in heard(JobLeaseLost)] == [handle.id]
    record = handle.record()
    assert (record.attempts, record.crashes, record.delivery) == (1, 1, 2)
    assert counters(jobs) == {"jobs_fetched": 2, "jobs_succeeded": 1, "leases_lost": 1, "jobs_crashed": 1}


def test_a_success_that_was_applied_before_the_session_died_stays_one(jobs, work_on, clock, counters):
    @jobs.job
    def work(): ...

    worker = work_on(jobs)
    for done in range(1, 6):
        work.enqueue()
        worker.milestones.wait_for("settled", done)
        clock.advance(31)
        jobs.reap()

    assert counters(jobs) == {"jobs_fetched": 5, "jobs_succeeded": 5}


def test_a_session_that_dies_over_and_over_loses_nothing(jobs, work_on, reap, eventually, count_of):
    done = []

    @jobs.job(max_crashes=1_000)
    def work(n: int):
        done.append(n)

    work.enqueue_many([(n,) for n in range(200)])
    stop = threading.Event()
    worker = work_on(jobs)

    def reaper():
        while not stop.wait(0.1):
            reap()

    thread = threading.Thread(target=reaper)
    thread.start()
    eventually(lambda: set(done) == set(range(200)))
    stop.set()
    thread.join()

    eventually(lambda: count_of(jobs) == {"completed": 200})
    assert worker.running


def test_limits_are_not_used_up_by_what_was_lost(jobs, clock, full_worker, gate, eventually, boot):
    """What was dropped is no longer counted against its queue."""
    inflight = full_worker(jobs, clock=boot, per_process={"default": 200})
    clock.advance(31)
    jobs.reap()
    boot.advance(31)
    inflight.worker._session.fresh()
    inflight.worker.milestones.wait_for("reopened")
    gate.open()

    eventually(lambda: jobs.counts()["completed"] == 1_101)
    eventually(lambda: not inflight.worker._inflight.unsettled)


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_worker_reaps_others_only_after_a_lease_of_contact(open_app, work_on, clock, eventually):
    jobs, other = open_app(), open_app()

    @jobs.job
    def work(): ...

    work.enqueue()
    jobs.backend.claim(Claim(queues=("default",), owner="doomed"))
    clock.advance(31)

    began = boottime()
    worker = work_on(other, queues=["nothing"], lease_for=0.5)
    worker.milestones.wait_for("swept")
    assert boottime() - began >= 0.5
    assert jobs.counts()["available"] + jobs.counts()["retryable"] == 1
