"""Calls and answers that are lost on the way: nothing is lost with them, nothing runs or counts twice."""

import threading
from collections import Counter

import pytest

from onward import JobContext, NoDelay, Snooze
from onward.errors import BackendUnavailable
from onward.telemetry import JobCompleted, JobLeaseLost
from onward.worker import breaker
from tests.worker.stores import Dice, Weather, weathered

LOST = BackendUnavailable("the answer was lost")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """The next try comes at once, so that there can be thousands."""
    monkeypatch.setattr(breaker, "_FIRST_PAUSE", 0.0005)
    monkeypatch.setattr(breaker, "_LONGEST_PAUSE", 0.004)


@pytest.fixture
def weather():
    return Weather(("turn",))


@pytest.fixture
def jobs(open_app_on, weather):
    return open_app_on(weathered(weather))


@pytest.mark.promise("F26", "F27")
@pytest.mark.parametrize("seed", [1, 2])
def test_thousands_of_jobs_through_a_store_that_loses_calls_and_answers(
    open_app_on, work_on, patient, monkeypatch, store, seed, counters, count_of, report
):
    dice = Dice(0.2, seed)
    jobs = open_app_on(weathered(dice))
    monkeypatch.setattr(jobs.parts().backend, "claims_at_once", 4)  # many turns, many chances
    runs, lock = Counter(), threading.Lock()

    def note(ctx):
        with lock:
            runs[ctx.id, ctx.attempt, ctx.delivery] += 1

    @jobs.job
    def fine(ctx: JobContext, n: int):
        note(ctx)

    @jobs.job
    async def also_fine(ctx: JobContext, n: int):
        note(ctx)

    @jobs.job(max_retries=2, retry=NoDelay())
    def fails_once(ctx: JobContext, n: int):
        note(ctx)
        if ctx.attempt == 1:
            raise ValueError(n)

    @jobs.job
    async def fails(ctx: JobContext, n: int):
        note(ctx)
        raise ValueError(n)

    each = 400
    for job in (fine, also_fine, fails_once, fails):
        job.enqueue_many([(n,) for n in range(each)])
    dice.chance = 0
    worker = work_on(jobs)
    dice.chance = 0.2
    worker.milestones.wait_for("settled", 5 * each, timeout=60)
    dice.chance = 0
    assert worker.stop() == []

    lost = f"{dice.lost_calls} calls and {dice.lost_answers} answers"
    report(
        f"lost on the way to and from a worker's store ({store}): {lost}; {4 * each:,} jobs ran and were settled once"
    )
    assert dice.lost_calls > 10
    assert dice.lost_answers > 10
    assert count_of(jobs) == {"completed": 3 * each, "discarded": each}
    # Adoption hands the very leases on: every run happened once, and each under its own delivery.
    assert len(runs) == 5 * each
    assert set(runs.values()) == {1}
    assert counters(jobs) == {
        "jobs_fetched": 5 * each,
        "jobs_succeeded": 3 * each,
        "jobs_failed": 2 * each,
        "jobs_requeued": each,
        "jobs_failed_permanently": each,
    }


def test_what_leaves_no_evidence_is_settled_once_all_the_same(
    open_app_on, work_on, patient, monkeypatch, clock, counters, count_of
):
    dice = Dice(0, 3)
    jobs = open_app_on(weathered(dice))
    monkeypatch.setattr(jobs.parts().backend, "claims_at_once", 8)
    runs = Counter()

    @jobs.job
    def snoozes_once(ctx: JobContext, n: int):
        runs[n] += 1
        if ctx.delivery == 1:
            raise Snooze(60)

    snoozes_once.enqueue_many([(n,) for n in range(200)])
    worker = work_on(jobs, concurrency=2)
    dice.chance = 0.2
    worker.milestones.wait_for("settled", 200)
    clock.advance(61)
    worker.milestones.wait_for("settled", 400)
    dice.chance = 0
    assert worker.stop() == []

    assert count_of(jobs) == {"completed": 200}
    assert set(runs.values()) == {2}
    counted = counters(jobs)
    assert counted["jobs_succeeded"] == 200
    # Nothing is kept of a snooze: one whose answer was lost while no other lease was held may be taken for a lost lease.
    assert counted["jobs_snoozed"] + counted.get("leases_lost", 0) == 200
    assert counted["jobs_fetched"] == 400


