"""How often a worker talks to the store: settling and claiming share a turn, and an idle worker asks next to nothing."""

import pytest

from onward import NoDelay, Snooze
from tests.worker.stores import counting

pytestmark = pytest.mark.usefixtures("patient")  # on a busy machine, too, every job is claimed once


@pytest.fixture
def turns():
    return []


@pytest.fixture
def jobs(open_app_on, turns):
    return open_app_on(counting(turns))


def test_one_job_at_a_time_costs_a_turn_to_claim_and_a_turn_to_settle(jobs, work_on, turns):
    @jobs.job
    def work(): ...

    worker = work_on(jobs, concurrency=4)
    worker.milestones.wait_for("idle")
    for done in range(1, 21):
        idle = worker.milestones.count("idle")
        work.enqueue()
        worker.milestones.wait_for("settled", done)
        worker.milestones.wait_for("idle", idle + 1)

    claims = [turn for turn in turns if turn.claim is not None and not turn.settlements]
    settles = [turn for turn in turns if turn.settlements]
    assert len(settles) == 20
    # One claim for each job, the first of all, and a look per second of idleness.
    assert len(claims) <= 20 + 1 + 5


def test_a_thousand_jobs_ride_in_a_few_turns(jobs, work_on, turns):
    @jobs.job
    def work(n: int): ...

    work.enqueue_many([(n,) for n in range(1_000)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 1_000)

    assert len(turns) < 200
    assert sum(len(turn.settlements) for turn in turns) == 1_000


def test_results_ride_in_the_turn_that_claims(jobs, work_on, turns):
    @jobs.job
    def work(n: int): ...

    work.enqueue_many([(n,) for n in range(300)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 300)

    settling = [turn for turn in turns if turn.settlements]
    assert all(turn.claim is not None for turn in settling)


def test_failures_and_snoozes_travel_with_the_successes(jobs, work_on, turns, count_of):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(n: int):
        if n % 3 == 1:
            raise ValueError(n)
        if n % 3 == 2:
            raise Snooze(3600)

    work.enqueue_many([(n,) for n in range(300)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 400)

    assert count_of(jobs) == {"completed": 100, "discarded": 100, "scheduled": 100}
    assert len(turns) < 150
    assert any({item.move for item in turn.settlements} >= {"ack", "snooze"} for turn in turns)


def test_what_is_due_again_at_once_is_claimed_at_once(jobs, work_on, count_of):
    runs = []

    @jobs.job(max_retries=50, retry=NoDelay())
    def work():
        runs.append(1)
        raise RuntimeError

    work.enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 51)

    assert len(runs) == 51
    assert count_of(jobs) == {"discarded": 1}


def test_no_claim_asks_for_more_than_the_store_says(jobs, work_on, turns, monkeypatch):
    monkeypatch.setattr(jobs.parts().backend, "claims_at_once", 300)

    @jobs.job
    def work(n: int): ...

    work.enqueue_many([(n,) for n in range(4_000)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 4_000)

    assert max(turn.claim.limit for turn in turns if turn.claim is not None) == 300


def test_a_worker_that_is_full_does_not_ask(jobs, work_on, turns, gate):
    @jobs.job
    def work():
        gate.pass_through()

    work.enqueue_many([()] * 10)
    worker = work_on(jobs, concurrency=2)
    gate.wait_for(2)
    asked = len(turns)
    worker.milestones.wait_for("claimed", 2)

    assert [turn.claim.limit for turn in turns[:asked]] == [2]
    gate.open()
    worker.milestones.wait_for("settled", 10)


def test_every_job_is_counted_once(jobs, work_on, counters):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(n: int):
        if n % 2:
            raise ValueError(n)

    work.enqueue_many([(n,) for n in range(500)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 750)
    worker.stop()

    assert counters(jobs) == {
        "jobs_fetched": 750,
        "jobs_succeeded": 250,
        "jobs_failed": 500,
        "jobs_requeued": 250,
        "jobs_failed_permanently": 250,
    }
