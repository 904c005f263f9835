"""Whatever a handler raises or returns is its own failure: the worker and the other jobs go on."""

import asyncio
import sys

import pytest

from onward import NoDelay
from onward.base.failure import name_of
from tests.worker.stores import counting

pytestmark = pytest.mark.usefixtures("patient")  # on a busy machine, too, every job is claimed once


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even its text can be had")


class Unequal(BaseException):
    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        raise RuntimeError


RAISED = [
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
    MemoryError(),
    StopIteration(),
    StopAsyncIteration(),
    RecursionError(),
    TimeoutError("mine"),
    Unspeakable(),
    Unequal(),
    BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()]),
]


@pytest.mark.promise("F84")
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("store", ["memory"])
def test_any_exception_is_a_failed_attempt(jobs, work_on, ended, colour, error):
    raised = []

    if colour == "sync":

        @jobs.job(max_retries=1, retry=NoDelay())
        def work():
            raised.append(1)
            raise error

    else:

        @jobs.job(max_retries=1, retry=NoDelay())
        async def work():
            raised.append(1)
            raise error

    @jobs.job
    def next_one(): ...

    handle = work.enqueue()
    worker = work_on(jobs, concurrency=1)
    assert ended(jobs, handle) == ["discarded"]
    assert ended(jobs, next_one.enqueue()) == ["completed"]

    assert len(raised) == 2
    record = handle.record()
    kinds = {name_of(type(error)), "RuntimeError"}  # Python turns a coroutine's StopIteration into one
    assert [run.kind in kinds for run in record.errors] == [True, True]
    assert worker.running


@pytest.mark.promise("F84")
@pytest.mark.parametrize("store", ["memory"])
@pytest.mark.parametrize("how", ["task", "callback"])
def test_what_an_async_handler_leaves_behind_does_not_end_the_loop(jobs, work_on, ended, how):
    @jobs.job
    async def work():
        if how == "task":
            task = asyncio.create_task(exits())
            await asyncio.wait([task])
        else:
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await asyncio.sleep(0.05)
        return "still here"

    async def exits():
        sys.exit(3)

    worker = work_on(jobs)
    for _ in range(3):
        handle = work.enqueue()
        assert ended(jobs, handle) == ["completed"]
        assert handle.result() == "still here"
    assert worker.running


@pytest.mark.parametrize("store", ["memory"])
def test_a_result_that_raises_while_it_is_looked_at_is_a_failure(jobs, work_on, ended):
    def stubborn():
        while True:
            try:
                yield
            except GeneratorExit:
                raise KeyboardInterrupt from None

    @jobs.job
    def work():
        generator = stubborn()
        next(generator)
        return generator

    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert worker.running


@pytest.mark.promise("F84")
def test_many_failures_of_all_kinds_do_not_wear_a_worker_out(jobs, work_on, count_of, counters):
    @jobs.job
    def work(n: int):
        raise RAISED[n % len(RAISED)]

    @jobs.job
    async def awork(n: int):
        raise RAISED[n % len(RAISED)]

    for job in (work, awork):
        job.enqueue_many([(n,) for n in range(240)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 480)

    assert count_of(jobs) == {"discarded": 480}
    assert counters(jobs) == {"jobs_fetched": 480, "jobs_failed": 480, "jobs_failed_permanently": 480}


@pytest.mark.promise("S41")
def test_failures_of_handlers_do_not_slow_the_worker_down(open_app_on, work_on):
    """They never count as the store's: no pause, no circuit."""
    turns = []
    jobs = open_app_on(counting(turns))

    @jobs.job
    def work(n: int):
        raise RuntimeError(n)

    work.enqueue_many([(n,) for n in range(300)])
    worker = work_on(jobs)
    worker.milestones.wait_for("settled", 300)

    assert worker.milestones.count("unanswered") == 0
    assert not worker._pump.recovery.breaker.open
