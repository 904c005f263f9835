"""The canary: one dead job, ten, the rest; it goes no further than the first that fails again."""

import threading
import time

import pytest

from onward import Fixed, JobContext, OptionError, State
from onward.errors import InvalidLimit
from onward.operate import canary as module
from tests.application.every_store import redis_server, store, url  # noqa: F401
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    """What holds a job is said at once, not after seconds."""
    monkeypatch.setattr(module, "_TOLD", 0.0)
    monkeypatch.setattr(module, "_LATEST", 0.1)


class Shop:
    """Jobs that fail until what they need is there."""

    def __init__(self, jobs, **options):
        self.jobs = jobs
        self.broken = True
        self.fails = ()  # numbers that fail though it is not broken
        self.ran = []
        self.lock = threading.Lock()

        @jobs.job(name="ship", queue="shop", **options)
        def ship(ctx: JobContext, number: int) -> None:
            with self.lock:
                self.ran.append(number)
            if self.broken or number in self.fails:
                raise KeyError(f"no parcel {number}")

        self.ship = ship

    def kill(self, count):
        """Let so many die, and mend what they failed on."""
        ids = [handle.id for handle in self.ship.enqueue_many([(number,) for number in range(count)])]
        self.jobs.drain("shop")
        eventually(lambda: set(self.states(ids)) == {State.DISCARDED})  # a worker may have taken some
        self.broken, self.ran = False, []
        return ids

    def states(self, ids):
        found = {stored.id: stored.state for stored in self.jobs.backend.get_many(ids)}
        return [found[each] for each in ids]


@pytest.fixture
def jobs(open_app):
    return open_app(clock=None)


@pytest.fixture
def shop(jobs):
    return Shop(jobs)


@pytest.fixture
def working(jobs):
    with jobs.worker(queues=["shop"], concurrency=4):
        yield


def told(steps):
    return [step for step in steps if step.happened != "waiting"]


@pytest.mark.promise("S133")
@pytest.mark.usefixtures("working")
class TestSteps:
    def test_all_are_replayed_if_none_fails_again(self, jobs, shop):
        ids = shop.kill(15)

        steps = told(jobs.dead_letters.canary("queue:shop"))

        assert [(step.happened, step.replayed, step.ended) for step in steps] == [
            ("replayed", 1, 0),
            ("passed", 1, 1),
            ("replayed", 11, 1),
            ("passed", 11, 11),
            ("replayed", 15, 11),
            ("passed", 15, 15),
            ("finished", 15, 15),
        ]
        assert set(shop.states(ids)) == {State.COMPLETED}
        assert sorted(shop.ran) == list(range(15))

    def test_the_first_that_fails_again_stops_it_and_the_others_stay_dead(self, jobs, shop):
        ids = shop.kill(15)
        shop.broken = True
        before = jobs.backend.get_many(ids[1:])

        steps = told(jobs.dead_letters.canary("queue:shop"))

        assert [step.happened for step in steps] == ["replayed", "failed"]
        assert steps[-1].stopped
        assert steps[-1].job_id == ids[0]
        assert steps[-1].text == f"{ids[0]} failed again: KeyError: 'no parcel 0'"
        assert shop.ran == [0]
        assert sorted(jobs.backend.get_many(ids[1:]), key=lambda job: job.id) == sorted(before, key=lambda job: job.id)

    def test_a_failure_in_a_later_step_stops_it_there(self, jobs, shop):
        ids = shop.kill(30)
        shop.fails = (7,)

        steps = told(jobs.dead_letters.canary("queue:shop", steps=(1, 9, "all")))

        assert [step.happened for step in steps] == ["replayed", "passed", "replayed", "failed"]
        assert steps[-1].job_id == ids[7]
        assert set(shop.states(ids[10:])) == {State.DISCARDED}
        assert set(shop.ran) <= set(range(10))

    def test_a_failure_while_the_rest_goes_stops_it(self, jobs, shop, monkeypatch):
        monkeypatch.setattr(module, "_LARGEST", 3)
        ids = shop.kill(12)
        shop.fails = (4,)

        steps = told(jobs.dead_letters.canary("queue:shop", steps=(1, "all"), rate="3/s"))

        assert steps[-1].happened == "failed"
        assert set(shop.states(ids[10:])) == {State.DISCARDED}

    def test_the_rate_holds_nothing_back_once_the_last_is_replayed(self, jobs, shop):
        shop.kill(1)

        steps = told(jobs.dead_letters.canary("queue:shop", steps=("all",), rate="1/h"))

        assert [step.happened for step in steps] == ["replayed", "passed", "finished"]

    def test_steps_without_all_leave_the_rest(self, jobs, shop):
        ids = shop.kill(5)

        steps = told(jobs.dead_letters.canary("queue:shop", steps=(1, 2)))

        assert steps[-1].happened == "finished"
        assert shop.states(ids) == [State.COMPLETED] * 3 + [State.DISCARDED] * 2

    def test_to_stop_the_iterator_stops_it(self, jobs, shop):
        ids = shop.kill(5)

        going = jobs.dead_letters.canary("queue:shop")
        assert next(going).happened == "replayed"
        going.close()

        assert set(shop.states(ids[1:])) == {State.DISCARDED}


