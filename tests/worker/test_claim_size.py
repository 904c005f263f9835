"""How much a worker holds that it has not begun: a tenth of a second of work, and nothing behind a slow job."""

import time

import pytest

from onward.worker import pump
from onward.worker.inflight import Prefetch


class TestTheRate:
    def test_at_first_as_many_as_can_run_are_wanted(self):
        assert Prefetch(10, at_once=500).wanted(0, 0.0) == 10
        assert Prefetch(10, at_once=500).wanted(4, 0.0) == 6

    def test_fast_jobs_are_held_for_a_tenth_of_a_second(self):
        prefetch = Prefetch(4, at_once=500)
        prefetch.claimed(0.0)
        prefetch.finished(100, 0.0, 0.1)

        assert prefetch.wanted(0, 0.1) == 4 + 100

    def test_slow_jobs_are_not_held_at_all(self):
        prefetch = Prefetch(10, at_once=500)
        prefetch.claimed(0.0)
        for second in range(1, 5):
            prefetch.finished(5, 5 * 2.0, second)

            assert prefetch.wanted(10, second) == 0

    def test_slow_jobs_that_happen_to_end_together_are_still_slow(self):
        prefetch = Prefetch(10, at_once=500)
        prefetch.claimed(0.0)
        prefetch.finished(5, 5 * 2.0, 2.0)
        prefetch.finished(5, 5 * 2.0, 2.021)

        assert prefetch.wanted(10, 2.021) == 0

    def test_when_nothing_is_finished_any_more_nothing_is_held(self):
        prefetch = Prefetch(4, at_once=500)
        prefetch.claimed(0.0)
        prefetch.finished(1_000, 0.0, 0.1)
        assert prefetch.wanted(4, 0.1) > 0

        assert prefetch.wanted(4, 1.1) == 0

    def test_what_was_given_back_was_too_much(self):
        prefetch = Prefetch(4, at_once=500)
        prefetch.claimed(0.0)
        prefetch.finished(1_000, 0.0, 0.1)

        prefetch.forget()

        assert prefetch.wanted(4, 0.1) == 0
        assert prefetch.wanted(0, 0.1) == 4

    @pytest.mark.parametrize("at_once", [200, 1000])
    def test_one_claim_is_bounded_by_what_the_store_says(self, at_once):
        prefetch = Prefetch(4, at_once=at_once)
        prefetch.claimed(0.0)
        prefetch.finished(100_000, 0.0, 0.1)

        assert prefetch.wanted(0, 0.1) == at_once

    def test_too_much_in_hand_wants_nothing(self):
        assert Prefetch(4, at_once=500).wanted(400, 0.0) == 0


def test_slow_jobs_are_claimed_as_slots_become_free(jobs, work_on):
    ahead = []

    @jobs.job
    def work(n: int):
        time.sleep(0.12)
        inflight = worker._inflight
        ahead.append(len(inflight.calls.works) - (inflight.concurrency - len(inflight.running)))

    worker = work_on(jobs, concurrency=2)
    work.enqueue_many([(n,) for n in range(12)])
    worker.milestones.wait_for("settled", 12)

    assert max(ahead) <= 1  # seventeen a second: less than two in a tenth of it
    assert worker.milestones.count("given back") == 0


@pytest.mark.promise("F23")
def test_an_endless_job_does_not_delay_short_ones(jobs, work_on, gate, report):
    done = []

    @jobs.job
    def short(n: int):
        done.append(n)

    @jobs.job(priority=5)
    def endless():
        gate.pass_through()

    worker = work_on(jobs, concurrency=2)
    short.enqueue_many([(n,) for n in range(2_000)])
    worker.milestones.wait_for("settled", 1_000)  # it claims far ahead by now
    endless.enqueue()
    gate.wait_for()
    worker.milestones.wait_for("settled", 2_000)

    delays = []
    for n in range(100):
        enqueued = time.perf_counter()
        short.enqueue(2_000 + n)
        worker.milestones.wait_for("settled", 2_001 + n)
        delays.append(time.perf_counter() - enqueued)
    report(f"a short job beside an endless one, at its slowest of 100: {max(delays) * 1000:.0f} ms")
    assert max(delays) < 1
    gate.open()


@pytest.mark.promise("F23")
def test_what_was_claimed_ahead_of_a_slow_job_is_given_back(jobs, work_on, gate, eventually, count_of):
    done = []

    @jobs.job
    def short(n: int):
        done.append(n)

    @jobs.job
    def slow():
        gate.pass_through()

    short.enqueue_many([(n,) for n in range(2_000)])
    slow.enqueue()
    short.enqueue_many([(n,) for n in range(2_000, 2_500)])
    worker = work_on(jobs, concurrency=1)
    gate.wait_for()
    began = time.monotonic()
    assert len(worker._inflight.calls.works) > 0
    eventually(lambda: count_of(jobs) == {"completed": 2_000, "executing": 1, "available": 500})
    assert time.monotonic() - began < 3
    given_back = worker.milestones.count("given back")

    # Others can have them now, and this worker does not come back for more than it can begin.
    assert jobs.drain() == 500
    assert worker.milestones.count("given back") == given_back
    assert sorted(done) == list(range(2_500))
    gate.open()
    eventually(lambda: count_of(jobs) == {"completed": 2_501})


def test_what_waits_is_given_back_unharmed(jobs, work_on, gate, eventually, monkeypatch):
    monkeypatch.setattr(pump, "_LONGEST_WAIT", 0.2)

    @jobs.job
    def short(n: int): ...

    @jobs.job
    def slow():
        gate.pass_through()

    short.enqueue_many([(n,) for n in range(1_000)])
    slow.enqueue()
    behind = short.enqueue_many([(n,) for n in range(20)])
    worker = work_on(jobs, concurrency=1)
    gate.wait_for()
    worker.milestones.wait_for("given back", 20)

    record = eventually(lambda: behind[0].state() == "available" and behind[0].record())
    assert (record.attempts, record.crashes, record.interruptions) == (0, 0, 1)
    gate.open()
    worker.milestones.wait_for("settled", 1_000 + 1 + 20 + 20)
