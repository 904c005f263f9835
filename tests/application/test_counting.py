"""Counters and events: each moves once per outcome, and they always add up."""

import asyncio
import contextlib
import sqlite3
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from onward import Discard, JobContext, NoDelay, Onward, Retry, Snooze
from onward.backend import Envelope
from onward.job.definition import EnqueueOptions
from onward.telemetry import (
    JobCancelled,
    JobCompleted,
    JobDeduplicated,
    JobDiscarded,
    JobEnqueued,
    JobFailed,
    JobLeaseLost,
    JobParked,
    JobRescued,
    JobSnoozed,
    JobStarted,
)
from onward.testing import FakeClock


@pytest.mark.promise("S28")
@pytest.mark.parametrize("retries", [0, 1, 2, 3, 5])
def test_a_job_that_always_fails_is_counted_as_often_as_it_ran(jobs, retries):
    @jobs.job(max_retries=retries, retry=NoDelay())
    def work():
        raise RuntimeError

    work.enqueue()
    jobs.drain()

    assert jobs.metrics.snapshot() == {
        "jobs_enqueued": {"default": 1},
        "jobs_fetched": {"default": retries + 1},
        "jobs_failed": {"default": retries + 1},
        **({"jobs_requeued": {"default": retries}} if retries else {}),
        "jobs_failed_permanently": {"default": 1},
    }


@pytest.mark.promise("S29")
def test_a_success_moves_nothing_but_its_own_counter(jobs):
    @jobs.job
    def work(): ...

    work.enqueue()
    jobs.drain()

    assert jobs.metrics.snapshot() == {
        "jobs_enqueued": {"default": 1},
        "jobs_fetched": {"default": 1},
        "jobs_succeeded": {"default": 1},
    }


def enqueues(jobs):
    count = jobs.metrics.count
    return {queue: (count("jobs_enqueued", queue), count("jobs_deduplicated", queue)) for queue in ("default", "mail")}


@pytest.mark.promise("S31")
def test_every_job_that_is_stored_is_counted_once_by_queue(jobs):
    @jobs.job
    def work(n: int = 0): ...

    work.enqueue()
    work.using(queue="mail").enqueue_many([(1,), (2,), (3,)])
    work.enqueue_many([])
    jobs.enqueue("work", queue="mail")
    asyncio.run(work.aenqueue())

    assert enqueues(jobs) == {"default": (2, 0), "mail": (4, 0)}


@pytest.mark.promise("S34")
def test_a_job_that_was_not_stored_for_its_unique_key_is_counted_apart(jobs):
    @jobs.job
    def work(n: int = 0): ...

    for _ in range(3):
        work.using(unique_key="one").enqueue()
    work.using(unique_key="two", queue="mail").enqueue_many([(1,), (2,)])

    assert enqueues(jobs) == {"default": (1, 2), "mail": (1, 1)}


def test_a_job_that_is_refused_is_not_counted(jobs):
    @jobs.job
    def work(n: int): ...

    with pytest.raises(TypeError):
        work.enqueue("many")

    assert jobs.metrics.snapshot() == {}


def test_a_dead_letter_counts_as_enqueued_on_its_queue(open_app):
    jobs = open_app(dead_letter_queue="dead")

    @jobs.job
    def work():
        raise RuntimeError

    work.enqueue()
    jobs.drain("default")

    assert jobs.metrics.snapshot()["jobs_enqueued"] == {"default": 1, "dead": 1}


@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize("how", ["committed", "rolled back"])
def test_a_job_of_a_callers_transaction_is_counted_when_it_is_handed_over(jobs, folder, how):
    @jobs.job
    def work(n: int = 0): ...

    jobs.connect()
    connection = sqlite3.connect(folder / "jobs.db")
    with contextlib.closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        with jobs.transaction(connection) as tx:
            tx.enqueue(work)
            tx.enqueue_many(work.using(queue="mail"), [(1,), (2,)])
        connection.commit() if how == "committed" else connection.rollback()

    assert enqueues(jobs) == {"default": (1, 0), "mail": (2, 0)}
    assert sum(jobs.counts().values()) == (3 if how == "committed" else 0)


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_job_of_a_handlers_transaction_is_counted(jobs):
    @jobs.job
    def next_one(): ...

    @jobs.job(queue="mail")
    def work(ctx: JobContext):
        with ctx.transaction() as conn:
            conn.enqueue(next_one)

    work.enqueue()
    jobs.drain("mail")

    assert enqueues(jobs) == {"default": (1, 0), "mail": (1, 0)}