@pytest.mark.promise("S133")
class TestJudging:
    def test_a_failed_run_counts_though_the_job_is_tried_again(self, jobs):
        shop = Shop(jobs, max_retries=1, retry=Fixed(0))
        ids = shop.kill(3)
        shop.broken = True

        going = jobs.dead_letters.canary("queue:shop", patience=20)
        assert next(going).happened == "replayed"
        assert jobs.process_once("shop").status == "requeued"  # it waits for its second try

        assert told(going)[-1].happened == "failed"
        assert jobs.get(ids[0]).state is not State.DISCARDED
        assert set(shop.states(ids[1:])) == {State.DISCARDED}

    def test_the_runs_of_its_first_life_do_not_count(self, jobs):
        shop = Shop(jobs, max_retries=2, retry=Fixed(0))
        ids = shop.kill(1)
        assert len(jobs.get(ids[0]).errors) == 3

        going = jobs.dead_letters.canary("queue:shop", patience=20)
        next(going)
        jobs.drain("shop")

        assert told(going)[-1].happened == "finished"

    def test_a_crash_counts(self, jobs, shop, claim_elsewhere):
        ids = shop.kill(3)

        going = jobs.dead_letters.canary("queue:shop", patience=20)
        next(going)
        claim_elsewhere(jobs, owner="doomed", queue="shop")
        jobs.backend.reap(owner="doomed")

        assert told(going)[-1].happened == "failed"
        assert set(shop.states(ids[1:])) == {State.DISCARDED}

    def test_a_release_does_not(self, jobs, shop, claim_elsewhere):
        shop.kill(1)

        going = jobs.dead_letters.canary("queue:shop", patience=20)
        next(going)
        (lease,) = claim_elsewhere(jobs, queue="shop")
        jobs.backend.release(lease)
        assert next(going).happened == "waiting"
        jobs.drain("shop")

        assert told(going)[-1].happened == "finished"

    def test_a_job_that_is_removed_when_it_ends_has_ended(self, open_app):
        jobs = open_app(clock=None, retention={"completed": 0})
        shop = Shop(jobs)
        shop.kill(1)

        going = jobs.dead_letters.canary("queue:shop", patience=20)
        next(going)
        jobs.drain("shop")

        assert told(going)[-1].happened == "finished"


