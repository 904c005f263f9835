"""Which jobs a worker takes: order and weights of queues, limits, pauses, and never more at once than it may."""

import asyncio
import threading
import time
from collections import Counter

import pytest

from onward.errors import InvalidName, OptionError
from onward.worker.options import QueuePlan
from tests.worker.stores import counting


class Crowd:
    """How many are inside at once, and how many have been."""

    def __init__(self):
        self._lock = threading.Lock()
        self.inside = Counter()
        self.most = Counter()

    def enter(self, *names):
        with self._lock:
            for name in names:
                self.inside[name] += 1
                self.most[name] = max(self.most[name], self.inside[name])

    def leave(self, *names):
        with self._lock:
            self.inside.subtract(names)


@pytest.fixture
def crowd():
    return Crowd()


class TestConcurrency:
    def test_it_is_never_exceeded_by_calls_and_coroutines_together(self, jobs, work_on, crowd, count_of):
        @jobs.job
        def call(n: int):
            crowd.enter("all", "calls")
            time.sleep(0.002)
            crowd.leave("all", "calls")

        @jobs.job
        async def coroutine(n: int):
            crowd.enter("all", "coroutines")
            await asyncio.sleep(0.002)
            crowd.leave("all", "coroutines")

        for n in range(150):
            (call if n % 3 else coroutine).enqueue(n)
        call.enqueue_many([(n,) for n in range(150)])
        coroutine.enqueue_many([(n,) for n in range(150)])
        worker = work_on(jobs, concurrency=5)
        worker.milestones.wait_for("settled", 450)

        assert crowd.most["all"] == 5
        assert crowd.most["calls"] > 1
        assert crowd.most["coroutines"] > 1
        assert worker.milestones.count("given back") == 0

    def test_calls_and_coroutines_run_in_the_order_of_their_claim(self, jobs, work_on):
        began = []

        @jobs.job
        def call(n: int):
            began.append(n)

        @jobs.job
        async def coroutine(n: int):
            began.append(n)

        for n in range(200):
            (call if n // 3 % 2 else coroutine).enqueue(n)
        worker = work_on(jobs, concurrency=1)
        worker.milestones.wait_for("settled", 200)

        assert began == list(range(200))

    def test_a_flood_of_one_kind_does_not_starve_the_other(self, jobs, work_on):
        """A steady stream of calls, and now and then a coroutine."""
        seen = []

        @jobs.job
        def call(n: int):
            seen.append(n)

        @jobs.job
        async def coroutine(n: int):
            seen.append(n)

        for start in range(0, 5_000, 500):
            coroutine.enqueue(start)
            call.enqueue_many([(n,) for n in range(start + 1, start + 500)])
        worker = work_on(jobs, concurrency=2)
        worker.milestones.wait_for("settled", 5_000)

        assert seen.index(0) < seen.index(4_999)
        assert worker.milestones.count("given back") == 0  # nothing had to wait for a second

    def test_as_many_threads_as_are_needed(self, jobs, work_on, gate):
        @jobs.job
        def work():
            gate.pass_through()

        work.enqueue_many([()] * 12)
        work_on(jobs, concurrency=12)

        gate.wait_for(12)
        gate.open()


class TestLimits:
    def test_a_queue_has_at_most_so_many_running(self, jobs, work_on, crowd):
        @jobs.job
        def work(queue: str):
            crowd.enter(queue)
            time.sleep(0.004)
            crowd.leave(queue)

        for _ in range(60):
            work.using(queue="tight").enqueue("tight")
            work.using(queue="free").enqueue("free")
        worker = work_on(jobs, queues=["tight", "free"], concurrency=6, per_process={"tight": 2})
        worker.milestones.wait_for("settled", 120)

        assert crowd.most["tight"] == 2
        assert crowd.most["free"] > 2

    def test_the_turn_that_settles_the_last_of_a_queue_claims_the_next(self, open_app_on, work_on):
        turns = []
        jobs = open_app_on(counting(turns))

        @jobs.job
        def work(): ...

        work.enqueue_many([()] * 50)
        worker = work_on(jobs, per_process={"default": 1})
        worker.milestones.wait_for("settled", 50)

        assert len([turn for turn in turns if turn.settlements]) == 50
        assert all(turn.claim is not None for turn in turns if turn.settlements)

    def test_a_queue_at_its_limit_costs_nothing_while_it_waits(self, open_app_on, work_on, gate):
        turns = []
        jobs = open_app_on(counting(turns))

        @jobs.job
        def slow():
            gate.pass_through()

        slow.using(queue="tight").enqueue()
        slow.using(queue="tight").enqueue()
        worker = work_on(jobs, queues=["tight", "free"], per_process={"tight": 1})
        gate.wait_for()
        asked, used, began = len(turns), time.process_time(), time.monotonic()
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 3)

        span = time.monotonic() - began
        assert len(turns) - asked <= 3 + span * 12  # ten looks a second at most
        assert time.process_time() - used < 0.1 * span + 0.02
        gate.open()
        worker.milestones.wait_for("settled", 2)

    def test_a_queue_that_has_room_again_is_heard(self, jobs, work_on, gate):
        @jobs.job
        def slow():
            gate.pass_through()

        @jobs.job
        def work(): ...

        slow.using(queue="tight").enqueue()
        worker = work_on(jobs, queues=["tight", "free"], per_process={"tight": 1})
        gate.wait_for()
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 1)
        gate.open()
        worker.milestones.wait_for("settled")
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 1)

        enqueued = time.monotonic()
        work.using(queue="tight").enqueue()
        worker.milestones.wait_for("settled", 2)
        assert time.monotonic() - enqueued < 0.9  # not only with the look of every second

    def test_all_queues_at_their_limit_is_no_reason_to_spin(self, jobs, work_on, gate):
        @jobs.job
        def slow():
            gate.pass_through()

        slow.enqueue_many([()] * 3)
        worker = work_on(jobs, per_process={"default": 1})
        gate.wait_for()
        used, turns, began = time.process_time(), worker.milestones.count("turn"), time.monotonic()
        worker.milestones.wait_for("claimed")
        while time.monotonic() < began + 0.3:
            worker.wait(0.3)

        assert worker.milestones.count("turn") - turns <= 2
        assert time.process_time() - used < 0.1
        gate.open()
        worker.milestones.wait_for("settled", 3)


