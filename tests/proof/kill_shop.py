"""The application of `tests.proof.kills`: every run leaves a line in a log when it begins."""

from __future__ import annotations

import asyncio
import os
import time

from onward import JobContext, NoDelay, Onward

__all__ = ["LEASE", "jobs"]

LEASE = 2.0

jobs = Onward(os.environ["KILL_SHOP_URL"], lease_for=LEASE, max_crashes=1000)
_log = os.open(os.environ["KILL_SHOP_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _note(ctx: JobContext) -> None:
    os.write(_log, f"{ctx.id} {ctx.delivery}\n".encode())  # one write: whole lines, whoever else writes


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
