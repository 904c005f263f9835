"""Huey on Redis, results off.  It takes a job off the queue before running it: a crash loses it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huey import RedisHuey

from bench.body import flaky, noop, payload
from bench.contenders import on_redis

# The kind of its workers, how many of them, and how many such processes.
CONFIGS = {
    "2 processes, 4 threads": ("thread", 4, 2),
    "1 process, 2 worker processes": ("process", 2, 1),
    "2 processes, 1 thread": ("thread", 1, 2),
}

huey = RedisHuey("bench", url=on_redis.url(), results=False)


@huey.task(name="work")
def work(job: dict[str, Any]) -> None:
    noop(job)


@huey.task(name="flaky", retries=2, retry_delay=0)
def fails_once(job: dict[str, Any]) -> None:
    flaky(job)


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[None]:
    yield


def enqueue(_: None, n: int) -> None:
    for number in range(n):
        work(payload(number))


def bulk_flaky(_: None, n: int) -> None:
    for number in range(n):
        fails_once(payload(number))


@contextmanager
def sender() -> Iterator[Any]:
    yield lambda sent: work(payload(1, sent))


def processes(config: str) -> int:
    return CONFIGS[config][2]


def serve(config: str) -> None:
    kind, workers, _ = CONFIGS[config]
    script = os.path.join(os.path.dirname(sys.executable), "huey_consumer")  # noqa: PTH118, PTH120
    options = ["-k", kind, "-w", str(workers), "-q", "-n"]
    os.execv(sys.executable, [sys.executable, script, "bench.contenders.huey_redis.huey", *options])  # noqa: S606
