"""Queues by pattern: which are served, in which order, how soon a new one is noticed, and what it costs."""

import time
from collections import Counter

import msgspec
import pytest

from onward.backend import Capabilities
from onward.backends.memory import MemoryBackend
from onward.errors import BackendUnavailable, InvalidName, OptionError, Unsupported
from onward.testing.contract.builders import an_envelope
from onward.worker import patterns
from onward.worker.options import WorkerOptions
from onward.worker.patterns import PatternPlan
from onward.worker.worker import Worker


@pytest.fixture
def ran(jobs):
    """The queues of the jobs that have run, in that order; ``ran.job`` is what to enqueue."""

    class Ran(list):
        pass

    ran = Ran()

    @jobs.job
    def work(queue: str):
        ran.append(queue)

    ran.job = work
    ran.enqueue = lambda queue, count=1: work.using(queue=queue).enqueue_many([(queue,)] * count)
    return ran


@pytest.fixture
def looks(jobs, monkeypatch):
    """How often the store was asked for the queues that have work."""
    asked, ask = [], jobs.backend.queues_with_work
    monkeypatch.setattr(
        jobs.backend, "queues_with_work", lambda *args, **words: asked.append(args) or ask(*args, **words)
    )
    return asked


class TestServing:
    def test_every_queue_that_fits_is_served_and_no_other(self, jobs, work_on, ran, count_of):
        for queue in ("tenant.a", "tenant.b.mail", "tenant.", "tenants", "other"):
            ran.enqueue(queue)
        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("settled", 3)
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 1)

        assert sorted(ran) == ["tenant.", "tenant.a", "tenant.b.mail"]
        assert count_of(jobs) == {"completed": 3, "available": 2}

    def test_a_star_can_stand_anywhere(self, jobs, work_on, ran):
        for queue in ("a.mail", "b.mail", "a.news", "mail"):
            ran.enqueue(queue)
        worker = work_on(jobs, queues=["*.mail"])
        worker.milestones.wait_for("settled", 2)

        assert sorted(ran) == ["a.mail", "b.mail"]

    def test_a_new_queue_is_noticed_within_about_a_second(self, jobs, work_on, ran):
        worker = work_on(jobs, queues=["mail", "tenant.*"])
        for number in range(3):
            worker.milestones.wait_for("idle", worker.milestones.count("idle") + 1)
            ran.enqueue(f"tenant.{number}")
            enqueued = time.monotonic()
            worker.milestones.wait_for("settled", number + 1)
            assert time.monotonic() - enqueued < 2

        assert ran == ["tenant.0", "tenant.1", "tenant.2"]

    def test_a_worker_of_nothing_but_patterns_sleeps_while_there_is_no_queue(self, jobs, work_on, ran, looks):
        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("idle", 3)
        before, began = len(looks), time.monotonic()
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 3)

        assert len(looks) - before <= 2 + 3 * (time.monotonic() - began)
        ran.enqueue("tenant.new")
        worker.milestones.wait_for("settled")

    def test_a_delayed_job_of_a_queue_by_pattern_is_run_when_it_is_due(self, jobs, work_on, ran, clock):
        ran.job.using(queue="tenant.a", delay=60).enqueue("tenant.a")
        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("idle", 2)
        assert ran == []

        clock.advance(60)
        worker.milestones.wait_for("settled")

    def test_a_paused_queue_is_left_alone_and_served_when_it_is_resumed(self, jobs, work_on, ran):
        jobs.pause("tenant.a")
        ran.enqueue("tenant.a")
        ran.enqueue("tenant.b")
        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("settled")
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 2)
        assert ran == ["tenant.b"]

        jobs.resume("tenant.a")
        worker.milestones.wait_for("settled", 2)

    def test_more_queues_than_one_look_or_one_claim_names_are_all_served(self, jobs, work_on, ran, monkeypatch):
        monkeypatch.setattr(patterns, "_WALK", 7)
        monkeypatch.setattr(patterns, "_WINDOW", 3)
        for number in range(40):
            ran.enqueue(f"tenant.{number:02}", 2)
        worker = work_on(jobs, queues=["tenant.*"], concurrency=2)
        worker.milestones.wait_for("settled", 80)

        assert Counter(ran) == {f"tenant.{number:02}": 2 for number in range(40)}

    def test_many_queues_without_work_do_not_keep_it_looking(self, jobs, work_on, ran, looks, monkeypatch):
        monkeypatch.setattr(patterns, "_WALK", 5)
        for number in range(12):
            ran.job.using(queue=f"tenant.{number:02}", delay=3600).enqueue("")
        worker = work_on(jobs, queues=["mail", "tenant.*"])
        worker.milestones.wait_for("idle", 3)
        before, began = len(looks), time.monotonic()
        worker.milestones.wait_for("idle", worker.milestones.count("idle") + 3)

        assert len(looks) - before <= 12 + 12 * (time.monotonic() - began)

    def test_an_outage_while_it_looks_is_waited_out(self, jobs, work_on, ran, monkeypatch):
        def away(*args, **words):
            raise BackendUnavailable("away")

        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("idle")
        with monkeypatch.context() as outage:
            outage.setattr(jobs.backend, "queues_with_work", away)
            ran.enqueue("tenant.a")
            worker.milestones.wait_for("unanswered", 2)
        worker.milestones.wait_for("settled")


