"""Stopping: nothing new, what has not begun goes back at once, what runs is awaited, renewed and settled."""

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest

from onward import JobContext, Onward
from onward.base.clock import SystemClock
from onward.errors import BackendError, BackendUnavailable, OnwardError

shared = pytest.mark.parametrize("store", ["sqlite"])  # each memory:// application is its own store


def engine_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("onward-")}


@pytest.mark.promise("S43")
def test_a_polite_stop_waits_for_what_runs(jobs, work_on, gate, in_background):
    @jobs.job
    def work():
        gate.pass_through()
        return "finished"

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    stopping = in_background(worker.stop)
    later = work.enqueue()
    gate.open()

    assert stopping() == []
    assert handle.result() == "finished"
    assert later.state() == "available"
    assert not worker.running
    assert worker.wait(0)


@pytest.mark.promise("F82")
def test_what_has_not_begun_goes_back_at_once_and_unharmed(jobs, full_worker, gate, eventually, count_of):
    inflight = full_worker(jobs)
    asked = time.monotonic()

    (still_running,) = inflight.worker.stop(timeout=0.5)

    assert still_running == inflight.contexts[0].id
    assert count_of(jobs) == {"completed": 1_000, "available": 100, "executing": 1}
    assert time.monotonic() - asked < 2
    again = jobs.list(state="available", limit=200)
    assert {(record.attempts, record.crashes, record.interruptions) for record in again} <= {(0, 0, 0), (0, 0, 1)}
    assert jobs.drain() == 100
    gate.open()
    assert inflight.worker.wait(20)
    assert count_of(jobs) == {"completed": 1_101}


@pytest.mark.promise("F82")
@shared
def test_what_runs_past_the_deadline_stays_renewed_and_is_settled_when_it_ends(open_app, url, work_on, gate):
    jobs = open_app(clock=SystemClock())

    @jobs.job
    def work(ctx: JobContext):
        gate.pass_through()
        return ctx.lost

    handle = work.enqueue()
    worker = work_on(jobs, lease_for=0.5)
    gate.wait_for()
    assert worker.stop(timeout=0) == [handle.id]
    assert worker.running

    with Onward(url) as other:
        end = time.monotonic() + 1.2  # more than two leases
        while time.monotonic() < end:
            assert other.reap() == []
            worker.milestones.wait_for("renewed", worker.milestones.count("renewed") + 1)
        assert other.get(handle.id).state == "executing"
        gate.open()
        assert worker.wait(20)
        record = other.get(handle.id)
        assert (record.state, record.result, record.crashes) == ("completed", False, 0)


@shared
def test_the_session_is_ended(open_app, work_on, gate):
    jobs = open_app()

    @jobs.job
    def work(): ...

    work.enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("settled")
    worker.stop()

    assert not jobs.backend.extend(worker._session.owner).alive


def test_stopping_twice_is_stopping_once(jobs, work_on, gate):
    @jobs.job
    def work():
        gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()

    assert worker.stop(timeout=0) == worker.stop(timeout=0) == [handle.id]
    gate.open()
    assert worker.stop() == worker.stop() == []


def test_many_may_stop_it_at_once(jobs, work_on, in_background):
    worker = work_on(jobs)
    stops = [in_background(worker.stop) for _ in range(8)]

    assert [stop() for stop in stops] == [[]] * 8


def test_what_was_never_started_is_stopped(jobs):
    worker = jobs.worker()

    assert worker.stop() == []
    assert not worker.running
    with worker:
        assert worker.running
    assert not worker.running


def test_it_is_started_once(jobs, work_on):
    worker = work_on(jobs)
    with pytest.raises(OnwardError, match="make a new one"):
        worker.start()

    worker.stop()
    with pytest.raises(OnwardError, match="make a new one"):
        worker.start()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_handler_may_stop_its_own_worker(jobs, work_on, colour):
    answers = []

    if colour == "sync":

        @jobs.job
        def work(ctx: JobContext):
            answers.append((ctx.id, worker.stop()))

    else:

        @jobs.job
        async def work(ctx: JobContext):
            answers.append((ctx.id, worker.stop()))

    worker = work_on(jobs)
    handle = work.enqueue()
    asked = time.monotonic()

    assert worker.wait(20)
    assert time.monotonic() - asked < 10
    assert answers == [(handle.id, [handle.id])]  # it does not wait for itself
    assert handle.state() == "completed"


