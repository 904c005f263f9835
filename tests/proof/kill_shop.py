"""The application of `tests.proof.kills`: every run leaves a line in a log when it begins."""

from __future__ import annotations

import asyncio
import os
import time

from onward import JobContext, NoDelay
from tests.proof.faults import LossyOnward

__all__ = ["LEASE", "jobs"]

LEASE = 2.0

jobs = LossyOnward(os.environ.get("KILL_SHOP_URL", "memory://"), lease_for=LEASE, max_crashes=1000)


def _note(ctx: JobContext) -> None:
    with open(os.environ["KILL_SHOP_LOG"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(f"{ctx.id} {ctx.delivery}\n".encode())  # in one go: whole lines, beside other writers


@jobs.job
def quick(ctx: JobContext) -> None:
    _note(ctx)


@jobs.job
def slow(ctx: JobContext) -> None:
    _note(ctx)
    time.sleep(0.05)


@jobs.job
async def waits(ctx: JobContext) -> None:
    _note(ctx)
    await asyncio.sleep(0.02)


@jobs.job(max_retries=1, retry=NoDelay())
def fails_once(ctx: JobContext) -> None:
    _note(ctx)
    if ctx.attempt == 1:
        raise ValueError("as it should")


@jobs.job(isolation="process")
def alone(ctx: JobContext) -> None:
    _note(ctx)
