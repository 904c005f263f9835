"""Hooks around the attempts of a worker: in the handler's own thread, and in its own task."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from onward import JobContext


@pytest.mark.promise("S51")
def test_a_hook_runs_in_the_thread_of_its_handler(jobs, work_on, ended):
    seen = []

    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        seen.append(threading.get_ident())
        yield
        seen.append(threading.get_ident())

    @jobs.job
    def work() -> None:
        seen.append(threading.get_ident())

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert len(set(seen)) == 1
    assert seen[0] != threading.get_ident()


@pytest.mark.promise("S51")
def test_a_hook_runs_in_the_task_of_its_handler(jobs, work_on, ended):
    seen = []

    @jobs.around
    async def hook(ctx: JobContext) -> AsyncIterator[None]:
        seen.append(asyncio.current_task())
        yield
        seen.append(asyncio.current_task())

    @jobs.job
    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["completed"]
    assert len(set(seen)) == 1


@pytest.mark.promise("S52")
def test_a_cancellation_unwinds_the_hooks(jobs, work_on, ended, eventually):
    began, seen = threading.Semaphore(0), []

    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(type(error).__name__)
            raise
        finally:
            seen.append("left")

    @jobs.job
    def work() -> None:
        began.release()
        while True:
            threading.Event().wait(0.005)

    @jobs.job
    async def awork() -> None:
        began.release()
        await asyncio.sleep(3600)

    work_on(jobs, lease_for=0.3)
    for job, told in ((work, "JobStopped"), (awork, "CancelledError")):
        handle = job.enqueue()
        assert began.acquire(timeout=20)
        handle.cancel()

        assert ended(jobs, handle) == ["cancelled"]
        assert seen == [told, "left"]
        seen.clear()


@pytest.mark.promise("S52")
def test_a_time_out_is_raised_in_a_hook_too(jobs, work_on, ended):
    seen = []

    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        yield
        try:
            while True:
                threading.Event().wait(0.005)
        finally:
            seen.append("left")

    @jobs.job(timeout=0.1)
    def work() -> None:
        seen.append("run")

    handle = work.enqueue()
    work_on(jobs)

    assert ended(jobs, handle) == ["discarded"]
    assert seen == ["run", "left"]
    assert handle.record().errors[-1].kind.endswith("JobTimeout")


def test_the_failure_of_a_hook_ends_no_worker(jobs, work_on, ended):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        if ctx.meta.get("bad"):
            raise SystemExit(3)
        yield

    @jobs.job
    def work() -> str:
        return "done"

    worker = work_on(jobs)
    bad, good = work.using(meta={"bad": True}).enqueue(), work.enqueue()

    assert ended(jobs, bad, good) == ["discarded", "completed"]
    assert worker.running
