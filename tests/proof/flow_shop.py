"""The application of `tests.proof.flows` and `chords`: runs leave lines in a log when they begin and when they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from onward import Discard, JobContext, NoDelay, Onward
from onward.errors import BackendUnavailable

__all__ = ["GROWN", "LEASE", "Shop", "jobs", "shop"]

T = TypeVar("T")

LEASE = 3.0
GROWN = 2  # jobs that one job adds

jobs = Onward(os.environ.get("KILL_SHOP_URL", "memory://"), lease_for=LEASE, max_crashes=1000)


def _note(ctx: JobContext, sign: str, *words: object) -> None:
    line = " ".join(map(str, (sign, ctx.id, ctx.delivery, *words)))
    with open(os.environ["KILL_SHOP_LOG"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(f"{line}\n".encode())  # in one go: whole lines, beside other writers


def _act(ctx: JobContext, does: str) -> None:
    if does == "crash" and ctx.delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "slow":
        time.sleep(0.02)


def _fail(ctx: JobContext, does: str) -> None:
    if does == "fail":
        raise Discard("as it should")
    if does == "stumble" and ctx.attempt == 1:
        raise ValueError("as it should")


def _patiently(act: Callable[[], T]) -> T:
    """Try again while the server is away: a run is not to fail because it was killed."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return act()
        except BackendUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Shop(NamedTuple):
    step: Any
    grow: Any
    last: Any
    member: Any
    done: Any


def shop(onward: Onward) -> Shop:
    """Register the jobs of the shop, for workers and for the client that enqueues them."""

    @onward.job(max_retries=1, retry=NoDelay())
    def step(ctx: JobContext, number: int, does: str) -> int:
        _note(ctx, "+")
        _act(ctx, does)
        _note(ctx, "-")
        _fail(ctx, does)
        return number

    @onward.job(max_retries=0)
    def grow(ctx: JobContext, node: str) -> int:
        _note(ctx, "+")
        for number in range(GROWN):
            _patiently(lambda: ctx.flow.add(step, number, "succeed", node=node, key=f"{ctx.id}-{number}"))  # noqa: B023
        _note(ctx, "-")
        return GROWN

    @onward.job(max_retries=0)
    def last(ctx: JobContext, nodes: list[str]) -> int:
        _note(ctx, "+")
        for node in nodes:
            _note(ctx, "=", node, _patiently(lambda: sum(1 for _ in ctx.results_of(node))))  # noqa: B023
        _note(ctx, "-")
        return len(nodes)

    @onward.job
    def member(number: int) -> int:
        return number

    @onward.job(max_retries=0)
    def done(ctx: JobContext) -> None:
        _note(ctx, "+")

    return Shop(step, grow, last, member, done)


shop(jobs)
