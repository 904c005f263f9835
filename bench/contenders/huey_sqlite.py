"""Huey on SQLite with the options its manual gives for speed; it polls every 10 ms here instead of 100.

It takes a job off the queue before running it: a crash loses it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huey import SqliteHuey

from bench.body import FOLDER, flaky, noop, payload

SMALL = "process, 2 workers"
CONFIGS = {"process, 2 workers": ("process", 2), "thread, 1 worker": ("thread", 1), "thread, 4 workers": ("thread", 4)}

huey = SqliteHuey("bench", filename=str(FOLDER / "huey.db"), results=False)


@huey.task(name="work")
def work(job: dict[str, Any]) -> None:
    noop(job)


@huey.task(name="flaky", retries=2, retry_delay=0)
def fails_once(job: dict[str, Any]) -> None:
    flaky(job)


def bulk_flaky(_: None, n: int) -> None:
    for number in range(n):
        fails_once(payload(number))


def reset() -> None:
    huey.flush()


@contextmanager
def opened() -> Iterator[None]:
    yield


def enqueue(_: None, n: int) -> None:
    for number in range(n):
        work(payload(number))


@contextmanager
def sender() -> Iterator[Any]:
    yield lambda sent: work(payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    kind, workers = CONFIGS[config]
    script = os.path.join(os.path.dirname(sys.executable), "huey_consumer")  # noqa: PTH118, PTH120
    options = ["-k", kind, "-w", str(workers), "-d", "0.01", "-m", "0.01", "-q", "-n"]
    os.execv(sys.executable, [sys.executable, script, "bench.contenders.huey_sqlite.huey", *options])  # noqa: S606
