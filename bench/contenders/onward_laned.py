"""Onward with lanes and limits: the same jobs as ever, under one of `KINDS`, on the store that the bench names."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from bench.body import noop, payload
from bench.contenders.on_named_store import NamedStore
from onward import Limit, Onward

__all__ = ["KINDS"]

_store = NamedStore("laned")
reset, filled = _store.reset, _store.filled
CONFIGS = ("2 processes", "4 processes of 10 slots")


class _Kind(NamedTuple):
    """How many lanes, how many at once, and how long a job takes."""

    lanes: int = 0
    running: int | None = None
    ms: int = 0


PLAIN, TWO, HUNDRED = "plain", "2 lanes", "100 lanes"
ELSEWHERE = "plain, limits elsewhere"
KINDS = {
    PLAIN: _Kind(),
    ELSEWHERE: _Kind(),
    TWO: _Kind(lanes=2),
    HUNDRED: _Kind(lanes=100),
    "unlimited, 100 ms": _Kind(ms=100),
    "limit of 40, 100 ms": _Kind(running=40, ms=100),
    "unlimited, 20 ms": _Kind(ms=20),
    "limit of 40, 20 ms": _Kind(running=40, ms=20),
}


def _named() -> str:
    return os.environ["BENCH_KIND"]


@cache
def application() -> tuple[Onward, Any]:
    logging.disable(logging.WARNING)
    kind = KINDS[_named()]
    jobs = Onward(_store.url(), fair_by="user" if kind.lanes else None)
    limit = None if kind.running is None else Limit(running=kind.running)

    @jobs.job(limit=limit)
    def work(id: int, user: str) -> None:  # noqa: A002
        if kind.ms:
            time.sleep(kind.ms / 1000)
        noop({"id": id, "sent": 0})

    if _named() == ELSEWHERE:
        jobs.job(name="other", queue="elsewhere", limit=Limit(running=1))(lambda: None)
    return jobs, work


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return application()[0]
    raise AttributeError(name)


@contextmanager
def opened() -> Iterator[Any]:
    jobs, work = application()
    with jobs:
        yield work


def bulk(work: Any, n: int) -> None:
    lanes = KINDS[_named()].lanes or 1
    for start in range(0, n, 1000):
        numbers = range(start, min(n, start + 1000))
        work.enqueue_many([(number, f"user-{number % lanes}") for number in numbers])


def enqueue(work: Any, n: int) -> None:
    for number in range(n):
        work.enqueue(number, payload(number)["user"])


def processes(_config: str) -> int:
    return 1


def serve(config: str) -> None:
    slots = ["--processes", "4", "--concurrency", "10"] if config == CONFIGS[1] else ["--processes", "2"]
    options = ["worker", f"{__name__}:jobs", *slots, "--queues", "default", "--quiet"]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
