"""A job with steps, a sleep and a wait goes through its life on every store."""

from datetime import timedelta
from typing import Any

import pytest

from onward import AsyncJobContext, JobContext, NoDelay
from onward.security.key_ring import KeyRing
from tests.application.every_store import redis_server, store, url  # noqa: F401

RING = KeyRing.parse(f"k1:{'secret-' * 6}")


def settle(jobs, clock, handle):
    """Let it fail, go on, sleep, wait, and be told."""
    jobs.drain()
    assert jobs.get(handle.id).available_at == clock.now() + timedelta(hours=1)
    clock.advance(3600)
    jobs.drain()
    assert jobs.get(handle.id).waiting_for == "approved"
    clock.advance(1)
    assert jobs.signal(handle.id, "approved", {"by": "Änn"}) is True
    assert jobs.signal(handle.id, "approved", "too late") is False
    jobs.drain()
    assert jobs.signal(handle.id, "approved", "over") is False


@pytest.mark.promise("S62", "S66", "S67")
@pytest.mark.parametrize("encryption", [False, True])
def test_a_job_goes_on_where_it_was(open_app, clock, encryption):
    jobs = open_app(signing_keys=RING, signing="require", encryption=encryption)
    calls = []

    def effect(value: Any) -> Any:
        calls.append(value)
        return value

    @jobs.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> Any:
        found = ctx.step("größe", effect, {"n": [1, None, "ü"]})
        if ctx.attempt == 1:
            raise ConnectionError
        ctx.sleep("nap", "1h")
        return [found, ctx.wait_for("approved", timeout="1d")]

    handle = work.enqueue()
    settle(jobs, clock, handle)

    assert handle.result() == [{"n": [1, None, "ü"]}, {"by": "Änn"}]
    assert calls == [{"n": [1, None, "ü"]}]
    assert [(note.kind, note.name) for note in jobs.notes(handle.id)] == [
        ("step", "größe"),
        ("sleep", "nap"),
        ("wait", "approved"),
        ("signal", "approved"),
    ]
    clock.advance(60)
    assert jobs.prune(older_than=1) == 1
    assert jobs.notes(handle.id) == []


@pytest.mark.promise("S62", "S66", "S67")
def test_so_does_an_async_one(open_app, clock):
    jobs = open_app()
    calls = []

    async def effect(value: int) -> int:
        calls.append(value)
        return value

    @jobs.job(max_retries=1, retry=NoDelay())
    async def work(ctx: AsyncJobContext) -> Any:
        found = await ctx.step("step", effect, 1)
        if ctx.attempt == 1:
            raise ConnectionError
        await ctx.sleep("nap", "1h")
        return [found, await ctx.wait_for("approved", timeout="1d")]

    handle = work.enqueue()
    settle(jobs, clock, handle)

    assert handle.result() == [1, {"by": "Änn"}]
    assert calls == [1]
