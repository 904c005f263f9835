"""Time-outs: a handler is interrupted where it stands, once, and nothing else ever is."""

import asyncio
import contextlib
import random
import re
import sys
import threading
import time

import pytest

from onward import JobContext, JobTimeout, NoDelay
from onward.telemetry import Event
from onward.worker import handler_threads


def spin(seconds=30.0):
    """Pure Python, a byte-code at a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def last_error(jobs, handle):
    return jobs.get(handle.id).errors[-1]


def ended_after(error, timeout):
    """The seconds that a record says a run took which ran past its time-out, and what it says beside."""
    said = re.fullmatch(rf"the job ran past its time-out of {timeout} s and ended after (\d+\.\d) s(.*)", error.message)
    assert said, error.message
    return float(said[1]), said[2]


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
    assert (error.kind, error.message) == ("onward.errors.JobTimeout", "the job was interrupted at its time-out")
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
    assert (error.kind, error.message) == (
        "onward.errors.JobTimeout",
        "the job's task was cancelled at its time-out of 0.05 s",
    )


def test_a_time_out_is_a_failure_that_is_retried(jobs, work_on, ended):
    attempts = []

    @jobs.job(timeout=1, max_retries=1, retry=NoDelay())
    def work(ctx: JobContext):
        attempts.append(ctx.attempt)
        while ctx.attempt == 1:
            time.sleep(0.01)

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
            spin(0.2)  # it is not interrupted again
            tidied.append(1)

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert tidied == [1]


def test_a_time_out_that_was_swallowed_comes_again(jobs, work_on, ended, monkeypatch):
    monkeypatch.setattr(handler_threads, "_AGAIN", 0.05)
    swallowed = []

    @jobs.job(timeout=0.05)
    def work():
        while len(swallowed) < 3:
            try:
                spin()
            except BaseException as error:  # noqa: BLE001  as handlers do
                swallowed.append(type(error))
        spin()

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert swallowed == [JobTimeout] * 3


def test_a_time_out_that_python_swallowed_comes_again(jobs, work_on, ended, monkeypatch):
    """What is raised in a finaliser or in a callback of the garbage collector is told to a hook and dropped."""
    swallowed = []
    monkeypatch.setattr(handler_threads, "_AGAIN", 0.05)
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
    assert last_error(jobs, handle).kind == "onward.errors.JobTimeout"


def test_except_exception_does_not_swallow_a_time_out(jobs, work_on, ended):
    swallowed = []

    @jobs.job(timeout=0.05)
    def work():
        try:
            spin(5)
        except Exception as error:  # noqa: BLE001  as handlers do
            swallowed.append(error)

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert swallowed == []


def sync_swallower(jobs):
    @jobs.job(timeout=0.05)
    def work():
        with contextlib.suppress(JobTimeout):
            spin()
        return "half of it"

    return work, "JobTimeout"


def async_swallower(jobs):
    @jobs.job(timeout=0.05)
    async def work():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return "half of it"

    return work, "asyncio.CancelledError"


@pytest.mark.parametrize("swallower", [sync_swallower, async_swallower])
def test_a_time_out_that_a_handler_swallowed_is_logged_counted_and_on_record(
    jobs, work_on, ended, counters, caplog, swallower
):
    work, caught = swallower(jobs)
    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert handle.result() == "half of it"
    error = last_error(jobs, handle)
    assert (error.kind, error.attempt) == ("onward.errors.JobTimeout", 1)
    assert ended_after(error, "0.05")[1] == f": its handler caught {caught} and went on"
    worker.milestones.wait_for("settled")
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1, "jobs_overran": 1}
    (line,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert line.getMessage() == f"job.overran work {handle.id} attempt 1: {error.message}"
    assert (line.event, line.job_id) == ("job.overran", handle.id)


def test_an_async_handler_that_could_not_be_cancelled_is_seen_to_run_past_its_time_out(jobs, work_on, ended, counters):
    @jobs.job(timeout=0.05)
    async def work():
        spin(0.3)  # and never lets the event loop go

    began = time.monotonic()
    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    took, more = ended_after(last_error(jobs, handle), "0.05")
    assert 0.3 <= took <= time.monotonic() - began + 0.1  # it is rounded
    assert more == ""
    worker.milestones.wait_for("settled")
    assert counters(jobs)["jobs_overran"] == 1


def test_a_failure_after_a_swallowed_time_out_is_that_failure_and_counted_as_late(jobs, work_on, ended, counters):
    @jobs.job(timeout=0.05)
    def work():
        with contextlib.suppress(JobTimeout):
            spin()
        raise RuntimeError("something else")

    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert last_error(jobs, handle).kind == "RuntimeError"
    worker.milestones.wait_for("settled")
    assert counters(jobs)["jobs_overran"] == 1


@pytest.mark.parametrize("listed", [TimeoutError, JobTimeout, Exception])
def test_a_list_of_errors_that_names_time_outs_means_the_jobs_own_too(jobs, work_on, ended, listed):
    @jobs.job(timeout=0.05, max_retries=3, discard_on=[listed])
    def work():
        spin()

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert handle.record().reason == "JobTimeout is not retried: it is listed in discard_on"


def test_interrupt_false_lets_it_run_to_its_end_and_is_seen(jobs, work_on, ended):
    @jobs.job(timeout=0.02, interrupt=False)
    def work(ctx: JobContext):
        spin(0.2)
        return ctx.deadline is not None

    began = time.monotonic()
    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert handle.result() is True
    took, more = ended_after(last_error(jobs, handle), "0.02")
    assert 0.2 <= took <= time.monotonic() - began + 0.1  # it is rounded
    assert more == ""


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
    worker.milestones.wait_for("settled", 500)

    assert not worker._inflight.running
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
def test_a_time_out_never_hits_another_job(jobs, work_on, restless, count_of, counters, report):
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
        worker.milestones.wait_for("settled", runs + len(bystanders), timeout=60)

    assert worker.running
    assert all(handle.state() == "completed" for handle in bystanders)
    states = count_of(jobs)
    assert states["completed"] + states["discarded"] == runs + len(bystanders)
    assert counters(jobs)["jobs_succeeded"] == states["completed"]
    kinds = {record.errors[-1].kind for record in jobs.list(state="discarded", limit=runs)}
    assert kinds == {"onward.errors.JobTimeout"}
    report(
        f"time-outs close to the end of a run: {states['discarded']:,} of {runs:,} interrupted, "
        f"{len(bystanders)} bystanders untouched"
    )


def test_a_time_out_never_tears_our_own_code_apart(jobs, work_on, restless, count_of, monkeypatch, report):
    """Handlers that enqueue, look, report and emit all the time, and are interrupted in the middle of it."""
    monkeypatch.setattr(handler_threads, "_AGAIN", 0.2)
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
    worker.milestones.wait_for("settled", trees, timeout=60)
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
