"""Time-outs of jobs that run in the caller's thread: `process_once`, `drain` and ``sync://``."""

import asyncio
import contextlib
import os
import signal
import threading
import time

import pytest

from onward import JobContext, JobTimeout, NoDelay, Onward
from onward.base import interruption
from onward.worker import handler_threads


def spin(seconds=30.0):
    """Pure Python, a byte-code at a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.fixture(params=["process_once", "drain", "sync"])
def run(request, open_app):
    """Run a job of an application to its end: ``record = run(define)``, with a function that defines and returns it."""

    def run(define):
        if request.param == "sync":
            with Onward("sync://") as jobs:
                return define(jobs).enqueue().record(), jobs
        jobs = open_app()
        handle = define(jobs).enqueue()
        getattr(jobs, request.param)()
        return handle.record(), jobs

    return run


def test_a_sync_handler_is_interrupted_at_its_time_out(run):
    def define(jobs):
        @jobs.job(timeout=0.05)
        def work():
            with contextlib.suppress(Exception):  # as handlers do
                spin()

        return work

    record, _ = run(define)

    assert record.state == "discarded"
    assert (record.errors[-1].kind, record.errors[-1].message) == (
        "onward.errors.JobTimeout",
        "the job was interrupted at its time-out",
    )
    assert "spin" in record.errors[-1].traceback


def test_an_async_handler_is_cancelled_at_its_time_out(run):
    def define(jobs):
        @jobs.job(timeout=0.05)
        async def work():
            await asyncio.sleep(30)

        return work

    record, _ = run(define)

    assert (record.state, record.errors[-1].kind) == ("discarded", "onward.errors.JobTimeout")


def test_a_time_out_that_is_swallowed_is_on_record_counted_and_logged(run, caplog):
    def define(jobs):
        @jobs.job(timeout=0.05)
        def work():
            with contextlib.suppress(JobTimeout):
                spin()

        return work

    record, jobs = run(define)

    assert record.state == "completed"
    assert record.errors[-1].message.endswith(": its handler caught JobTimeout and went on")
    assert jobs.metrics.count("jobs_overran") == 1
    assert f"job.overran work {record.id} attempt 1" in caplog.text


def test_the_caller_is_told_of_a_time_out_that_was_swallowed(jobs):
    @jobs.job(timeout=0.05)
    def work():
        with contextlib.suppress(JobTimeout):
            spin()

    work.enqueue()
    result = jobs.process_once()

    assert (result.status, result.error.kind) == ("acked", "onward.errors.JobTimeout")


def test_a_retry_has_a_time_out_of_its_own(jobs):
    @jobs.job(timeout=0.05, max_retries=2, retry=NoDelay())
    def work(ctx: JobContext):
        if not ctx.is_last_attempt:
            spin()

    handle = work.enqueue()
    jobs.drain()

    record = handle.record()
    assert (record.state, [error.kind for error in record.errors]) == ("completed", ["onward.errors.JobTimeout"] * 2)


def test_interrupt_false_is_not_interrupted(jobs):
    @jobs.job(timeout=0.02, interrupt=False)
    def work() -> str:
        spin(0.2)
        return "whole"

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == "whole"


def test_code_after_the_run_is_never_hit(jobs, monkeypatch):
    """Hundreds of handlers that end about when their time is out."""
    monkeypatch.setattr(handler_threads, "_AGAIN", 0.05)

    @jobs.job(timeout=0.001)
    def close(n: int):
        spin(0.0005 + n % 20 / 20_000)

    handles = close.enqueue_many([(n,) for n in range(400)])
    while jobs.process_once().status != "empty":
        sum(range(1_000))

    states = {handle.state() for handle in handles}
    assert states <= {"completed", "discarded"}
    assert {error.kind for handle in handles for error in handle.record().errors} <= {"onward.errors.JobTimeout"}
    assert interruption._own.guard is None


def test_each_thread_has_its_own_time_out(jobs, in_threads):
    @jobs.job(timeout=0.1)
    def hasty():
        spin()

    @jobs.job(timeout=30)
    def patient() -> str:
        spin(0.3)
        return "whole"

    handles = [job.enqueue() for job in (hasty, patient, hasty, patient)]
    in_threads(4, lambda _: jobs.process_once())

    assert [handle.state() for handle in handles] == ["discarded", "completed"] * 2


class TestAHandlerThatRunsOtherJobs:
    def test_the_inner_time_out_hits_the_inner_job(self, jobs):
        @jobs.job(timeout=0.05, queue="inner")
        def inner():
            spin()

        @jobs.job(timeout=30)
        def outer() -> str:
            within = inner.enqueue()
            jobs.process_once("inner")
            return str(within.state())

        handle = outer.enqueue()
        jobs.process_once()

        assert handle.result() == "discarded"
        assert interruption._own.guard is None

    @pytest.mark.parametrize("timeout", [None, 30])
    def test_the_outer_time_out_waits_for_the_inner_job_and_hits_the_outer(self, jobs, timeout):
        seen = []

        @jobs.job(timeout=timeout, queue="inner")
        def inner() -> str:
            spin(0.3)
            return "whole"

        @jobs.job(timeout=0.05)
        def outer():
            seen.append(inner.enqueue())
            jobs.process_once("inner")
            seen.append("after it")
            spin()

        handle = outer.enqueue()
        jobs.process_once()

        (within,) = seen
        assert within.result() == "whole"
        assert (handle.state(), handle.record().errors[-1].kind) == ("discarded", "onward.errors.JobTimeout")

    def test_a_job_of_another_application_that_runs_at_once_does_not_take_the_time_out(self, jobs):
        with Onward("sync://") as at_once:

            @at_once.job
            def inner() -> str:
                spin(0.3)
                return "whole"

            seen = []

            @jobs.job(timeout=0.05)
            def outer():
                seen.append(inner.enqueue())

            handle = outer.enqueue()
            jobs.process_once()

            (within,) = at_once.list()
            assert (within.state, within.result) == ("completed", "whole")
            assert (handle.state(), seen) == ("discarded", [])


class TestCtrlC:
    @pytest.fixture
    def press(self):
        """Press Ctrl-C soon."""
        timers = []

        def press(after=0.1):
            timers.append(threading.Timer(after, os.kill, [os.getpid(), signal.SIGINT]))
            timers[-1].start()

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield press
        for timer in timers:
            timer.join()
        signal.signal(signal.SIGINT, before)

    def test_it_ends_the_program_and_gives_the_job_back(self, jobs, press):
        @jobs.job(timeout=30)
        def work():
            spin()

        handle = work.enqueue()
        press()
        with pytest.raises(KeyboardInterrupt):
            jobs.drain()

        assert (handle.state(), handle.record().attempts) == ("available", 0)
        assert interruption._own.guard is None

    def test_it_is_not_lost_while_a_time_out_is_under_way(self, jobs, press):
        """Handlers end at their time-outs all the time, and Ctrl-C comes wherever it likes."""

        @jobs.job(timeout=0.001, max_retries=1_000_000, retry=NoDelay())
        def work():
            spin()

        work.enqueue()
        press(0.3)
        with pytest.raises(KeyboardInterrupt):
            jobs.drain()

        assert interruption._own.guard is None
        spin(0.05)  # nothing is on its way any more

    def test_a_signal_s_handler_may_enqueue_wherever_it_comes_in_an_uninterrupted_block(self, jobs, press):
        @jobs.job(queue="told")
        def tell(): ...

        @jobs.job(timeout=30)
        def work():
            while not told:
                with interruption.uninterrupted():
                    pass

        told = []
        signal.signal(signal.SIGINT, lambda *_: told.append(tell.enqueue()))
        handle = work.enqueue()
        press()
        jobs.process_once()

        assert handle.state() == "completed"
        assert told[0].state() == "available"


def test_a_child_process_keeps_its_own_time_outs(jobs):
    """On either side of a fork, time-outs that began before it leave nothing behind."""

    @jobs.job(timeout=0.2, queue="other")
    def work():
        spin()

    @jobs.job(timeout=30)
    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException), Onward("sync://") as at_once:
                at_once.job(timeout=0.1)(spin).enqueue()
                code = 0 if [each.state for each in at_once.list()] == ["discarded"] else 2
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    handle = fork.enqueue()
    jobs.process_once()
    assert handle.result() == 0

    other = work.enqueue()
    jobs.process_once("other")
    assert other.record().errors[-1].kind == "onward.errors.JobTimeout"
