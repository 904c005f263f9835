"""The application of `tests.proof.limits`: every run leaves a line in a log when it begins and when it ends.

Its stores lose one answer in fifty (`tests.proof.faults`).
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from onward import JobContext, Limit, NoDelay, Onward
from tests.proof.faults import LossyOnward

__all__ = ["MOST", "RATE", "Shop", "jobs", "shop"]

MOST = 5
RATE = "100/s"


jobs = LossyOnward(os.environ.get("KILL_SHOP_URL", "memory://"), lease_for=2.0, max_crashes=1000)


def _note(ctx: JobContext, sign: str) -> None:
    line = f"{sign} {ctx.id} {ctx.delivery} {time.time_ns() // 1000}\n"
    with open(os.environ["KILL_SHOP_LOG"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(line.encode())  # in one go: whole lines, beside other writers


def limited(ctx: JobContext, ms: int, fails: bool) -> None:
    """Run for a while.  On one machine its clock is the clock of every store."""
    _note(ctx, "+")
    time.sleep(ms / 1000)
    _note(ctx, "-")
    if fails and ctx.attempt == 1:
        raise ValueError("as it should")


def paced() -> None:
    """Start.  When it was claimed, the store knows."""


class Shop(NamedTuple):
    """The jobs of one application."""

    limited: Any
    paced: Any


def shop(app: Onward) -> Shop:
    """Give an application the jobs: the one that runs them, and the one that enqueues them."""
    return Shop(
        limited=app.job(limit=Limit(running=MOST), max_retries=1, retry=NoDelay())(limited),
        paced=app.job(limit=Limit(rate=RATE))(paced),
    )


shop(jobs)
