"""How often a job runs: the retry budget, what burns it, and the delay before each retry."""

from datetime import timedelta

import pytest

from onward import Custom, Exponential, Fixed, JobContext, Linear, NoDelay, Retry, RetryPolicy

shared = pytest.mark.parametrize("store", ["sqlite"])  # each memory:// application is its own store


def wait_of(jobs, handle, clock):
    return (jobs.get(handle.id).available_at - clock.now()).total_seconds()


@pytest.mark.promise("S1")
def test_a_fresh_job_has_no_attempts(jobs):
    @jobs.job
    def work(): ...

    handle = work.enqueue()

    record = jobs.get(handle.id)
    assert (record.attempts, record.delivery, record.crashes, record.interruptions) == (0, 0, 0, 0)


@pytest.mark.promise("S2")
def test_the_context_counts_attempts_from_one(jobs):
    seen = []

    @jobs.job(max_retries=2, retry=NoDelay())
    def work(ctx: JobContext):
        seen.append((ctx.attempt, ctx.is_last_attempt))
        raise RuntimeError

    work.enqueue()
    jobs.drain()

    assert seen == [(1, False), (2, False), (3, True)]


@pytest.mark.promise("S3", "S4", "S5")
@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (1, 2), (2, 3), (3, 4), (5, 6)])
def test_max_retries_n_gives_n_plus_one_runs(jobs, retries, runs):
    ran = []

    @jobs.job(max_retries=retries, retry=NoDelay())
    def work():
        ran.append(1)
        raise RuntimeError

    handle = work.enqueue()
    statuses = [jobs.process_once().status for _ in range(runs)]

    assert statuses == ["requeued"] * retries + ["dead-lettered"]
    assert len(ran) == runs == jobs.get(handle.id).attempts
    assert jobs.process_once().status == "empty"


@pytest.mark.promise("S10")
@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_max_attempts_n_gives_n_runs_and_then_the_job_is_discarded(jobs, attempts):
    ran = []

    @jobs.job(max_attempts=attempts, retry=NoDelay())
    def work():
        ran.append(1)
        raise RuntimeError

    handle = work.enqueue()
    jobs.drain()

    assert len(ran) == attempts
    assert handle.state() == "discarded"


@pytest.mark.promise("S10")
@pytest.mark.parametrize(
    ("options", "runs"), [({"max_retries": 0}, 1), ({"max_attempts": 2}, 2), ({"max_retries": 7}, 8)]
)
def test_the_budget_of_a_call_beats_that_of_its_definition(jobs, options, runs):
    ran = []

    @jobs.job(max_retries=5, retry=NoDelay())
    def work():
        ran.append(1)
        raise RuntimeError

    work.using(**options).enqueue()
    jobs.drain()

    assert len(ran) == runs


@pytest.mark.promise("S5")
def test_one_cycle_runs_one_attempt_even_if_the_retry_is_due_at_once(jobs):
    ran = []

    @jobs.job(max_retries=3, retry=NoDelay())
    def work():
        ran.append(1)
        raise RuntimeError

    work.enqueue()
    jobs.process_once()

    assert len(ran) == 1


@pytest.mark.promise("S6", "S20")
def test_a_failure_counts_once_and_leaves_id_and_sealed_bytes_alone(jobs):
    @jobs.job(max_retries=3, retry=NoDelay())
    def work():
        raise RuntimeError

    handle = work.enqueue()
    before = jobs.get(handle.id)
    jobs.process_once()

    after = jobs.get(handle.id)
    assert after.attempts == before.attempts + 1
    assert after.raw == before.raw


@pytest.mark.promise("S7")
@pytest.mark.parametrize("failures", [0, 1, 3])
def test_the_run_that_succeeds_counts_too(jobs, failures):
    @jobs.job(max_retries=5, retry=NoDelay())
    def work(ctx: JobContext):
        if ctx.attempt <= failures:
            raise RuntimeError

    handle = work.enqueue()
    jobs.drain()

    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("completed", failures + 1)


