"""sync://: jobs are run by the thread that enqueues them, with everything real but the waiting."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from onward import Exponential, JobContext, JobDiscardedError, NoDelay, Onward, OnwardError, Snooze
from onward.testing import FakeClock
from onward.worker import inline


@pytest.fixture
def jobs():
    with Onward("sync://") as jobs:
        yield jobs


@pytest.mark.promise("S27")
def test_a_job_has_run_when_its_enqueue_returns(jobs):
    ran = []

    @jobs.job
    def work(n: int) -> int:
        ran.append(n)
        return n

    handle = work.enqueue(7)

    assert ran == [7]
    assert (handle.state(), handle.result()) == ("completed", 7)


@pytest.mark.promise("S27")
def test_nothing_is_left_to_fetch(jobs):
    @jobs.job
    def work(): ...

    work.enqueue()

    assert jobs.process_once().status == "empty"
    assert jobs.drain() == 0


@pytest.mark.promise("S27")
def test_the_error_is_raised_by_result_and_not_by_enqueue(jobs):
    @jobs.job
    def work():
        raise ValueError("bad input")

    handle = work.enqueue()

    with pytest.raises(JobDiscardedError, match="ValueError: bad input"):
        handle.result()


@pytest.mark.promise("S27")
def test_retries_are_real_and_their_delays_are_not_waited_for():
    clock = FakeClock()
    with Onward("sync://", clock=clock) as jobs:
        seen = []

        @jobs.job(max_retries=5, retry=Exponential(base=3600, max=86_400, jitter=None))
        def work(ctx: JobContext) -> str:
            seen.append(ctx.attempt)
            if ctx.attempt < 4:
                raise RuntimeError
            return "at last"

        handle = work.enqueue()

        record = handle.record()
        assert (seen, handle.result(), record.attempts) == ([1, 2, 3, 4], "at last", 4)
        waited = record.finished_at - record.enqueued_at
        assert waited == timedelta(seconds=3600 + 7200 + 14_400)


@pytest.mark.promise("S27", "S28")
def test_the_budget_is_real(jobs):
    @jobs.job(max_retries=2, retry=NoDelay())
    def work():
        raise RuntimeError

    handle = work.enqueue()

    assert (handle.state(), handle.record().attempts) == ("discarded", 3)
    count = jobs.metrics.count
    assert [count(f"jobs_{name}") for name in ("fetched", "failed", "requeued", "failed_permanently")] == [3, 3, 2, 1]


def test_delays_snoozes_and_priorities_are_followed_without_waiting(jobs):
    ran = []

    @jobs.job
    def work(ctx: JobContext, name: str):
        if name == "snoozes" and ctx.delivery < 3:
            raise Snooze("1h")
        ran.append(name)

    @jobs.job
    def parent():
        work.using(delay="1d").enqueue("late")
        work.enqueue("snoozes")
        work.using(priority=5).enqueue("urgent")
        work.enqueue("plain")

    parent.enqueue()

    assert ran == ["urgent", "plain", "snoozes", "late"]


def test_a_job_that_a_job_enqueues_runs_after_it(jobs):
    order = []

    @jobs.job
    def child():
        order.append("child")

    @jobs.job
    def parent():
        child.enqueue()
        order.append("parent")

    parent.enqueue()

    assert order == ["parent", "child"]


def test_two_thousand_jobs_that_enqueue_each_other_do_not_overflow_the_stack(jobs):
    deepest = []

    @jobs.job
    def again(left: int):
        if left:
            again.enqueue(left - 1)
        else:
            deepest.append(left)

    again.enqueue(2_000)

    assert deepest == [0]
    assert jobs.counts()["completed"] == 2_001


def test_a_job_that_comes_back_for_ever_is_stopped_and_said_so(jobs, monkeypatch):
    monkeypatch.setattr(inline, "_JUMPS", 100)

    @jobs.job
    def work():
        raise Snooze(1)

    with pytest.raises(OnwardError, match="jobs still come back"):
        work.enqueue()


def test_many_jobs_are_run_in_their_order(jobs):
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)

    work.enqueue_many([(n,) for n in range(20)])

    assert ran == list(range(20))


def test_an_async_handler_may_enqueue(jobs):
    @jobs.job
    async def child(n: int) -> int:
        return n

    @jobs.job
    async def parent() -> str:
        return (await child.aenqueue(7)).id

    handle = parent.enqueue()

    assert jobs.handle(handle.result()).result() == 7


def test_an_async_handler_may_enqueue_even_where_it_should_not_block(jobs):
    @jobs.job
    def child(n: int) -> int:
        return n

    @jobs.job
    async def parent() -> str:
        return child.enqueue(7).id

    handle = parent.enqueue()

    assert jobs.handle(handle.result()).result() == 7


def test_a_handler_may_enqueue_from_threads_of_its_own(jobs):
    @jobs.job
    def child(n: int) -> int:
        return n

    @jobs.job
    def parent() -> list[str]:
        with ThreadPoolExecutor(4) as pool:
            return [handle.id for handle in pool.map(child.enqueue, range(4))]

    handle = parent.enqueue()

    assert [jobs.handle(job_id).result() for job_id in handle.result()] == [0, 1, 2, 3]


def test_enqueueing_is_awaited_with_the_job(jobs):
    @jobs.job
    async def work() -> int:
        return 7

    async def main():
        handle = await work.aenqueue()
        return handle.state(), await handle.aresult()

    assert asyncio.run(main()) == ("completed", 7)


def test_threads_that_enqueue_together_each_see_their_own_result(jobs, in_threads):
    @jobs.job
    def work(n: int) -> int:
        return n

    assert in_threads(8, lambda n: work.enqueue(n).result(timeout=20)) == list(range(8))


def test_a_paused_queue_is_not_run_until_a_job_is_enqueued_after_it_was_resumed(jobs):
    @jobs.job
    def work(): ...

    jobs.pause("default")
    first = work.enqueue()
    assert first.state() == "available"

    jobs.resume("default")
    work.enqueue()
    assert first.state() == "completed"


def test_unique_keys_and_idempotency_keys_work_as_anywhere(jobs):
    ran = []

    @jobs.job
    def work():
        ran.append(1)

    once = work.using(idempotency_key="k")
    once.enqueue()
    second = once.enqueue()

    assert (ran, second.state()) == ([1], "completed")


def test_a_dead_letter_reaches_its_queue_and_its_handler():
    with Onward("sync://", dead_letter_queue="failed_jobs") as jobs:
        told = []

        @jobs.job(queue="failed_jobs")
        def dead_letter(id, job, name, queue, payload, meta, reason, attempts, errors):  # noqa: A002
            told.append((job, errors[-1]["message"]))

        @jobs.job
        def work():
            raise RuntimeError("no luck")

        work.enqueue()

        assert told == [("work", "no luck")]


def test_an_unknown_job_does_not_wait_for_ever(jobs):
    handle = jobs.enqueue("unknown_here")

    assert handle.state() == "discarded"
    assert "is its module imported?" in handle.record().reason
