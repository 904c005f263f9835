"""A job from its caller's side: its state, its result, how it ended."""

import asyncio
import threading

import pytest

from onward import JobDiscardedError, ResultTimeout
from onward.errors import JobCancelledError, JobNotFound, NoWorker
from onward.telemetry import JobCancelled


@pytest.fixture
def double(jobs):
    @jobs.job
    def double(n: int) -> int:
        return 2 * n

    return double


@pytest.fixture
def failing(jobs):
    @jobs.job
    def failing():
        raise ValueError("bad input")

    return failing


def test_a_handle_knows_the_state_of_its_job(jobs, double):
    handle = double.enqueue(1)
    assert handle.state() == "available"

    jobs.drain()
    assert handle.state() == "completed"


def test_a_handle_gives_the_whole_record(jobs, double):
    handle = double.enqueue(4)
    jobs.drain()

    record = handle.record()
    assert (record.id, record.state, record.result, record.attempts) == (handle.id, "completed", 8, 1)
    assert record.is_finished


def test_a_result_is_there_once_the_job_has_run(jobs, double):
    handle = double.enqueue(4)
    jobs.drain()

    assert handle.result() == 8
    assert asyncio.run(handle.aresult()) == 8


def test_a_handle_can_be_made_from_an_id(jobs, double):
    job_id = double.enqueue(4).id
    jobs.drain()

    assert jobs.handle(job_id).result() == 8


def test_the_result_of_a_discarded_job_raises_with_its_last_error(jobs, failing):
    handle = failing.enqueue()
    jobs.drain()

    with pytest.raises(JobDiscardedError, match="ValueError: bad input") as ended:
        handle.result()
    assert (ended.value.job_id, ended.value.kind) == (handle.id, "ValueError")
    assert ended.value.reason == "gave up after 1 attempt: max_retries is 0"


def test_the_result_of_a_discarded_job_raises_the_same_for_those_who_await_it(jobs, failing):
    handle = failing.enqueue()
    jobs.drain()

    with pytest.raises(JobDiscardedError, match="ValueError: bad input"):
        asyncio.run(handle.aresult())


def test_the_result_of_a_cancelled_job_raises_with_the_reason(jobs, double):
    handle = double.enqueue(1)
    handle.cancel("not needed any more")

    with pytest.raises(JobCancelledError, match="not needed any more") as ended:
        handle.result()
    assert ended.value.reason == "not needed any more"


@pytest.mark.parametrize("store", ["sqlite"])
def test_waiting_for_a_result_ends_with_the_time_given(double):
    handle = double.enqueue(1)

    with pytest.raises(ResultTimeout, match=r"within 0\.01 s"):
        handle.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(handle.aresult(timeout=0.01))
    assert handle.state() == "available"


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_time_of_zero_still_looks_once(jobs, double):
    handle = double.enqueue(4)
    with pytest.raises(ResultTimeout):
        handle.result(timeout=0)

    jobs.drain()
    assert handle.result(timeout=0) == 8


@pytest.mark.parametrize("store", ["sqlite"])
def test_waiting_ends_when_another_thread_has_run_the_job(jobs, double):
    handle = double.enqueue(4)
    thread = threading.Thread(target=jobs.drain)
    thread.start()

    assert handle.result(timeout=20) == 8
    thread.join()


@pytest.mark.parametrize("store", ["memory"])
def test_a_wait_for_a_job_that_never_runs_is_refused(double):
    handle = double.enqueue(1)

    with pytest.raises(NoWorker, match=r"jobs\.drain"):
        handle.result()
    with pytest.raises(NoWorker):
        asyncio.run(handle.aresult())


@pytest.mark.parametrize("store", ["memory"])
def test_a_job_that_runs_right_now_in_another_thread_is_waited_for(jobs):
    started, go_on = threading.Event(), threading.Event()

    @jobs.job
    def slow() -> str:
        started.set()
        go_on.wait(20)
        return "done"

    handle = slow.enqueue()
    thread = threading.Thread(target=jobs.drain)
    thread.start()
    assert started.wait(20)
    threading.Timer(0.05, go_on.set).start()

    assert handle.result(timeout=20) == "done"
    thread.join()


def test_a_job_that_is_not_there_is_not_found(jobs):
    handle = jobs.handle("0" * 32)

    assert jobs.get(handle.id) is None
    with pytest.raises(JobNotFound):
        handle.state()
    with pytest.raises(LookupError):
        handle.result()


def test_a_job_that_was_pruned_is_not_found(jobs, double, clock):
    handle = double.enqueue(1)
    jobs.drain()
    clock.advance(1)
    jobs.prune(older_than=clock.now())

    with pytest.raises(JobNotFound, match="pruned"):
        handle.result()


def test_a_handle_cancels_its_job(jobs, double):
    handle = double.enqueue(1)

    assert handle.cancel() == "cancelled"
    assert handle.record().reason == "cancelled by request"
    assert handle.cancel() is None


def test_a_job_cancelled_through_its_handle_is_told_like_any_other(jobs, double, listen):
    heard = listen(jobs)
    first, second = double.enqueue(1), double.enqueue(2)
    first.cancel("why")
    jobs.cancel(second.id, "why")

    assert [(event.id, event.reason) for event in heard(JobCancelled)] == [(first.id, "why"), (second.id, "why")]
