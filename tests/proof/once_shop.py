"""The application of `tests.proof.exactly_once`: a handler that kills its own process, once, at the step it is told to.

Run as a program, it is a nursery of workers: they are forks of a process that has imported everything, so that a new one
is at work a moment after another has died.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
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

_TERM = {signal.SIGTERM}

jobs = Onward(os.environ.get("ONCE_SHOP_URL", "memory://"), lease_for=5, max_crashes=1000)
_deaths = Path(
    os.environ.get("ONCE_SHOP_DEATHS", os.devnull)
)  # of those who were killed: a file with the order's number


@jobs.job
def charge(ctx: JobContext, order: int, dies: str | None) -> None:
    death = _deaths / str(order)
    if death.exists():
        dies = None
    _reach("before the block", dies, death)
    with ctx.transaction() as conn:
        conn.cursor().execute(f"INSERT INTO effects (label) VALUES ('{order}')")
        _reach("after the write", dies, death)
        conn.enqueue(receipt, order)
        _reach("after the child", dies, death)
        _die_around(conn._completion, dies, death)
        conn.complete(order)
    _reach("after the block", dies, death)


@jobs.job
def receipt(order: int) -> None:
    """What a charge enqueues."""


def _reach(step: str, dies: str | None, death: Path) -> None:
    if step == dies:
        death.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _die_around(completion: Any, dies: str | None, death: Path) -> None:
    settle, commit = completion.settle, completion.commit

    def settle_or_die(settlement: Any) -> Any:
        _reach("before the fence", dies, death)
        return settle(settlement)

    def commit_or_die() -> None:
        _reach("before the commit", dies, death)
        commit()
        _reach("after the commit", dies, death)

    completion.settle, completion.commit = settle_or_die, commit_or_die


def _nurse(workers: int) -> None:
    """Keep so many workers alive until told to stop; then stop them politely."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TERM | {signal.SIGCHLD})
    alive = {_bear() for _ in range(workers)}
    while signal.sigwait(_TERM | {signal.SIGCHLD}) == signal.SIGCHLD:
        while (dead := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            alive.remove(dead)
            alive.add(_bear())
    for pid in alive:
        os.kill(pid, signal.SIGTERM)
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in alive]
    sys.exit(any(ends))


def _bear() -> int:
    if pid := os.fork():
        return pid
    # No supervisor sees what had begun in this process: all that it had claimed counts as crashed, and a job that is blamed
    # seven times for the deaths of others waits for ten minutes.  So it claims one job at a time.
    with jobs.worker(concurrency=1, per_process={"default": 1}, shutdown_timeout=10):
        signal.sigwait(_TERM)
    jobs.close()
    os._exit(0)


if __name__ == "__main__":
    _nurse(int(sys.argv[1]))
