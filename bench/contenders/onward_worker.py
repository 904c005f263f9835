"""`onward worker`: the supervisor and its processes, at their defaults."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from bench.body import FOLDER, flaky, noop, payload
from onward import NoDelay, Onward

CONFIGS = {"1 process": 1, "2 processes": 2}
SMALL = "2 processes"

FILE = FOLDER / "onward.db"


@cache
def application() -> tuple[Onward, Any, Any]:
    logging.disable(logging.WARNING)  # the notice about old SQLite libraries
    jobs = Onward(f"sqlite:///{FILE}")

    @jobs.job
    def work(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        noop({"id": id, "user": user, "kind": kind, "sent": sent})

    @jobs.job(name="flaky", max_retries=3, retry=NoDelay())
    def fails_once(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        flaky({"id": id, "user": user, "kind": kind, "sent": sent})

    return jobs, work, fails_once


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker; not before: whoever resets must not have the file open."""
    if name == "jobs":
        return application()[0]
    raise AttributeError(name)


def reset() -> None:
    for file in FOLDER.glob("onward.db*"):
        file.unlink()


@contextmanager
def opened() -> Iterator[Any]:
    yield application()[1]


def enqueue(job: Any, n: int) -> None:
    for number in range(n):
        job.enqueue(**payload(number))


def bulk(job: Any, n: int) -> None:
    for start in range(0, n, 1000):
        job.enqueue_many([tuple(payload(number).values()) for number in range(start, min(n, start + 1000))])


def bulk_flaky(_: Any, n: int) -> None:
    bulk(application()[2], n)


@contextmanager
def sender() -> Iterator[Any]:
    work = application()[1]
    yield lambda sent: work.enqueue(**payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    options = ["worker", "bench.contenders.onward_worker:jobs", "--processes", str(CONFIGS[config]), "--quiet"]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