def test_a_stop_ends_a_pause_between_two_tries(open_app_on, work_on, weather_of):
    weather = weather_of("turn")
    jobs = open_app_on(weather.mixin)
    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    weather.error = BackendError("it answers, but with an error")
    worker._pump.wake()
    worker.milestones.wait_for("unanswered", 5)  # the circuit is open: the next try is a minute away
    weather.error = None

    assert worker.stop(timeout=10) == []


def test_what_the_store_has_not_answered_is_told(open_app_on, work_on, weather_of, gate):
    weather = weather_of("turn", "open_session")
    jobs = open_app_on(weather.mixin)

    @jobs.job
    def work():
        gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.error = BackendUnavailable("away")
    gate.open()
    worker.milestones.wait_for("unanswered")

    assert worker.stop(timeout=0.05) == [handle.id]
    weather.error = None
    assert worker.wait(20)
    assert handle.state() == "completed"


@pytest.mark.parametrize("store", ["sqlite"])
class TestClosingTheApplication:
    def test_it_stops_its_workers(self, url, clock, gate, in_background):
        jobs = Onward(url, clock=clock)

        @jobs.job
        def work():
            gate.pass_through()

        handle = work.enqueue()
        worker = jobs.worker().start()
        gate.wait_for()
        closing = in_background(jobs.close)
        gate.open()
        closing()

        assert not worker.running
        with Onward(url, clock=clock) as other:
            assert other.get(handle.id).state == "completed"

    def test_it_stops_them_all_at_once(self, url, clock, gate):
        jobs = Onward(url, clock=clock)

        @jobs.job
        def work():
            gate.pass_through()

        work.enqueue_many([()] * 4)
        workers = [jobs.worker(concurrency=1, shutdown_timeout=0.5).start() for _ in range(4)]
        gate.wait_for(4)
        asked = time.monotonic()
        jobs.close()

        assert time.monotonic() - asked < 1.5
        gate.open()
        assert all(worker.wait(20) for worker in workers)

    def test_what_outlives_it_is_settled_all_the_same(self, url, clock, gate, eventually):
        jobs = Onward(url, clock=clock)

        @jobs.job
        def work():
            gate.pass_through()

        handle = work.enqueue()
        worker = jobs.worker(shutdown_timeout=0.05).start()
        gate.wait_for()
        jobs.close()
        jobs.close()
        gate.open()

        assert worker.wait(20)
        with Onward(url, clock=clock) as other:
            assert other.get(handle.id).state == "completed"
        eventually(lambda: jobs.backend._connections.closed)

    def test_a_handler_may_close_it(self, url, clock):
        jobs = Onward(url, clock=clock)

        @jobs.job
        def work():
            jobs.close()

        handle = work.enqueue()
        worker = jobs.worker().start()

        assert worker.wait(20)
        with Onward(url, clock=clock) as other:
            assert other.get(handle.id).state == "completed"


@pytest.mark.promise("F85")
def test_restarts_leave_nothing_behind(jobs, work_on, eventually, report):
    of_others = engine_threads()  # an application that an earlier test has not closed keeps its threads

    @jobs.job(timeout=60)
    def work(n: int): ...

    @jobs.job
    async def awork(n: int):
        await asyncio.sleep(0)

    def cycle():
        for job in (work, awork):
            job.enqueue_many([(n,) for n in range(20)])
        worker = jobs.worker(concurrency=4).start()
        worker.milestones.wait_for("settled", 40)
        assert worker.stop() == []

    def measure():
        eventually(lambda: engine_threads() <= of_others)
        gc.collect()
        return sum(1 for _ in Path("/proc/self/fd").iterdir()), len(gc.get_objects())

    for _ in range(2):
        cycle()
    files, objects = measure()
    for _ in range(10):
        cycle()
    files_after, objects_after = measure()

    report(f"10 restarts of a worker: {files_after - files} more open files, {objects_after - objects} more objects")
    assert files_after <= files
    # 400 more jobs are in the store by now, which on memory:// are objects.
    assert objects_after - objects < 300 + (0 if jobs.backend.capabilities.shared else 2 * 400)


def test_an_idle_worker_ends_within_moments(jobs, work_on):
    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    asked = time.monotonic()
    worker.stop()

    assert time.monotonic() - asked < 1
