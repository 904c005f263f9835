"""Flows and batches on an event loop: waiting for them and filling them blocks nothing."""

import asyncio
import threading

import pytest

from onward import FlowError, Onward, OptionError
from onward.errors import ArgumentError, NoWorker, ResultTimeout


@pytest.fixture(params=["memory", "sqlite"])
def jobs(request, tmp_path):
    with Onward("memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}") as jobs:
        yield jobs


@pytest.fixture
def ran():
    return []


@pytest.fixture
def note(jobs, ran):
    @jobs.job
    def note(number: int) -> int:
        ran.append(number)
        return number

    return note


# Waiting


def test_the_loop_goes_on_while_a_flow_is_awaited(jobs, note):
    begun, go = threading.Event(), threading.Event()

    @jobs.job
    def blocked() -> None:
        begun.set()
        assert go.wait(30)

    async def program():
        handle = await jobs.chain(note.call(1), blocked.call()).aenqueue()
        waiting = asyncio.create_task(handle.await_(30))
        assert await asyncio.to_thread(begun.wait, 30)
        assert not waiting.done()
        go.set()  # if waiting blocked the loop, this line would never run
        return await waiting

    with jobs.worker(concurrency=1):
        assert asyncio.run(program()) == "completed"


def test_a_flow_that_is_not_over_in_time(jobs, note):
    jobs.pause("default")
    handle = jobs.chain(note.call(1)).enqueue()

    with jobs.worker(concurrency=1), pytest.raises(ResultTimeout, match=r"is not over after 0\.05 s"):
        asyncio.run(handle.await_(0.05))


def test_no_worker_could_end_it():
    with Onward("memory://") as jobs:
        handle = jobs.chain(jobs.job(name="noop")(lambda: None).call()).enqueue()

        with pytest.raises(NoWorker, match=r"call jobs\.drain\(\)"):
            asyncio.run(handle.await_(1))


@pytest.mark.parametrize("timeout", ["x", "1m", True, [1], float("nan")])
def test_a_timeout_is_a_number_of_seconds(jobs, note, timeout):
    flow, job = jobs.chain(note.call(1)).enqueue(), note.enqueue(2)
    waits = [
        lambda: flow.wait(timeout),
        lambda: asyncio.run(flow.await_(timeout)),
        lambda: job.result(timeout),
        lambda: asyncio.run(job.aresult(timeout)),
        lambda: jobs.results([job], timeout),
    ]

    for wait in waits:
        with pytest.raises(OptionError, match="timeout must be a number of seconds, or None to wait for ever, not"):
            wait()


# Batches


def test_a_batch_is_filled_without_blocking_the_loop(jobs, note, ran, caplog):
    storing = set()
    store = jobs.backend.enqueue

    def watched(envelopes, **options):
        storing.add(threading.current_thread())
        return store(envelopes, **options)

    jobs.client._commit._enqueue = watched

    async def fill():
        async with jobs.batch("import", on_success=note.call(-1)) as batch:
            await batch.aadd_many(note, ((number,) for number in range(2_100)))
            await batch.aadd(note, 2_100)
            await batch.aadd(note.call(number=2_101))
        return batch.handle

    handle = asyncio.run(fill())
    jobs.drain()

    assert storing
    assert threading.main_thread() not in storing
    assert "blocks the running event loop" not in caplog.text
    assert (sorted(ran[:-1]), ran[-1]) == (list(range(2_102)), -1)
    assert handle.state() == "completed"


@pytest.mark.parametrize("count", [10, 1_500])
def test_an_async_block_that_raises_cancels_its_batch(jobs, note, ran, count):
    async def fill():
        async with jobs.batch("broken", on_finish=note.call(-1)) as batch:
            await batch.aadd_many(note, ((number,) for number in range(count)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fill())
    jobs.drain()

    assert ran == []
    assert [flow.state for flow in jobs.flows.list()] == (["cancelled"] if count > 1_000 else [])


def test_a_task_that_is_cancelled_while_it_stores_leaves_a_cancelled_batch(jobs, note, ran):
    """Its thread goes on and stores the first chunk: the end of the block waits for it, and cancels what it stored."""
    begun, go = threading.Event(), threading.Event()
    store = jobs.backend.enqueue

    def slow(envelopes, **options):
        begun.set()
        assert go.wait(30)
        return store(envelopes, **options)

    jobs.client._commit._enqueue = slow

    async def fill():
        async with jobs.batch("cut") as batch:
            await batch.aadd_many(note, ((number,) for number in range(1_000)))

    async def program():
        task = asyncio.create_task(fill())
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.sleep(0)  # the task has its exception, and leaves its block
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
    jobs.drain()

    assert ran == []
    assert [(flow.state, flow.is_open) for flow in jobs.flows.list()] == [("cancelled", False)]


def test_jobs_are_added_inside_the_async_block_only(jobs, note):
    async def misuse():
        batch = jobs.batch("closed")
        with pytest.raises(FlowError, match="not open"):
            await batch.aadd(note, 1)
        async with batch:
            pass
        with pytest.raises(FlowError, match="closed"):
            await batch.aadd_many(note, [(1,)])
        with pytest.raises(FlowError, match="filled already"):
            async with batch:
                pass
        with pytest.raises(ArgumentError, match=r"go into a call: note\.call\(number=…\)"):
            await jobs.batch("named").aadd(note, number=1)

    asyncio.run(misuse())
    assert jobs.list() == []