class TestWaiting:
    def test_a_paused_queue_is_no_failure(self, jobs, shop):
        shop.kill(2)
        jobs.pause("shop")

        going = jobs.dead_letters.canary("queue:shop")
        assert next(going).happened == "replayed"
        waiting = next(going)
        assert (waiting.happened, waiting.why.code) == ("waiting", "paused")
        assert "onward queue resume shop" in waiting.why.fix
        jobs.resume("shop")
        with jobs.worker(queues=["shop"]):
            assert told(going)[-1].happened == "finished"

    def test_a_hold_is_no_failure(self, jobs, claim_elsewhere):
        shop = Shop(jobs, single_instance=True)
        ids = shop.kill(1)
        shop.ship.using(priority=9).enqueue(77)
        (holder,) = claim_elsewhere(jobs, queue="shop")

        going = jobs.dead_letters.canary("queue:shop")
        assert next(going).happened == "replayed"
        jobs.drain("shop")  # it is put back: another one runs
        waiting = next(going)
        assert (waiting.happened, waiting.why.code, waiting.job_id) == ("waiting", "held", ids[0])
        jobs.backend.ack(holder)
        with jobs.worker(queues=["shop"]):
            assert told(going)[-1].happened == "finished"

    def test_patience_ends(self, jobs, shop):
        ids = shop.kill(3)

        begun = time.monotonic()
        steps = list(jobs.dead_letters.canary("queue:shop", patience=0.3))

        assert time.monotonic() - begun >= 0.3
        assert (steps[-1].happened, steps[-1].stopped, steps[-1].job_id) == ("impatient", True, ids[0])
        assert steps[-1].why.code == "unserved"
        assert set(shop.states(ids[1:])) == {State.DISCARDED}


def test_the_audit_trail_tells_of_it_and_of_each_job(jobs, shop):
    ids = shop.kill(3)

    going = jobs.dead_letters.canary("queue:shop", steps=(1, 1), by="ann", reason="fixed")
    next(going)
    jobs.drain("shop")
    assert [next(going).happened, next(going).happened] == ["passed", "replayed"]
    going.close()

    (act,) = jobs.audit(act="canary")
    assert (act.who, act.detail) == ("ann", "queue:shop; fixed")
    assert sorted(entry.job_id for entry in jobs.audit(ref=act.ref)) == ["", *ids[:2]]


class TestWhichJobs:
    def test_none_is_none(self, jobs):
        (only,) = jobs.dead_letters.canary("queue:shop")

        assert (only.happened, only.replayed, only.stopped) == ("finished", 0, False)

    @pytest.mark.usefixtures("working")
    def test_what_cannot_be_replayed_is_passed_over(self, jobs, shop):
        shop.broken = True
        dead = shop.ship.using(unique_key="one").enqueue(0)
        eventually(lambda: jobs.get(dead.id).state is State.DISCARDED)
        others = shop.kill(2)
        jobs.pause("other")
        holder = shop.ship.using(unique_key="one", queue="other").enqueue(9)

        steps = told(jobs.dead_letters.canary("queue:shop"))

        assert steps[0].skipped == {dead.id: f"key held by {holder.id}"}
        assert steps[-1].happened == "finished"
        assert set(shop.states(others)) == {State.COMPLETED}

    def test_what_dies_meanwhile_is_left_alone(self, jobs, shop):
        shop.kill(1)
        going = jobs.dead_letters.canary("queue:shop", steps=("all",))
        next(going)
        jobs.drain("shop")
        shop.broken = True
        later = shop.ship.enqueue(5).id
        jobs.drain("shop")

        assert told(going)[-1].happened == "finished"
        assert jobs.get(later).state is State.DISCARDED

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"steps": ()}, "a canary needs a step"),
            ({"steps": (0,)}, "steps are whole numbers"),
            ({"steps": ("all", 1)}, "steps are whole numbers"),
            ({"steps": (True,)}, "steps are whole numbers"),
        ],
    )
    def test_steps_that_make_no_sense_are_refused(self, jobs, options, told):
        with pytest.raises(OptionError, match=told):
            jobs.dead_letters.canary("queue:shop", **options)

    def test_a_rate_that_cannot_be_read_and_other_states_are_refused(self, jobs):
        with pytest.raises(InvalidLimit, match="cannot be read"):
            jobs.dead_letters.canary("queue:shop", rate="fast")
        with pytest.raises(OptionError, match="a canary replays dead jobs"):
            jobs.dead_letters.canary("state:cancelled")
        with pytest.raises(OptionError, match="an empty filter means every job"):
            jobs.dead_letters.canary("")
