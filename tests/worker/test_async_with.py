"""`async with jobs.worker()`: started and stopped without blocking the event loop."""

import asyncio

import pytest


def test_a_worker_stops_while_the_event_loop_goes_on(jobs):
    """The handler ends only if the event loop of the program still turns: a stop that blocked it would never end."""

    async def program():
        began, go_on, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

        async def wait() -> None:
            began.set()
            await go_on.wait()

        @jobs.job
        def work() -> str:
            asyncio.run_coroutine_threadsafe(wait(), loop).result(30)
            return "done"

        handle = await work.aenqueue()
        async with jobs.worker() as worker:
            assert worker.running
            await began.wait()
            loop.call_soon(go_on.set)  # which happens while the worker is being stopped
        return worker, handle

    worker, handle = asyncio.run(program())

    assert not worker.running
    assert handle.result() == "done"


def test_what_the_block_raises_is_raised_after_the_stop(jobs):
    seen = []

    async def program():
        async with jobs.worker() as worker:
            seen.append(worker)
            raise LookupError("the program failed")

    with pytest.raises(LookupError):
        asyncio.run(program())

    assert not seen[0].running