@pytest.mark.promise("S31")
def test_every_counter_knows_its_queue(jobs):
    @jobs.job
    def work(): ...

    work.using(queue="mail").enqueue_many([(), ()])
    work.enqueue()
    jobs.drain()

    count = jobs.metrics.count
    assert [count("jobs_succeeded", queue) for queue in ("mail", "default", "none", None)] == [2, 1, 0, 3]


def outcome(jobs, ctx, wish):
    match wish:
        case "fails":
            raise RuntimeError("no luck")
        case "snoozes":
            raise Snooze(60)
        case "retries":
            raise Retry(after=60)
        case "gives up":
            raise Discard("enough")
        case "is cancelled":
            jobs.cancel(ctx.id)
            raise RuntimeError("too late")
        case "loses its lease":
            jobs.clock.advance(31)
            jobs.reap()


OUTCOMES = {
    "succeeds": (["jobs_succeeded"], [JobCompleted]),
    "fails": (["jobs_failed", "jobs_requeued"], [JobFailed]),
    "snoozes": (["jobs_snoozed"], [JobSnoozed]),
    "retries": (["jobs_failed", "jobs_requeued"], [JobFailed]),
    "gives up": (["jobs_failed", "jobs_failed_permanently"], [JobDiscarded]),
    "is cancelled": (["jobs_cancelled"], [JobCancelled]),
    "loses its lease": (["jobs_crashed", "leases_lost"], [JobRescued, JobLeaseLost]),
}


@pytest.fixture
def work(jobs, clock):
    jobs.clock = clock

    @jobs.job(max_retries=1)
    def work(ctx: JobContext, wish: str):
        outcome(jobs, ctx, wish)

    return work


@pytest.mark.promise("S29", "S30")
@pytest.mark.parametrize("wish", OUTCOMES)
def test_each_outcome_moves_its_own_counters_once(jobs, work, wish):
    work.enqueue(wish)
    jobs.process_once()

    moved = {name: by_queue["default"] for name, by_queue in jobs.metrics.snapshot().items()}
    assert moved == {"jobs_enqueued": 1, "jobs_fetched": 1} | dict.fromkeys(OUTCOMES[wish][0], 1)


@pytest.mark.promise("S30")
@pytest.mark.parametrize("wish", OUTCOMES)
def test_each_outcome_is_told_as_one_event_of_its_own(jobs, work, wish, listen):
    heard = listen(jobs)
    handle = work.enqueue(wish)
    jobs.process_once()

    events = heard()
    assert [type(event) for event in events] == [JobEnqueued, JobStarted, *OUTCOMES[wish][1]]
    assert {(event.id, event.job, event.queue) for event in events} == {(handle.id, "work", "default")}


@pytest.mark.promise("S30")
def test_a_failure_that_is_retried_is_told_with_what_is_needed_to_understand_it(jobs, work, listen):
    heard = listen(jobs)
    work.enqueue("fails")
    jobs.process_once()

    (event,) = heard(JobFailed)
    assert (event.attempt, event.error, event.kind) == (1, "no luck", "RuntimeError")
    assert event.duration_ms >= 0
    assert event.delay > 0


@pytest.mark.promise("S30")
def test_only_the_last_failure_is_told_as_a_discard_and_only_it(jobs, listen):
    heard = listen(jobs)

    @jobs.job(max_retries=2, retry=NoDelay())
    def work():
        raise RuntimeError("no luck")

    work.enqueue()
    jobs.drain()

    events = heard(JobFailed, JobDiscarded)
    assert [type(event) for event in events] == [JobFailed, JobFailed, JobDiscarded]
    assert [event.attempt for event in events] == [1, 2, 3]
    last = events[-1]
    assert (last.error, last.kind, last.reason) == (
        "no luck",
        "RuntimeError",
        "gave up after 3 attempts: max_retries is 2",
    )
    assert last.duration_ms >= 0


