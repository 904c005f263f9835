"""The application of `tests.proof.exactly_once`: a handler that kills its own process, once, at the step it is told to."""

from __future__ import annotations

import os
import signal
from typing import Any

from onward import JobContext, Onward

__all__ = ["STEPS", "charge", "jobs", "receipt"]

STEPS = (
    "before the block",
    "after the write",
    "after the child",
    "before the fence",
    "before the commit",
    "after the commit",
    "after the block",
)

jobs = Onward(os.environ.get("ONCE_SHOP_URL", "memory://"), lease_for=5, max_crashes=1000)


@jobs.job
def charge(ctx: JobContext, order: int, dies: str | None) -> None:
    dies = dies if ctx.delivery == 1 else None
    _reach("before the block", dies)
    with ctx.transaction() as conn:
        conn.cursor().execute(f"INSERT INTO effects (label) VALUES ('{order}')")
        _reach("after the write", dies)
        conn.enqueue(receipt, order)
        _reach("after the child", dies)
        _die_around(conn._completion, dies)
        conn.complete(order)
    _reach("after the block", dies)


@jobs.job
def receipt(order: int) -> None:
    """What a charge enqueues."""


def _reach(step: str, dies: str | None) -> None:
    if step == dies:
        os.kill(os.getpid(), signal.SIGKILL)


def _die_around(completion: Any, dies: str | None) -> None:
    settle, commit = completion.settle, completion.commit

    def settle_or_die(settlement: Any) -> Any:
        _reach("before the fence", dies)
        return settle(settlement)

    def commit_or_die() -> None:
        _reach("before the commit", dies)
        commit()
        _reach("after the commit", dies)

    completion.settle, completion.commit = settle_or_die, commit_or_die
