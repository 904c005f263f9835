"""Onward on Redis at its defaults: its worker inside a program, and `onward worker`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from bench.body import flaky, noop, payload
from bench.contenders import aio, on_redis
from onward import NoDelay, Onward

# Processes of `onward worker`, none: inside this program; and whether finished jobs are kept.
CONFIGS = {
    "in a program": (0, True),
    "2 processes": (2, True),
    "2 processes, retention 0": (2, False),
    "1 process": (1, True),
}
SMALL = "2 processes"


@cache
def application() -> tuple[Onward, Any, Any]:
    logging.disable(logging.WARNING)  # a line for every failure, which nobody else writes here
    retention = {"completed": 0} if os.environ.get("BENCH_RETENTION") == "0" else {}
    jobs = Onward(on_redis.url(), retention=retention)

    @jobs.job
    def work(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        noop({"id": id, "user": user, "kind": kind, "sent": sent})

    @jobs.job(name="flaky", max_retries=3, retry=NoDelay())
    def fails_once(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        flaky({"id": id, "user": user, "kind": kind, "sent": sent})

    return jobs, work, fails_once


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return application()[0]
    raise AttributeError(name)


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[Any]:
    yield application()[1]


def enqueue(job: Any, n: int) -> None:
    for number in range(n):
        job.enqueue(**payload(number))


def bulk(job: Any, n: int) -> None:
    for start in range(0, n, aio.BATCH):
        numbers = range(start, min(n, start + aio.BATCH))
        job.enqueue_many([tuple(payload(number).values()) for number in numbers])


def bulk_flaky(_: Any, n: int) -> None:
    bulk(application()[2], n)


@contextmanager
def sender() -> Iterator[Any]:
    work = application()[1]
    yield lambda sent: work.enqueue(**payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    count, keep = CONFIGS[config]
    if not keep:
        os.environ["BENCH_RETENTION"] = "0"
    if not count:
        application()[0].worker().start().wait()
    options = ["worker", "bench.contenders.onward_redis:jobs", "--processes", str(count), "--quiet"]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