@pytest.mark.promise("S30")
def test_a_job_that_crashed_too_often_is_told_as_a_discard(open_app, crash_elsewhere, listen):
    jobs = open_app(max_crashes=1)
    heard = listen(jobs)

    @jobs.job
    def work(): ...

    handle = work.enqueue()
    crash_elsewhere(jobs)

    (event,) = heard(JobDiscarded, JobRescued)
    assert (event.id, event.kind, event.attempt) == (handle.id, "Crash", 0)
    assert jobs.metrics.count("jobs_crashed") == 1
    assert jobs.metrics.count("jobs_failed") == 0


@pytest.mark.promise("S31")
@pytest.mark.parametrize("wish", OUTCOMES)
def test_without_metrics_everything_else_happens_as_ever(wish):
    def life(**settings):
        clock = FakeClock()
        with Onward("memory://", clock=clock, **settings) as jobs:
            jobs.clock = clock

            @jobs.job(max_retries=1, retry=NoDelay())
            def work(ctx: JobContext, wish: str):
                outcome(jobs, ctx, wish)

            handle = work.enqueue(wish)
            status = jobs.process_once().status
            record = jobs.get(handle.id)
            life = (status, record.state, record.attempts, record.crashes, record.delivery, len(record.errors))
            return life, jobs.metrics.snapshot()

    counted, uncounted = life(metrics=True), life(metrics=False)

    assert counted[0] == uncounted[0]
    assert uncounted[1] == {}


WISHES = st.sampled_from([*OUTCOMES, "unknown", "unreadable", "done before"])


@pytest.mark.promise("S29")
@settings(max_examples=60)
@given(wishes=st.lists(WISHES, max_size=12), retries=st.integers(0, 3), seed=st.randoms())
def test_whatever_happens_failures_are_retried_or_final(wishes, retries, seed):
    clock = FakeClock()
    with Onward("memory://", clock=clock, max_crashes=2) as jobs:
        jobs.clock = clock
        heard = Counter()
        jobs.on(JobFailed, lambda event: heard.update(["failed"]))
        jobs.on(JobDiscarded, lambda event: heard.update(["discarded"]))

        @jobs.job(max_retries=retries, retry=NoDelay())
        def work(ctx: JobContext, wish: str):
            outcome(jobs, ctx, wish if ctx.delivery < 4 else "succeeds")

        for wish in wishes:
            if wish == "unknown":
                jobs.enqueue("unknown_here")
            elif wish == "unreadable":
                envelope = jobs.client.letters.seal_by_name("work", {"wish": "fails"}, EnqueueOptions())
                jobs.backend.enqueue([structs.replace(envelope, data=b"noise")])
            else:
                key = {"idempotency_key": "k"} if wish == "done before" else {}
                work.using(**key).enqueue(wish)
        for _ in range(8):
            jobs.drain()
            clock.advance(seed.choice([1, 60, 3600, 86_400]))
            jobs.reap()

        count = jobs.metrics.count
        assert jobs.telemetry.flush()
        assert count("jobs_failed") == count("jobs_requeued") + count("jobs_failed_permanently")
        assert heard["failed"] == count("jobs_requeued")
        assert jobs.counts()["discarded"] == heard["discarded"]
        assert count("jobs_succeeded") + count("jobs_skipped_idempotent") == jobs.counts()["completed"]


def test_a_second_job_that_is_not_enqueued_is_told_as_a_duplicate(jobs, listen):
    heard = listen(jobs)

    @jobs.job
    def work(): ...

    unique = work.using(unique_key="k")
    first = unique.enqueue()
    unique.enqueue()

    enqueued, duplicate = heard(JobEnqueued, JobDeduplicated)
    assert enqueued.id == duplicate.existing_id == first.id
    assert duplicate.id != first.id


def test_a_job_that_was_never_run_is_told_as_discarded_before_its_first_attempt(jobs, listen):
    heard = listen(jobs)
    jobs.backend.enqueue([Envelope("0" * 32, "default", b"noise", job="?", enqueued_at=0, max_crashes=3)])
    jobs.drain()

    (event,) = heard(JobDiscarded, JobParked)
    assert event.attempt == 0
