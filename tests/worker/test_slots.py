"""How many slots are open: few while jobs take microseconds, all of them as soon as they take longer."""

import threading
from types import SimpleNamespace

import pytest

from onward.worker import inflight as module
from onward.worker.inflight import Inflight, Work

ENOUGH = module._ENOUGH * module._SAMPLE
EVERY = module._SAMPLE


@pytest.fixture
def now():
    """The time that the inflight goes by."""
    return SimpleNamespace(now=0.0)


@pytest.fixture
def inflight(now):
    inflight = Inflight(10, lambda: True, clock=lambda: now.now)
    inflight.called = []
    inflight.calls.wake = inflight.called.append
    return inflight


def works(count, first=0):
    ready = SimpleNamespace(entry=SimpleNamespace(is_async=False), lease=None)
    return [Work(ready, (f"job {first + n}", 1), order=first + n, claimed=0.0) for n in range(count)]


def run(inflight, now, seconds):
    """One job after the other, as one runner does."""
    for each in seconds:
        work = inflight.begin(inflight.calls)
        now.now += each
        inflight.end(work, inflight.calls)


def begun(inflight):
    """How many begin if nothing ends."""
    count = 0
    while inflight.begin(inflight.calls) is not None:
        count += 1
    return count


def test_at_first_all_are_open(inflight):
    inflight.add(works(20))

    assert begun(inflight) == 10


def test_quick_jobs_are_left_to_one_runner(inflight, now):
    inflight.add(works(ENOUGH + 20))

    run(inflight, now, [5e-6] * ENOUGH)

    assert begun(inflight) == 1


def test_jobs_that_take_a_moment_get_a_few(inflight, now):
    inflight.add(works(ENOUGH + 20))

    run(inflight, now, [50e-6] * ENOUGH)

    assert begun(inflight) == 3


def test_slow_jobs_get_all(inflight, now):
    inflight.add(works(ENOUGH + 20))

    run(inflight, now, [1e-3] * ENOUGH)

    assert begun(inflight) == 10


def test_a_few_strays_among_quick_jobs_do_not_count(inflight, now):
    inflight.add(works(ENOUGH + 20))

    run(inflight, now, [5e-6] * (ENOUGH - EVERY) + [0.1] * EVERY)

    assert begun(inflight) == 1


def test_more_than_a_few_do(inflight, now):
    inflight.add(works(ENOUGH + 20))

    run(inflight, now, [5e-6] * (ENOUGH - 2 * EVERY) + [0.1] * 2 * EVERY)

    assert begun(inflight) == 10


def test_when_jobs_become_slow_a_thread_that_may_begin_is_called(inflight, now):
    inflight.add(works(2 * ENOUGH + 20))
    run(inflight, now, [5e-6] * ENOUGH)
    inflight.called.clear()

    run(inflight, now, [1e-3] * ENOUGH)

    assert inflight.called == [10]
    assert begun(inflight) == 10


def test_what_waits_only_because_jobs_were_quick_is_known(inflight, now):
    inflight.add(works(ENOUGH + 2))
    assert not inflight.holds_back

    run(inflight, now, [5e-6] * ENOUGH)
    assert inflight.holds_back

    run(inflight, now, [5e-6] * 2)
    assert not inflight.holds_back  # nothing waits


def test_opened_again_a_thread_that_may_begin_is_called(inflight, now):
    inflight.add(works(ENOUGH + 20))
    run(inflight, now, [5e-6] * ENOUGH)
    inflight.called.clear()

    inflight.open_all()

    assert inflight.called == [10]
    assert begun(inflight) == 10


class TestInAWorker:
    def test_slow_jobs_behind_quick_ones_run_at_the_same_time(self, jobs, work_on, gate):
        @jobs.job
        def quick() -> None: ...

        @jobs.job
        def slow() -> None:
            gate.pass_through()

        quick.enqueue_many([()] * 10 * ENOUGH)
        slow.enqueue_many([()] * 4)

        work_on(jobs, concurrency=4)

        gate.wait_for(4)  # though one runner would do for the quick ones
        gate.open()

    def test_slow_jobs_among_quick_ones_do_not_keep_them_waiting(self, jobs, work_on, gate):
        done = threading.Semaphore(0)

        @jobs.job
        def quick() -> None:
            done.release()

        @jobs.job
        def slow() -> None:
            gate.pass_through()

        for _ in range(3):
            quick.enqueue_many([()] * 3 * ENOUGH)
            slow.enqueue()
        quick.enqueue_many([()] * 3 * ENOUGH)

        work_on(jobs, concurrency=4)

        gate.wait_for(3)
        assert all(done.acquire(timeout=30) for _ in range(12 * ENOUGH))
        gate.open()
