"""Cancelling from outside: what waits never runs, what runs is told and interrupted, and a success that comes first wins."""

import asyncio
import time
from contextlib import suppress

import pytest

from onward import JobContext, JobStopped, NoDelay, Onward, State
from onward.telemetry import JobCancelled

SHORT = 0.9  # seconds of a lease: renewals come every third of it, and a busy machine may be late
shared = pytest.mark.parametrize("store", ["sqlite"])  # each memory:// application is its own store


def work_on_and_on():
    while True:
        time.sleep(0.001)


@pytest.fixture
def elsewhere(open_app):
    """Another application on the same file; on memory there is none, so it is the same one."""

    def elsewhere(jobs):
        return open_app() if jobs.backend.capabilities.shared else jobs

    return elsewhere


def test_a_waiting_job_never_runs(jobs, elsewhere, work_on, clock):
    ran = []

    @jobs.job
    def work():
        ran.append(1)

    handle = work.using(delay=60).enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("idle")

    assert elsewhere(jobs).cancel(handle.id) is State.CANCELLED
    clock.advance(61)
    work.enqueue()
    worker.milestones.wait_for("settled")
    assert ran == [1]
    assert handle.state() == "cancelled"


def test_a_running_call_is_interrupted_by_the_next_renewal(jobs, elsewhere, work_on, ended, listen, counters):
    heard = listen(jobs)
    seen = []

    @jobs.job
    def work(ctx: JobContext):
        try:
            work_on_and_on()
        except BaseException as error:
            seen.append((type(error).__name__, ctx.cancelled, ctx.lost))
            raise

    handle = work.enqueue()
    worker = work_on(jobs, lease_for=SHORT)
    worker.milestones.wait_for("claimed")
    asked = time.monotonic()
    assert elsewhere(jobs).cancel(handle.id, "enough") is State.EXECUTING

    assert ended(jobs, handle) == ["cancelled"]
    assert time.monotonic() - asked < 5  # a third of the lease, and some
    assert seen == [("JobStopped", True, False)]
    assert handle.record().reason == "enough"
    worker.milestones.wait_for("settled")
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_cancelled": 1}
    assert [event.id for event in heard(JobCancelled)] == [handle.id]


def test_a_running_coroutine_is_cancelled_by_the_next_renewal(jobs, elsewhere, work_on, ended, gate):
    seen = []

    @jobs.job
    async def work(ctx: JobContext):
        gate._reached.release()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            raise

    handle = work.enqueue()
    work_on(jobs, lease_for=SHORT)
    gate.wait_for()
    elsewhere(jobs).cancel(handle.id, "enough")

    assert ended(jobs, handle) == ["cancelled"]
    assert seen == [True]
    assert handle.record().reason == "enough"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_next_turn_tells_too(jobs, work_on, ended, gate, colour):
    """The lease is 30 s: no renewal comes while this test runs."""
    if colour == "sync":

        @jobs.job
        def work():
            gate._reached.release()
            work_on_and_on()

    else:

        @jobs.job
        async def work():
            gate._reached.release()
            await asyncio.sleep(60)

    @jobs.job
    def other(): ...

    handle = work.enqueue()
    work_on(jobs)
    gate.wait_for()
    jobs.cancel(handle.id)
    other.enqueue()

    assert ended(jobs, handle) == ["cancelled"]


def test_interrupt_false_is_only_told(jobs, work_on, ended):

    @jobs.job(interrupt=False)
    def work(ctx: JobContext):
        while not ctx.cancelled:
            time.sleep(0.001)
        raise RuntimeError("I heard")

    handle = work.enqueue()
    work_on(jobs, lease_for=SHORT).milestones.wait_for("claimed")
    jobs.cancel(handle.id)

    assert ended(jobs, handle) == ["cancelled"]
    assert handle.record().errors[-1].message == "I heard"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_handler_may_tidy_up_after_it_was_stopped(jobs, work_on, ended, colour):
    tidied = []

    if colour == "sync":

        @jobs.job
        def work():
            try:
                work_on_and_on()
            finally:
                time.sleep(SHORT)  # renewals come and go
                tidied.append(1)

    else:

        @jobs.job
        async def work():
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(SHORT)
                tidied.append(1)

    handle = work.enqueue()
    worker = work_on(jobs, lease_for=SHORT)
    worker.milestones.wait_for("claimed")
    jobs.cancel(handle.id)

    assert ended(jobs, handle) == ["cancelled"]
    assert tidied == [1]