@pytest.mark.promise("F26")
def test_a_claim_whose_answer_was_lost_is_taken_up(jobs, weather, work_on, counters):
    ran = []

    @jobs.job
    def work(ctx: JobContext):
        ran.append(ctx.delivery)

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    weather.after = LOST
    handle = work.enqueue()
    worker.milestones.wait_for("unanswered")
    weather.after = None
    worker.milestones.wait_for("settled")

    assert ran == [1]
    assert handle.record().delivery == 1
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1}


@pytest.mark.promise("F27")
def test_a_settlement_whose_answer_was_lost_counts_once(jobs, weather, work_on, gate, counters, listen):
    heard = listen(jobs)

    @jobs.job
    def work():
        gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.after = LOST
    gate.open()
    worker.milestones.wait_for("unanswered", 3)
    weather.after = None
    worker.milestones.wait_for("settled")

    assert handle.state() == "completed"
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1}
    assert len(heard(JobCompleted)) == 1
    assert heard(JobLeaseLost) == []


@pytest.mark.promise("F27")
def test_a_repeated_settlement_that_left_no_trace_was_applied(open_app_on, work_on, gate, clock, counters):
    weather = Weather(("turn",))
    jobs = open_app_on(weathered(weather), retention={"completed": 0})

    @jobs.job
    def work():
        gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.after = LOST
    gate.open()
    worker.milestones.wait_for("unanswered")
    clock.advance(601)  # the tombstone is past its time
    jobs.prune()
    assert jobs.get(handle.id) is None
    weather.after = None
    worker.milestones.wait_for("settled")

    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1}


def test_the_answer_to_an_adoption_may_be_lost_too(jobs, weather, work_on, gate, counters):
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)
        gate.pass_through()

    work.enqueue_many([(n,) for n in range(4)])
    worker = work_on(jobs)
    gate.wait_for(4)
    weather.verbs = ("turn", "open_session")
    weather.after = LOST
    gate.open()
    worker.milestones.wait_for("unanswered", 5)
    weather.after = None
    worker.milestones.wait_for("settled", 4)

    assert sorted(ran) == [0, 1, 2, 3]
    assert worker.milestones.count("lost") == 0
    assert counters(jobs) == {"jobs_fetched": 4, "jobs_succeeded": 4}


def test_a_renewal_that_meets_an_adoption_under_way_changes_nothing(jobs, weather, work_on, gate, counters):
    @jobs.job
    def work(ctx: JobContext):
        contexts.append(ctx)
        gate.pass_through()

    contexts = []
    work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.verbs = ("turn", "open_session")
    weather.after = LOST
    worker._pump.wake()
    worker.milestones.wait_for("unanswered", 3)
    worker._session.renew()  # of the predecessor, whom the store has forgotten by now
    weather.after = None
    worker.milestones.wait_for("adopted")
    gate.open()
    worker.milestones.wait_for("settled")

    assert not contexts[0].lost
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1}


@pytest.mark.promise("F26")
def test_a_late_copy_of_a_lost_turn_claims_nothing(open_app_on, work_on):
    late = []

    class Late:
        def turn(self, turn):
            if turn.claim is not None and not late:
                late.append(lambda: super(Late, self).turn(turn))
                raise LOST
            return super().turn(turn)

    jobs = open_app_on(Late)

    @jobs.job
    def work(): ...

    work.enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("settled")
    work.enqueue_many([()] * 5)
    answer = late[0]()

    assert (answer.alive, answer.leases) == (False, [])
    worker.milestones.wait_for("settled", 6)


@pytest.mark.promise("F26")
def test_a_late_copy_of_an_adoption_revives_no_session(open_app_on, work_on, clock, gate, counters, count_of):
    """The store comes to execute it when both sessions are dead, and another worker has run what they held."""
    weather, late, ran = Weather(("turn",)), [], []
    weather.threads = "onward-"  # only the worker's: others reach the store

    class Late(weathered(weather)):
        def open_session(self, session, *, adopts=None):
            if adopts is not None and not late:
                late.append((session.owner, lambda: super(Late, self).open_session(session, adopts=adopts)))
                raise LOST
            held = super().open_session(session, adopts=adopts)
            if adopts is not None:
                weather.verbs = Weather.VERBS  # nothing more gets through
            return held

    jobs = open_app_on(Late)

    @jobs.job
    def work():
        ran.append(1)
        if len(ran) == 1:
            gate.pass_through()

    work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.error = LOST
    worker._pump.wake()
    worker.milestones.wait_for("adopted")
    clock.advance(31)
    assert [reaped.crashed for reaped in jobs.reap()] == [True]
    assert jobs.drain() == 1
    successor, copy = late[0]

    assert copy() is None

    assert not jobs.backend.extend(successor).alive
    weather.error = None
    worker.milestones.wait_for("reopened")
    gate.open()
    worker.milestones.wait_for("settled")
    assert worker.stop() == []
    assert len(ran) == 2
    assert count_of(jobs) == {"completed": 1}
    assert counters(jobs)["leases_lost"] == 1