class TestOrder:
    def test_queues_are_served_strictly_in_order(self, jobs, work_on):
        ran = []

        @jobs.job
        def work(queue: str):
            ran.append(queue)

        for queue in ("last", "first", "second"):
            work.using(queue=queue).enqueue_many([(queue,)] * 30)
        worker = work_on(jobs, queues=["first", "second", "last"], concurrency=1)
        worker.milestones.wait_for("settled", 90)

        assert ran == ["first"] * 30 + ["second"] * 30 + ["last"] * 30

    def test_weights_give_each_queue_its_share(self, jobs, work_on, monkeypatch):
        monkeypatch.setattr(jobs.parts().backend, "claims_at_once", 1)
        ran = []

        @jobs.job
        def work(queue: str):
            ran.append(queue)

        for queue in ("heavy", "light"):
            work.using(queue=queue).enqueue_many([(queue,)] * 400)
        worker = work_on(jobs, queues={"heavy": 4, "light": 1}, concurrency=1)
        worker.milestones.wait_for("settled", 400, timeout=20)

        share = Counter(ran[:400])["heavy"] / 400
        assert 0.7 < share < 0.9

    def test_a_queue_that_is_not_served_is_left_alone(self, jobs, work_on, count_of):
        @jobs.job
        def work(): ...

        work.using(queue="other").enqueue()
        work.enqueue()
        worker = work_on(jobs, queues=["default"])
        worker.milestones.wait_for("settled")

        assert count_of(jobs, "other") == {"available": 1}

    def test_a_plan_without_weights_never_changes(self):
        plan = QueuePlan(["b", "a"], {}, {})

        assert {plan.order() for _ in range(50)} == {("b", "a")}

    def test_a_plan_with_weights_draws_by_them(self):
        plan = QueuePlan(["a", "b", "c"], {"a": 6, "b": 3, "c": 1}, {})

        first = Counter(plan.order()[0] for _ in range(10_000))
        assert 0.56 < first["a"] / 10_000 < 0.64
        assert 0.26 < first["b"] / 10_000 < 0.34
        assert all(sorted(plan.order()) == ["a", "b", "c"] for _ in range(10))


class TestPausing:
    @pytest.mark.promise("S40")
    def test_a_paused_queue_gives_nothing_and_loses_nothing(self, jobs, open_app, work_on, gate, count_of):
        @jobs.job
        def slow():
            gate.pass_through()

        @jobs.job
        def work(n: int): ...

        running = slow.enqueue()
        worker = work_on(jobs)
        gate.wait_for()
        elsewhere = open_app() if jobs.backend.capabilities.shared else jobs
        elsewhere.pause("default")
        work.enqueue_many([(n,) for n in range(10)])
        work.using(queue="other").enqueue(1)
        gate.open()
        worker.milestones.wait_for("settled")
        for _ in range(3):
            idle = worker.milestones.count("idle")
            worker._pump.wake()
            worker.milestones.wait_for("idle", idle + 1)

        assert running.state() == "completed"  # what ran goes on
        assert count_of(jobs, "default") == {"completed": 1, "available": 10}
        elsewhere.resume("default")
        worker.milestones.wait_for("settled", 11)

    @pytest.mark.promise("S40")
    @pytest.mark.parametrize("store", ["sqlite"])
    def test_a_pause_outlives_the_worker(self, open_app, work_on, count_of):
        jobs = open_app()

        @jobs.job
        def work(): ...

        jobs.pause("default")
        work.enqueue()
        first = work_on(jobs)
        first.milestones.wait_for("idle")
        assert first.stop() == []

        second = work_on(jobs)
        second.milestones.wait_for("idle")
        assert count_of(jobs) == {"available": 1}
        jobs.resume("default")
        second.milestones.wait_for("settled")


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"queues": "mail"}, OptionError),
            ({"queues": ["no spaces"]}, InvalidName),
            ({"queues": {"mail": 0}}, OptionError),
            ({"queues": {"mail": True}}, OptionError),
            ({"queues": ["mail"], "per_process": {"other": 1}}, OptionError),
            ({"queues": ["mail"], "per_process": {"mail": 0}}, OptionError),
            ({"concurrency": 0}, OptionError),
            ({"concurrency": True}, OptionError),
            ({"concurrency": 10_001}, OptionError),
            ({"queues": []}, OptionError),
        ],
    )
    @pytest.mark.parametrize("store", ["memory"])
    def test_what_makes_no_sense_is_refused(self, jobs, options, error):
        with pytest.raises(error):
            jobs.worker(**options)

    @pytest.mark.parametrize("store", ["memory"])
    def test_a_queue_named_twice_is_one(self, jobs):
        assert jobs.worker(queues=["mail", "default", "mail"]).options.queues == ["mail", "default"]

    @pytest.mark.parametrize("store", ["memory"])
    def test_without_queues_it_serves_those_of_the_jobs(self, jobs):
        @jobs.job(queue="mail")
        def work(): ...

        assert sorted(jobs.worker().options.queues) == ["default", "mail"]