@pytest.mark.promise("S8", "S32")
def test_a_crash_burns_no_attempt_and_the_same_attempt_runs_again(jobs, crash_elsewhere):
    seen = []

    @jobs.job(max_retries=1)
    def work(ctx: JobContext):
        seen.append((ctx.attempt, ctx.delivery))

    handle = work.enqueue()
    crash_elsewhere(jobs)
    jobs.drain()

    record = jobs.get(handle.id)
    assert seen == [(1, 2)]
    assert (record.state, record.attempts, record.crashes) == ("completed", 1, 1)


@pytest.mark.promise("S9")
def test_an_interrupted_run_does_not_count(jobs):
    @jobs.job(max_retries=1)
    def work():
        raise KeyboardInterrupt

    handle = work.enqueue()
    with pytest.raises(KeyboardInterrupt):
        jobs.process_once()

    record = jobs.get(handle.id)
    assert (record.state, record.attempts, record.interruptions) == ("available", 0, 1)


@pytest.mark.promise("S9")
def test_steering_a_job_by_hand_does_not_count(jobs):
    @jobs.job(max_retries=3, retry=Fixed(60))
    def work():
        raise RuntimeError

    handle = work.enqueue()
    jobs.process_once()
    jobs.retry(handle.id)
    jobs.cancel(handle.id)

    assert jobs.get(handle.id).attempts == 1


@pytest.mark.promise("S11")
def test_without_a_word_about_it_a_job_runs_once(jobs):
    @jobs.job
    def work():
        raise RuntimeError

    handle = work.enqueue()
    jobs.drain()

    record = jobs.get(handle.id)
    assert (record.state, record.attempts, record.max_retries) == ("discarded", 1, 0)


@pytest.mark.promise("S11")
def test_the_default_budget_is_a_setting_of_the_application(open_app):
    jobs = open_app(default_max_retries=2)

    @jobs.job(retry=NoDelay())
    def work():
        raise RuntimeError

    handle = work.enqueue()
    jobs.drain()

    assert jobs.get(handle.id).attempts == 3


@pytest.mark.promise("S12")
@shared
def test_the_budget_is_frozen_when_the_job_is_enqueued(open_app):
    enqueuing, running = open_app(), open_app()

    @enqueuing.job(max_retries=1)
    def work(): ...

    @running.job(name="work", max_retries=9, retry=NoDelay())
    def newer_work():
        raise RuntimeError

    handle = work.enqueue()
    running.drain()

    record = running.get(handle.id)
    assert (record.max_retries, record.attempts, record.state) == (1, 2, "discarded")


@pytest.mark.promise("S12")
@shared
def test_a_job_enqueued_by_name_elsewhere_takes_the_budget_of_the_worker_that_runs_it(open_app):
    stranger, running = open_app(), open_app()

    @running.job(max_retries=2, retry=NoDelay())
    def work():
        raise RuntimeError

    handle = stranger.enqueue("work")
    running.drain()

    record = running.get(handle.id)
    assert (record.max_retries, record.attempts) == (None, 3)


@pytest.mark.promise("S17")
def test_a_policy_of_the_job_beats_that_of_its_queue_and_both_beat_the_default(open_app, clock):
    jobs = open_app(default_retry=Fixed(100), queue_retry={"slow": Fixed(200)})

    @jobs.job(max_retries=1)
    def plain():
        raise RuntimeError

    @jobs.job(max_retries=1, queue="slow")
    def on_a_queue():
        raise RuntimeError

    @jobs.job(max_retries=1, queue="slow", retry=Fixed(300))
    def with_its_own():
        raise RuntimeError

    handles = [
        plain.enqueue(),
        on_a_queue.enqueue(),
        with_its_own.enqueue(),
        with_its_own.using(retry=Linear(400)).enqueue(),
    ]
    jobs.drain()

    assert [wait_of(jobs, handle, clock) for handle in handles] == [100, 200, 300, 400]