def test_a_successor_that_died_before_it_was_heard_of_is_replaced(jobs, weather, work_on, clock, gate, counters):
    contexts = []

    @jobs.job
    def work(ctx: JobContext):
        contexts.append(ctx)
        if len(contexts) == 1:
            gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.verbs = ("turn", "open_session")
    weather.threads = "onward-"  # only the worker's: others reach the store
    weather.after = LOST
    worker._pump.wake()
    worker.milestones.wait_for("unanswered", 3)
    clock.advance(31)
    jobs.reap()
    weather.after = None
    worker.milestones.wait_for("reopened")
    worker.milestones.wait_for("settled")  # by its new session

    assert handle.state() == "completed"
    assert contexts[0].lost
    gate.open()
    worker.milestones.wait_for("settled", 2)
    assert counters(jobs)["leases_lost"] == 1
    assert worker.milestones.count("adopted") == 0


def test_the_last_thing_in_hand_may_leave_no_evidence(jobs, weather, work_on, gate, counters, listen):
    """A snooze whose answer was lost, and nothing else that the session held: it lived, so the snooze was applied."""
    heard = listen(jobs)

    @jobs.job
    def work():
        gate.pass_through()
        raise Snooze(60)

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.after = LOST
    gate.open()
    worker.milestones.wait_for("unanswered")
    weather.after = None
    worker.milestones.wait_for("settled")

    assert handle.state() == "scheduled"
    assert heard(JobLeaseLost) == []
    assert "leases_lost" not in counters(jobs)


def test_progress_goes_on_after_an_adoption(jobs, weather, work_on, gate):
    contexts = []

    @jobs.job
    def work(ctx: JobContext):
        contexts.append(ctx)
        ctx.progress(0.1)
        gate.pass_through()
        ctx.progress(0.9, "after it")
        return ctx.lost

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    weather.error = LOST
    worker._pump.wake()
    worker.milestones.wait_for("unanswered")
    weather.error = None
    worker.milestones.wait_for("adopted")
    gate.open()
    worker.milestones.wait_for("settled")

    assert handle.result() is False
    assert handle.record().progress.note == "after it"


def test_a_lost_answer_at_the_start_is_the_callers(jobs, weather, work_on):
    @jobs.job
    def work(): ...

    work.enqueue()
    worker = jobs.worker()
    weather.verbs = ("open_session",)
    weather.after = LOST
    with pytest.raises(BackendUnavailable):
        worker.start()
    assert not worker.running

    weather.after = None
    worker.start()
    worker.milestones.wait_for("settled")
    assert worker.stop() == []


def test_a_dead_letter_waits_for_the_store_that_it_is_made_of(open_app_on, work_on, counters, count_of):
    weather = Weather(("get",))
    jobs = open_app_on(weathered(weather), dead_letter_queue="dead")

    @jobs.job
    def work():
        raise ValueError

    weather.error = LOST
    work.enqueue()
    worker = work_on(jobs, queues=["default"])
    worker.milestones.wait_for("unanswered", 3)
    assert worker.running
    weather.error = None
    worker.milestones.wait_for("settled")

    assert count_of(jobs) == {"discarded": 1, "available": 1}
    assert count_of(jobs, "dead") == {"available": 1}


def test_a_dead_letter_that_cannot_be_made_does_not_cost_the_worker(open_app, work_on, monkeypatch, caplog, count_of):
    jobs = open_app(dead_letter_queue="dead")

    @jobs.job
    def work():
        raise ValueError

    def broken(*_):
        raise RecursionError("a payload a million levels deep")

    monkeypatch.setattr(jobs.dead_letters, "_copy", broken)
    work.enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("settled")

    assert count_of(jobs) == {"discarded": 1}
    assert "no dead letter can be made of it" in caplog.text
