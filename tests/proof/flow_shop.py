"""The application of `tests.proof.flows`: every run leaves a line in a log when it begins and when it ends."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, NamedTuple

from onward import Discard, JobContext, NoDelay, Onward

__all__ = ["GROWN", "LEASE", "Shop", "jobs", "shop"]

LEASE = 3.0
GROWN = 2  # jobs that one job adds

jobs = Onward(os.environ.get("KILL_SHOP_URL", "memory://"), lease_for=LEASE, max_crashes=1000)


def _note(ctx: JobContext, sign: str, *words: object) -> None:
    line = " ".join(map(str, (sign, ctx.id, ctx.delivery, *words)))
    with open(os.environ["KILL_SHOP_LOG"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(f"{line}\n".encode())  # in one go: whole lines, beside other writers


class Shop(NamedTuple):
    step: Any
    grow: Any
    last: Any


def shop(onward: Onward) -> Shop:
    """Register the jobs of the shop, for workers and for the client that enqueues them."""

    @onward.job(max_retries=1, retry=NoDelay())
    def step(ctx: JobContext, number: int, does: str) -> int:
        _note(ctx, "+")
        if does == "crash" and ctx.delivery == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if does == "slow":
            time.sleep(0.02)
        _note(ctx, "-")
        if does == "fail":
            raise Discard("as it should")
        if does == "stumble" and ctx.attempt == 1:
            raise ValueError("as it should")
        return number

    @onward.job(max_retries=0)
    def grow(ctx: JobContext, node: str) -> int:
        _note(ctx, "+")
        ctx.flow.map(step, [(number, "succeed") for number in range(GROWN)], node=node)
        _note(ctx, "-")
        return GROWN

    @onward.job(max_retries=0)
    def last(ctx: JobContext, nodes: list[str]) -> int:
        _note(ctx, "+")
        for node in nodes:
            _note(ctx, "=", node, sum(1 for _ in ctx.results_of(node)))
        _note(ctx, "-")
        return len(nodes)

    return Shop(step, grow, last)


shop(jobs)
