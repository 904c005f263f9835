"""What a handler can say beside "done" and "failed": Snooze, Retry, Discard; and which errors are worth a retry."""

import pytest

from onward import Discard, JobContext, NoDelay, Retry, Snooze


def wait_of(jobs, handle, clock):
    return (jobs.get(handle.id).available_at - clock.now()).total_seconds()


@pytest.fixture(params=["raised", "returned"])
def say(request):
    """Raise a signal, or return it: both mean the same."""

    def say(signal):
        if request.param == "raised":
            raise signal
        return signal

    return say


@pytest.mark.promise("F70")
def test_a_snoozed_job_comes_back_later_and_has_burned_nothing(jobs, clock, say):
    @jobs.job
    def work():
        return say(Snooze("5m"))

    handle = work.enqueue()
    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, result.attempts) == ("snoozed", 0)
    assert (record.state, record.attempts, record.errors) == ("scheduled", 0, ())
    assert wait_of(jobs, handle, clock) == 300


@pytest.mark.promise("F70")
def test_a_job_may_snooze_more_often_than_it_may_fail(jobs, clock):
    @jobs.job(max_retries=0)
    def work(ctx: JobContext):
        if ctx.delivery < 20:
            raise Snooze(1)

    handle = work.enqueue()
    for _ in range(20):
        jobs.process_once()
        clock.advance(1)

    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("completed", 1)


def test_a_snooze_lasts_at_least_a_second_so_that_draining_ends(jobs, clock):
    @jobs.job
    def work():
        raise Snooze(0)

    handle = work.enqueue()

    assert jobs.drain() == 1
    assert wait_of(jobs, handle, clock) == 1


def test_a_job_that_asks_for_a_retry_burns_an_attempt(jobs, clock, say):
    @jobs.job(max_retries=1)
    def work():
        return say(Retry(after=60))

    handle = work.enqueue()
    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state, record.attempts) == ("requeued", "retryable", 1)
    assert wait_of(jobs, handle, clock) == 60
    assert [(error.kind, error.message) for error in record.errors] == [
        ("onward.job.signals.Retry", "asked to be retried")
    ]


def test_a_retry_at_the_end_of_the_budget_dead_letters(jobs, say):
    @jobs.job(max_retries=0)
    def work():
        return say(Retry(after=60))

    handle = work.enqueue()

    assert jobs.process_once().status == "dead-lettered"
    assert jobs.get(handle.id).reason == "gave up after 1 attempt: max_retries is 0"


def test_a_discarded_job_is_dead_whatever_is_left_of_its_budget(jobs, say):
    @jobs.job(max_retries=9)
    def work():
        return say(Discard("the account is closed"))

    handle = work.enqueue()
    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state, record.attempts) == ("dead-lettered", "discarded", 1)
    assert record.reason == "the account is closed"


@pytest.mark.promise("F60")
@pytest.mark.parametrize("reason", ["nul \x00 and \ud800 surrogate", "x" * 100_000, ValueError("an error itself")])
def test_whatever_a_handler_gives_as_a_reason_the_job_is_discarded(jobs, reason):
    @jobs.job
    def work():
        raise Discard(reason)

    handle = work.enqueue()
    jobs.process_once()

    assert handle.state() == "discarded"


def test_a_signal_that_forgot_its_own_fields_is_an_ordinary_failure(jobs):
    class Careless(Discard):
        def __init__(self):
            pass

    @jobs.job(max_retries=1)
    def work():
        raise Careless

    handle = work.enqueue()

    assert jobs.process_once().status == "requeued"
    assert handle.state() == "retryable"


def test_what_discard_on_lists_is_never_retried(jobs):
    @jobs.job(max_retries=9, discard_on=(LookupError, ValueError))
    def work():
        raise KeyError("gone")

    handle = work.enqueue()
    jobs.process_once()

    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("discarded", 1)
    assert record.reason == "KeyError is not retried: it is listed in discard_on"


def test_what_discard_on_does_not_list_is_retried(jobs):
    @jobs.job(max_retries=1, discard_on=ValueError)
    def work():
        raise OSError

    work.enqueue()

    assert jobs.process_once().status == "requeued"


def test_only_what_retry_on_lists_is_retried(jobs):
    @jobs.job(max_retries=9, retry_on=ConnectionError, retry=NoDelay())
    def work(ctx: JobContext):
        raise (ConnectionResetError if ctx.attempt < 3 else ValueError)

    handle = work.enqueue()
    jobs.drain()

    record = jobs.get(handle.id)
    assert (record.state, record.attempts) == ("discarded", 3)
    assert record.reason == "ValueError is not retried: only what retry_on lists is"


def test_a_job_that_asks_for_a_retry_gets_it_whatever_retry_on_lists(jobs):
    @jobs.job(max_retries=1, retry_on=ConnectionError)
    def work():
        raise Retry(after=5)

    work.enqueue()

    assert jobs.process_once().status == "requeued"
