"""Time-outs: a handler is interrupted where it stands, once, and nothing else ever is."""

import asyncio
import contextlib
import random
import sys
import threading
import time

import pytest

from onward import JobContext, NoDelay
from onward.telemetry import Event
from onward.worker import JobTimeout, interrupt


def spin(seconds=30.0):
    """Pure Python, a byte-code at a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def last_error(jobs, handle):
    return jobs.get(handle.id).errors[-1]


def test_a_sync_handler_is_interrupted_at_its_next_byte_code(jobs, work_on, ended):
    @jobs.job(timeout=0.05)
    def work():
        spin()

    handle = work.enqueue()
    began = time.monotonic()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert time.monotonic() - began < 10
    error = last_error(jobs, handle)
    assert (error.kind, error.message) == ("JobTimeout", "it was interrupted at its time-out")
    assert "spin" in error.traceback


def test_an_async_handler_is_cancelled(jobs, work_on, ended):
    seen = []

    @jobs.job(timeout=0.05)
    async def work():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert seen == ["cancelled"]
    error = last_error(jobs, handle)
    assert (error.kind, error.message) == ("TimeoutError", "it was cancelled at its time-out of 0.05 s")


def test_a_time_out_is_a_failure_that_is_retried(jobs, work_on, ended):
    attempts = []

    @jobs.job(timeout=0.05, max_retries=1, retry=NoDelay())
    def work(ctx: JobContext):
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            spin()

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert attempts == [1, 2]


def test_a_handler_may_tidy_up_after_its_time_out(jobs, work_on, ended):
    tidied = []

    @jobs.job(timeout=0.05)
    def work():
        try:
            spin()
        finally:
            spin(0.2)  # nobody interrupts it again
            tidied.append(1)

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert tidied == [1]


def test_a_time_out_that_was_swallowed_comes_again(jobs, work_on, ended, monkeypatch):
    monkeypatch.setattr(interrupt, "_AGAIN", 0.05)
    swallowed = []

    @jobs.job(timeout=0.05)
    def work():
        while len(swallowed) < 3:
            try:
                spin()
            except Exception as error:  # noqa: BLE001  as handlers do
                swallowed.append(type(error))
        spin()

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert swallowed == [JobTimeout] * 3


def test_a_time_out_that_python_swallowed_comes_again(jobs, work_on, ended, monkeypatch):
    """What is raised in a finaliser or in a callback of the garbage collector is told to a hook and dropped."""
    swallowed = []
    monkeypatch.setattr(interrupt, "_AGAIN", 0.05)
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: swallowed.append(dropped.exc_type))

    class Finalised:
        def __del__(self):
            spin()

    @jobs.job(timeout=0.5)
    def work():
        Finalised()
        spin()

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert swallowed == [JobTimeout]
    assert last_error(jobs, handle).kind == "JobTimeout"


def test_a_handler_that_catches_its_time_out_has_succeeded(jobs, work_on, ended):
    @jobs.job(timeout=0.05)
    def work():
        with contextlib.suppress(JobTimeout):
            spin()
        return "half of it"

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert handle.result() == "half of it"


def test_interrupt_false_lets_it_run_to_its_end(jobs, work_on, ended):
    @jobs.job(timeout=0.02, interrupt=False)
    def work(ctx: JobContext):
        spin(0.2)
        return ctx.deadline is not None

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert handle.result() is True


@pytest.mark.promise("F84")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_handlers_own_time_out_is_an_ordinary_failure(jobs, work_on, ended, colour):
    if colour == "sync":

        @jobs.job(timeout=30)
        def work():
            raise TimeoutError("mine")

    else:

        @jobs.job(timeout=30)
        async def work():
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)

    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert last_error(jobs, handle).kind == "TimeoutError"
    assert "its time-out" not in last_error(jobs, handle).message
    assert worker.running


def test_a_job_that_ends_in_time_leaves_nothing_behind(jobs, work_on):
    @jobs.job(timeout=3600)
    def work(n: int): ...

    work.enqueue_many([(n,) for n in range(500)])
    worker = work_on(jobs)
    worker.facts.wait_for("settled", 500)

    assert not worker._hand.running
    assert [thread.name for thread in threading.enumerate()].count("onward-deadlines") <= 1


def test_an_earlier_deadline_that_comes_later_is_kept(jobs, work_on, ended, gate):
    @jobs.job(timeout=60)
    def patient():
        gate.pass_through()

    @jobs.job(timeout=0.05)
    def hasty():
        spin()

    patient.enqueue()
    work_on(jobs)
    gate.wait_for()
    handle = hasty.enqueue()

    assert ended(jobs, handle) == ["discarded"]


@pytest.mark.promise("F84")
def test_a_time_out_never_hits_anybody_else(jobs, work_on, restless, count_of, counters, report):
    """Thousands of jobs that take about as long as they may: each is either interrupted or not, and nothing else is."""
    chance = random.Random(5)
    lengths = [chance.uniform(0, 0.001) for _ in range(1_000)]

    @jobs.job(timeout=0.0005)
    def close(n: int):
        end = time.perf_counter() + lengths[n]
        while time.perf_counter() < end:
            pass

    @jobs.job
    def bystander(n: int):
        for _ in range(50):
            pass
        return n

    worker = work_on(jobs, concurrency=4)
    bystanders, runs = [], 0
    # Who is to interrupt comes late on a busy machine: some more then, until enough were hit.
    while runs < 3_000 or count_of(jobs).get("discarded", 0) <= 300:
        close.enqueue_many([(n,) for n in range(1_000)])
        bystanders += bystander.enqueue_many([(n,) for n in range(200)])
        runs += 1_000
        worker.facts.wait_for("settled", runs + len(bystanders), timeout=60)

    assert worker.running
    assert all(handle.state() == "completed" for handle in bystanders)
    states = count_of(jobs)
    assert states["completed"] + states["discarded"] == runs + len(bystanders)
    assert counters(jobs)["jobs_succeeded"] == states["completed"]
    kinds = {record.errors[-1].kind for record in jobs.list(state="discarded", limit=runs)}
    assert kinds == {"JobTimeout"}
    report(
        f"time-outs close to the end of a run: {states['discarded']:,} of {runs:,} interrupted, "
        f"{len(bystanders)} bystanders untouched"
    )


def test_a_time_out_never_tears_our_own_code_apart(jobs, work_on, restless, count_of, monkeypatch, report):
    """Handlers that enqueue, look, report and emit all the time, and are interrupted in the middle of it."""
    monkeypatch.setattr(interrupt, "_AGAIN", 0.2)
    jobs.on(Event, lambda event: None)
    enqueued = []

    @jobs.job(queue="leaves")
    def leaf(n: int): ...

    @jobs.job(timeout=0.002, queue="trees")
    def tree(ctx: JobContext, n: int):
        while True:
            handle = leaf.enqueue(n)
            enqueued.append(handle.id)
            ctx.progress(0.5)
            handle.state()
            jobs.counts()

    trees = 250
    tree.enqueue_many([(n,) for n in range(trees)])
    worker = work_on(jobs, queues=["trees"], concurrency=4)
    worker.facts.wait_for("settled", trees, timeout=60)
    assert worker.running
    assert count_of(jobs, "trees") == {"discarded": trees}

    # The store is whole: whatever was answered is there, once, and runs.
    stored = count_of(jobs, "leaves")["available"]
    assert len(set(enqueued)) == len(enqueued) <= stored <= len(enqueued) + trees
    assert jobs.drain("leaves") == stored
    assert count_of(jobs, "leaves") == {"completed": stored}
    report(
        f"time-outs in the middle of enqueueing: {trees} handlers interrupted, the {stored:,} jobs they enqueued there"
    )
