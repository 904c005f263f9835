"""Steps in a worker that runs: sleeping and waiting hold nothing, and a signal wakes the job that waits."""

from typing import Any

import pytest

from onward import AsyncJobContext, JobContext


@pytest.fixture
def waiting(jobs):
    @jobs.job(name="waiting")
    def waiting(ctx: JobContext) -> Any:
        ctx.step("before", int)
        return ctx.wait_for("go", timeout="1d")

    @jobs.job(name="waiting_async")
    async def waiting_async(ctx: AsyncJobContext) -> Any:
        await ctx.step("before", int)
        return await ctx.wait_for("go", timeout="1d")

    return waiting, waiting_async


@pytest.mark.promise("S67")
def test_a_signal_wakes_the_job_that_waits_for_it(jobs, waiting, work_on, eventually):
    worker = work_on(jobs)
    handles = [job.enqueue() for job in waiting for _ in range(3)]
    worker.milestones.wait_for("settled", 6)
    eventually(lambda: all(jobs.get(handle.id).waiting_for == "go" for handle in handles))
    for number, handle in enumerate(handles):
        assert jobs.signal(handle.id, "go", number)

    worker.milestones.wait_for("settled", 12)
    assert [handle.result() for handle in handles] == list(range(6))


@pytest.mark.promise("S66")
def test_jobs_that_sleep_leave_their_slots_to_others(jobs, work_on, clock):
    @jobs.job(name="sleeping")
    def sleeping(ctx: JobContext) -> str:
        ctx.sleep("nap", "1h")
        return "awake"

    @jobs.job(name="plain")
    def plain() -> str:
        return "done"

    sleepers = [sleeping.enqueue() for _ in range(20)]
    worker = work_on(jobs, concurrency=1)
    worker.milestones.wait_for("settled", 20)
    done = plain.enqueue()
    worker.milestones.wait_for("settled", 21)
    assert done.result() == "done"
    assert jobs.counts()["scheduled"] == 20
    assert [session.leases for session in jobs.backend.sessions()] == [0]

    clock.advance(3600)
    worker._pump.wake()
    worker.milestones.wait_for("settled", 41)
    assert {handle.result() for handle in sleepers} == {"awake"}


@pytest.mark.promise("S65")
def test_a_step_that_ends_its_thread_is_a_failed_run_and_no_more(jobs, work_on):
    def leave() -> None:
        raise SystemExit(3)

    @jobs.job(name="leaving", max_retries=0)
    def leaving(ctx: JobContext) -> None:
        ctx.step("leave", leave)

    @jobs.job(name="fine")
    def fine(ctx: JobContext) -> int:
        return ctx.step("fine", int)

    left = leaving.enqueue()
    worker = work_on(jobs, concurrency=1)
    worker.milestones.wait_for("settled")
    assert jobs.get(left.id).errors[0].kind == "SystemExit"
    handle = fine.enqueue()
    worker.milestones.wait_for("settled", 2)
    assert handle.result() == 0
    assert worker.running