def test_what_was_claimed_ahead_and_cancelled_never_runs(jobs, full_worker, gate, ended):
    inflight = full_worker(jobs)
    waiting = [work.key[0] for work in inflight.worker._inflight.calls.works]
    for job_id in waiting[:50]:
        assert jobs.cancel(job_id) is State.EXECUTING
    inflight.worker._session.renew()  # as its thread does every ten seconds
    gate.open()
    inflight.worker.milestones.wait_for("settled", 1_101)

    assert len(inflight.done) == 1_050
    assert jobs.counts()["cancelled"] == 50
    assert jobs.metrics.count("jobs_cancelled") == 50


@pytest.mark.promise("F87")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_success_that_comes_first_wins(jobs, work_on, ended, colour):
    if colour == "sync":

        @jobs.job
        def work(ctx: JobContext):
            assert jobs.cancel(ctx.id) is State.EXECUTING
            return "done"

    else:

        @jobs.job
        async def work(ctx: JobContext):
            assert await asyncio.to_thread(jobs.cancel, ctx.id) is State.EXECUTING
            return "done"

    handle = work.enqueue()
    worker = work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert handle.result() == "done"
    worker.milestones.wait_for("settled")
    assert jobs.metrics.count("jobs_succeeded") == 1
    assert jobs.metrics.count("jobs_cancelled") == 0


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_cancellation_that_a_handler_swallowed_is_logged_counted_and_on_record(
    jobs, work_on, ended, counters, caplog, gate, colour
):
    if colour == "sync":

        @jobs.job
        def work():
            gate._reached.release()
            try:
                work_on_and_on()
            except JobStopped:
                return "done all the same"

    else:

        @jobs.job
        async def work():
            gate._reached.release()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return "done all the same"

    handle = work.enqueue()
    worker = work_on(jobs, lease_for=SHORT)
    gate.wait_for()
    jobs.cancel(handle.id)

    assert ended(jobs, handle) == ["completed"]
    (error,) = handle.record().errors
    told = "the job was cancelled while it ran: its handler was told to stop, and went on"
    assert (error.kind, error.message) == ("onward.errors.JobStopped", told)
    worker.milestones.wait_for("settled")
    assert counters(jobs) == {"jobs_fetched": 1, "jobs_succeeded": 1, "jobs_cancel_ignored": 1}
    assert f"job.cancel_ignored work {handle.id} attempt 1: {told}" in caplog.text


@pytest.mark.promise("F87")
def test_a_handler_that_does_not_listen_is_shown_as_asked_until_it_ends(jobs, work_on, gate, eventually):

    @jobs.job(interrupt=False)
    def work():
        gate.pass_through()

    handle = work.enqueue()
    worker = work_on(jobs, lease_for=SHORT)
    gate.wait_for()
    jobs.cancel(handle.id)
    renewed = worker.milestones.count("renewed")
    worker.milestones.wait_for("renewed", renewed + 2)

    record = handle.record()
    assert (record.state, record.cancel_requested) == ("executing", True)
    gate.open()
    eventually(lambda: handle.state() == "completed")


@pytest.mark.promise("F86")
def test_a_stale_request_hits_no_later_run(jobs, work_on, ended, gate):
    """Cancelled while it ran and lost its lease; then replayed: the new life runs in peace, in the same thread."""
    runs = []

    @jobs.job(max_retries=3, retry=NoDelay())
    def work(ctx: JobContext):
        runs.append(ctx.delivery)
        if ctx.delivery == 1:
            gate.pass_through()
            raise RuntimeError
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            assert not ctx.cancelled

    handle = work.enqueue()
    worker = work_on(jobs, concurrency=1)
    gate.wait_for()
    jobs.cancel(handle.id)
    gate.open()
    assert ended(jobs, handle) == ["cancelled"]
    assert jobs.retry(handle.id)
    for _ in range(20):
        worker._pump.wake()
        worker._session.renew()
    worker.milestones.wait_for("settled", 2)

    assert handle.state() == "completed"
    assert runs == [1, 2]


@shared
def test_another_process_can_cancel(jobs, url, clock, work_on, ended):

    @jobs.job
    def work():
        work_on_and_on()

    handle = work.enqueue()
    work_on(jobs, lease_for=SHORT).milestones.wait_for("claimed")
    with Onward(url, clock=clock) as other:
        assert other.handle(handle.id).cancel("from afar") is State.EXECUTING

    assert ended(jobs, handle) == ["cancelled"]
    assert handle.record().reason == "from afar"