class TestCost:
    def test_a_worker_without_patterns_asks_for_no_queues(self, jobs, work_on, ran, looks):
        ran.enqueue("mail", 50)
        worker = work_on(jobs, queues=["mail"])
        worker.milestones.wait_for("settled", 50)
        worker.milestones.wait_for("idle", 2)

        assert looks == []

    def test_looks_do_not_grow_with_the_jobs(self, jobs, work_on, ran, looks):
        for queue in ("tenant.a", "tenant.b"):
            ran.enqueue(queue, 500)
        began = time.monotonic()
        worker = work_on(jobs, queues=["tenant.*"])
        worker.milestones.wait_for("settled", 1000)

        assert len(looks) <= 6 + 4 * (time.monotonic() - began)


class TestOrder:
    def test_a_pattern_has_its_place_in_the_order(self, jobs, work_on, ran):
        for queue in ("last", "tenant.a", "first", "tenant.b"):
            ran.enqueue(queue, 5)
        worker = work_on(jobs, queues=["first", "tenant.*", "last"], concurrency=1)
        worker.milestones.wait_for("settled", 20)

        assert ran[:5] == ["first"] * 5
        assert {*ran[5:15]} == {"tenant.a", "tenant.b"}
        assert ran[15:] == ["last"] * 5

    def test_a_queue_that_is_named_as_well_stands_where_it_comes_first(self):
        plan = plan_for(["tenant.vip", "tenant.*"], "tenant.a", "tenant.vip")

        assert {plan.order() for _ in range(4)} == {("tenant.vip", "tenant.a")}

    def test_its_queues_take_turns(self):
        plan = plan_for(["tenant.*"], "tenant.a", "tenant.b", "tenant.c")

        firsts = Counter(plan.order()[0] for _ in range(30))

        assert firsts == {"tenant.a": 10, "tenant.b": 10, "tenant.c": 10}

    def test_a_long_queue_does_not_keep_another_waiting(self, jobs, work_on, ran):
        ran.enqueue("tenant.a", 300)
        ran.enqueue("tenant.b", 1)
        worker = work_on(jobs, queues=["tenant.*"], concurrency=1)
        worker.milestones.wait_for("settled", 301)

        assert ran.index("tenant.b") < 290

    def test_a_pattern_has_one_weight_however_many_queues_fit(self):
        plan = plan_for({"mail": 3, "tenant.*": 1}, *(f"tenant.{number}" for number in range(20)))

        first = Counter(plan.order()[0] == "mail" for _ in range(2000))

        assert 0.68 < first[True] / 2000 < 0.82


class TestLimits:
    def test_a_limit_of_a_pattern_holds_for_each_of_its_queues(self):
        plan = plan_for(["tenant.*"], "tenant.a", "tenant.b", limits={"tenant.*": 2})

        assert plan.room({"tenant.a": 2}) == {"tenant.a": 0, "tenant.b": 2}

    def test_a_limit_by_name_beats_that_of_the_pattern(self):
        plan = plan_for(["tenant.*"], "tenant.a", "tenant.big", limits={"tenant.*": 1, "tenant.big": 5})

        assert plan.room({}) == {"tenant.a": 1, "tenant.big": 5}

    def test_it_is_never_exceeded_and_work_goes_on(self, jobs, work_on):
        inside, most = Counter(), Counter()

        @jobs.job
        def work(queue: str):
            inside[queue] += 1
            most[queue] = max(most[queue], inside[queue])
            time.sleep(0.002)
            inside[queue] -= 1

        for queue in ("tenant.a", "tenant.b", "mail"):
            work.using(queue=queue).enqueue_many([(queue,)] * 40)
        began = time.monotonic()
        worker = work_on(jobs, queues=["mail", "tenant.*"], per_process={"tenant.*": 1}, concurrency=8)
        worker.milestones.wait_for("settled", 120)

        assert (most["tenant.a"], most["tenant.b"]) == (1, 1)
        assert time.monotonic() - began < 20  # a queue that was at its limit does not wait for the next look

    def test_a_limit_must_be_of_something_that_is_served(self, jobs):
        jobs.worker(queues=["tenant.*"], per_process={"tenant.a": 1})
        jobs.worker(queues=["tenant.*"], per_process={"tenant.*": 1})
        with pytest.raises(OptionError, match="does not serve"):
            jobs.worker(queues=["tenant.*"], per_process={"mail": 1})


class TestRefusals:
    @pytest.mark.parametrize("pattern", ["tenant.?", "[a]*", "ten ant.*", ".*", "a/*", "*" * 101])
    def test_a_pattern_that_no_name_could_fit_is_refused(self, jobs, pattern):
        with pytest.raises(InvalidName, match="queue"):
            jobs.worker(queues=[pattern])

    def test_a_store_that_cannot_name_its_queues_says_so_at_the_start(self, jobs):
        class Broker(MemoryBackend):
            capabilities = Capabilities(lists_queues=False)

        parts = msgspec.structs.replace(jobs.parts(), backend=Broker())
        with pytest.raises(Unsupported, match=r"no worker can serve 'tenant\.\*': name the queues, or use a database"):
            Worker(parts, WorkerOptions.check(["mail", "tenant.*"], 1, {}, 1))

    def test_only_workers_take_patterns(self, jobs, ran):
        with pytest.raises(InvalidName):
            ran.job.using(queue="tenant.*")
        with pytest.raises(InvalidName):
            jobs.pause("tenant.*")


def plan_for(queues, *names, limits=None):
    """A plan for these queues that has seen work in those."""
    backend = MemoryBackend()
    backend.enqueue([an_envelope(queue=name) for name in names])
    plan = PatternPlan(list(queues), queues if isinstance(queues, dict) else {}, limits or {})
    plan.look(backend)
    return plan
