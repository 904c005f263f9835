"""The application of `tests.proof.limits`: every run leaves a line in a log when it begins and when it ends.

Its stores lose one answer in fifty.  A worker that gets none adopts its own leases under a new session.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from onward import JobContext, Limit, NoDelay, Onward
from onward.backend import Backend
from onward.errors import BackendUnavailable
from onward.worker.options import WorkerParts

__all__ = ["MOST", "RATE", "Shop", "jobs", "shop"]

MOST = 5
RATE = "100/s"
_LOST = 0.02


class LossyOnward(Onward):
    """Loses some of the answers that its workers wait for: what they asked for was done."""

    def parts(self, **options: Any) -> WorkerParts:
        parts = super().parts(**options)
        if "KILL_SHOP_LOSES" in os.environ:
            _lose_answers(parts.backend)
        return parts


def _lose_answers(backend: Backend) -> None:
    dice, lock = random.Random(os.getpid()), threading.Lock()

    def lossy(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            answer = verb(*args, **options)
            with lock:
                lost = dice.random() < _LOST
            if lost:
                raise BackendUnavailable("the answer was lost")
            return answer

        return call

    for name in ("turn", "open_session", "extend"):
        setattr(backend, name, lossy(getattr(backend, name)))


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