@pytest.mark.promise("S17")
def test_a_policy_can_be_built_from_configuration(jobs, clock):
    policy = RetryPolicy.from_config(strategy="exponential", base=5, multiplier=2.0, max=300, jitter=False)

    @jobs.job(max_retries=3, retry=policy)
    def work():
        raise RuntimeError

    handle = work.enqueue()
    waits = []
    for _ in range(3):
        jobs.process_once()
        waits.append(wait_of(jobs, handle, clock))
        clock.advance(waits[-1])

    assert waits == [5, 10, 20]


@pytest.mark.promise("S14")
def test_a_custom_policy_that_raises_falls_back_to_the_default(jobs, clock, caplog):
    @jobs.job(max_retries=1, retry=Custom(lambda attempt, base: 1 / 0))
    def work():
        raise RuntimeError

    handle = work.enqueue()
    jobs.process_once()

    assert handle.state() == "retryable"
    assert 15 * 0.85 <= wait_of(jobs, handle, clock) <= 15 * 1.15
    assert "Custom raised ZeroDivisionError" in caplog.text


@pytest.mark.promise("S17")
def test_a_retry_that_names_its_own_delay_beats_the_policy(jobs, clock):
    @jobs.job(max_retries=1, retry=Fixed(300))
    def work():
        raise Retry(after="2m")

    handle = work.enqueue()
    jobs.process_once()

    assert wait_of(jobs, handle, clock) == 120


@pytest.mark.promise("S18", "F22")
def test_a_requeued_job_cannot_be_claimed_before_its_delay_is_over(jobs, clock):
    @jobs.job(max_retries=1, retry=Fixed(30))
    def work():
        raise RuntimeError

    work.enqueue()
    jobs.process_once()

    clock.advance(timedelta(seconds=30) - timedelta(microseconds=1))
    assert jobs.process_once().status == "empty"

    clock.advance(timedelta(microseconds=1))
    assert jobs.process_once().status == "dead-lettered"


@pytest.mark.promise("F22")
def test_a_delayed_job_waits_in_the_store(jobs, clock):
    @jobs.job
    def work(): ...

    handle = work.using(delay="10m").enqueue()
    assert jobs.process_once().status == "empty"
    assert handle.state() == "scheduled"

    clock.advance(600)
    assert jobs.process_once().status == "acked"


@pytest.mark.promise("F67")
def test_jobs_that_fail_together_are_not_retried_together(jobs, clock):
    @jobs.job(max_retries=1)
    def work():
        raise RuntimeError

    handles = work.enqueue_many([()] * 50)
    jobs.drain()

    waits = [wait_of(jobs, handle, clock) for handle in handles]
    assert len(set(waits)) > 40
    assert all(15 * 0.85 <= wait <= 15 * 1.15 for wait in waits)


@shared
def test_a_job_whose_budget_was_spent_before_it_was_claimed_is_not_run(open_app, clock):
    """The worker's own definition may allow less than was allowed when earlier runs failed."""
    stranger, generous, strict = open_app(), open_app(), open_app()
    ran = []

    @generous.job(max_retries=5, retry=Fixed(10))
    def work():
        raise RuntimeError

    @strict.job(name="work", max_retries=0)
    def strict_work():
        ran.append(1)

    handle = stranger.enqueue("work")
    generous.process_once()
    clock.advance(10)
    result = strict.process_once()

    record = strict.get(handle.id)
    assert (result.status, ran) == ("dead-lettered", [])
    assert (record.attempts, record.reason) == (1, "its budget of 1 attempt is spent")


def test_the_exponential_policy_of_a_job_is_followed_to_the_end(jobs, clock):
    @jobs.job(max_retries=5, retry=Exponential(base=5, max=45, jitter=None))
    def work():
        raise RuntimeError

    handle = work.enqueue()
    waits = []
    for _ in range(5):
        jobs.process_once()
        waits.append(wait_of(jobs, handle, clock))
        clock.advance(waits[-1])

    assert waits == [5, 10, 20, 40, 45]
