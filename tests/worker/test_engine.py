"""The threads of a worker: none dies alone, none is stopped by a handler, a subscriber or a log."""

import asyncio
import logging
import threading
import time

import pytest

from onward import JobContext, NoDelay
from onward.errors import BackendUnavailable
from onward.telemetry import Event, JobCompleted, JobStarted


@pytest.fixture
def dying(jobs, caplog, eventually):
    """Check that a worker has died of something, and said so."""

    def dying(worker, message):
        assert worker.wait(20)
        assert not worker.running
        eventually(lambda: any(message in record.getMessage() for record in caplog.records))
        (line,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
        assert "the worker ends, one of its threads died" in line.getMessage()
        assert "Traceback" in line.exc_text

    return dying


class Bug(Exception):
    """What no store and no engine raises on purpose."""


class TestDying:
    def test_a_pump_that_dies(self, open_app_on, work_on, gate, dying):
        broken = threading.Event()

        class Broken:
            def turn(self, turn):
                if broken.is_set():
                    raise Bug("in a turn")
                return super().turn(turn)

        jobs = open_app_on(Broken)
        contexts = []

        @jobs.job
        def work(ctx: JobContext):
            contexts.append(ctx)
            gate.pass_through()

        work.enqueue()
        worker = jobs.worker().start()
        gate.wait_for()
        broken.set()
        worker._pump.wake()

        dying(worker, "in a turn")
        assert contexts[0].lost  # no thread will settle it
        gate.open()
        assert worker.stop() == [contexts[0].id]

    def test_a_renewal_thread_that_dies(self, open_app_on, work_on, dying):
        class Broken:
            def extend(self, owner, *, sample=None):
                raise Bug("in a renewal")

        jobs = open_app_on(Broken)
        dying(work_on(jobs, lease_for=0.3), "in a renewal")

    def test_a_wake_thread_that_dies(self, open_app_on, dying):
        class Broken:
            def wait(self, queues, timeout):
                raise Bug("in a wait")

        jobs = open_app_on(Broken)
        dying(jobs.worker().start(), "in a wait")

    def test_a_sweeping_thread_that_dies(self, jobs, work_on, dying, monkeypatch):
        def broken():
            raise Bug("in a sweep")

        monkeypatch.setattr(jobs._operators.inspector, "prune", broken)
        dying(work_on(jobs, lease_for=0.3), "in a sweep")

    def test_a_runner_that_dies(self, jobs, dying, monkeypatch):
        @jobs.job
        def work(): ...

        worker = jobs.worker()

        def broken(work):
            raise Bug("in a runner")

        monkeypatch.setattr(worker, "on_started", broken)
        work.enqueue()
        dying(worker.start(), "in a runner")

    def test_a_task_that_dies(self, jobs, dying, monkeypatch):
        @jobs.job
        async def work(): ...

        worker = jobs.worker()

        def broken(work):
            raise Bug("in a task")

        monkeypatch.setattr(worker, "on_started", broken)
        work.enqueue()
        dying(worker.start(), "in a task")

    def test_a_deadline_thread_that_dies(self, jobs, dying, monkeypatch, gate):
        @jobs.job(timeout=60)
        def work():
            gate.pass_through()

        worker = jobs.worker()

        def broken():
            raise Bug("at a deadline")

        monkeypatch.setattr(worker._deadlines, "_interrupt_what_is_due", broken)
        work.enqueue()
        dying(worker.start(), "at a deadline")

    def test_what_it_held_comes_back_when_its_session_expires(self, open_app_on, clock, dying, count_of):
        class Broken:
            broken = False

            def turn(self, turn):
                if Broken.broken and turn.settlements:
                    raise Bug("in a turn")
                return super().turn(turn)

        Broken.broken = True
        jobs = open_app_on(Broken)
        ran = []

        @jobs.job
        def work(n: int):
            ran.append(n)

        work.enqueue_many([(n,) for n in range(20)])
        dying(jobs.worker().start(), "in a turn")
        Broken.broken = False
        clock.advance(31)
        jobs.reap()
        jobs.drain()

        assert count_of(jobs) == {"completed": 20}
        assert set(ran) == set(range(20))


@pytest.mark.promise("F88")
class TestABlockedEventLoop:
    @pytest.mark.parametrize("store", ["sqlite"])
    def test_renewals_go_on(self, jobs, work_on, gate):
        @jobs.job
        async def rude():
            gate.pass_through()  # blocks the loop

        handle = rude.enqueue()
        worker = work_on(jobs, lease_for=0.3)
        gate.wait_for()
        renewed = worker.milestones.count("renewed")
        worker.milestones.wait_for("renewed", renewed + 4)  # more than a lease

        assert jobs.reap() == []
        assert handle.state() == "executing"
        gate.open()
        worker.milestones.wait_for("settled")
        assert handle.record().crashes == 0

    def test_sync_handlers_go_on(self, jobs, work_on, gate):
        @jobs.job
        async def rude():
            gate.pass_through()

        @jobs.job
        async def polite(): ...

        @jobs.job
        def call(n: int): ...

        rude.enqueue()
        worker = work_on(jobs, concurrency=3)
        gate.wait_for()
        polite.enqueue()
        call.enqueue_many([(n,) for n in range(100)])

        # The one that waits for the loop keeps the last slot, and no more.
        worker.milestones.wait_for("settled", 100)
        gate.open()
        worker.milestones.wait_for("settled", 102)

    @pytest.mark.parametrize("store", ["memory"])
    def test_what_waits_for_the_loop_is_given_back_and_the_blocker_is_named(
        self, jobs, work_on, gate, caplog, eventually
    ):
        @jobs.job
        async def rude():
            gate.pass_through()

        @jobs.job
        async def polite(): ...

        rude.enqueue()
        worker = work_on(jobs, concurrency=2)
        gate.wait_for()
        polite.enqueue()

        worker.milestones.wait_for("given back")
        worker.milestones.wait_for("settled")
        eventually(lambda: "job rude" in caplog.text)
        gate.open()


@pytest.mark.promise("F92")
class TestHooks:
    def test_subscribers_that_raise_hurt_nothing(self, jobs, work_on, count_of):
        def broken(event):
            raise SystemExit(f"at {event}")

        jobs.on(Event, broken)

        @jobs.job
        def work(n: int): ...

        work.enqueue_many([(n,) for n in range(500)])
        worker = work_on(jobs)
        worker.milestones.wait_for("settled", 500)

        assert count_of(jobs) == {"completed": 500}
        assert worker.running

    def test_a_subscriber_that_hangs_hurts_nothing(self, jobs, work_on, gate, count_of):
        jobs.on(JobStarted, lambda event: gate.pass_through())

        @jobs.job
        def work(n: int): ...

        began = time.monotonic()
        work.enqueue_many([(n,) for n in range(500)])
        worker = work_on(jobs)
        worker.milestones.wait_for("settled", 500)

        assert time.monotonic() - began < 10
        assert worker.stop() == []
        gate.open()

    def test_a_subscriber_may_stop_the_worker(self, jobs, work_on):
        jobs.on(JobCompleted, lambda event: worker.stop())

        @jobs.job
        def work(): ...

        worker = work_on(jobs)
        work.enqueue()

        assert worker.wait(20)

    def test_a_log_handler_that_raises_hurts_nothing(self, jobs, work_on, count_of, capsys):
        class Broken(logging.Handler):
            def emit(self, record):
                raise RuntimeError("the disk of the logs is full")

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(n: int):
            raise ValueError(n)

        handler = Broken()
        logging.getLogger("onward").addHandler(handler)
        try:
            work.enqueue_many([(n,) for n in range(50)])
            worker = work_on(jobs)
            worker.milestones.wait_for("settled", 100)
            worker._session.declare_dead()  # which is logged, too
            worker.milestones.wait_for("reopened")
            work.enqueue(1)
            worker.milestones.wait_for("settled", 102)
        finally:
            logging.getLogger("onward").removeHandler(handler)

        assert count_of(jobs) == {"discarded": 51}
        assert jobs.metrics.count("jobs_failed") == 102

    def test_a_log_filter_that_raises_hurts_nothing(self, jobs, work_on, count_of):
        def broken(record):
            raise RuntimeError("a filter's bug")

        @jobs.job
        def work(n: int):
            raise ValueError(n)

        logging.getLogger("onward.job").addFilter(broken)
        try:
            work.enqueue_many([(n,) for n in range(50)])
            worker = work_on(jobs)
            worker.milestones.wait_for("settled", 50)
        finally:
            logging.getLogger("onward.job").removeFilter(broken)

        assert count_of(jobs) == {"discarded": 50}
        assert worker.running


class TestSweeping:
    @pytest.mark.parametrize("store", ["memory"])
    def test_a_long_sweep_delays_no_renewal(self, jobs, work_on, gate, monkeypatch):
        monkeypatch.setattr(jobs._operators.inspector, "prune", gate.pass_through)
        worker = work_on(jobs, lease_for=0.3)
        gate.wait_for()
        renewed = worker.milestones.count("renewed")

        worker.milestones.wait_for("renewed", renewed + 4)  # more than a lease
        gate.open()

    @pytest.mark.parametrize("store", ["memory"])
    def test_a_sweep_that_fails_is_tried_again(self, open_app_on, work_on, weather_of, caplog):
        weather = weather_of("reap")
        jobs = open_app_on(weather.mixin)
        worker = work_on(jobs, lease_for=0.3)
        weather.error = BackendUnavailable("away")
        while weather.failed < 2:
            worker.milestones.wait_for("renewed", worker.milestones.count("renewed") + 1)
        weather.error = None

        worker.milestones.wait_for("swept")
        assert "the sweep failed and will be tried again" in caplog.text

    def test_finished_jobs_past_their_retention_are_forgotten(self, open_app, work_on, clock, count_of, eventually):
        jobs = open_app(retention={"completed": "1h"})

        @jobs.job
        def work(): ...

        work.enqueue()
        jobs.drain()
        clock.advance(3601)
        work_on(jobs, lease_for=0.3)

        eventually(lambda: count_of(jobs) == {})


def test_many_workers_share_a_store(jobs, work_on, count_of):
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)

    @jobs.job
    async def awork(n: int):
        await asyncio.sleep(0)
        ran.append(n)

    for job in (work, awork):
        job.enqueue_many([(n,) for n in range(500)])
    workers = [work_on(jobs, concurrency=2) for _ in range(5)]
    while sum(worker.milestones.count("settled") for worker in workers) < 1_000:
        workers[0].wait(0.01)

    assert sorted(ran) == sorted([*range(500), *range(500)])
    assert count_of(jobs) == {"completed": 1_000}
