"""Onward with one very large chord: the same jobs as ever, plain or as the members of a flow, on the store that is named."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from bench.body import noop
from bench.contenders.on_named_store import NamedStore
from onward import Onward

__all__ = ["CHORD", "PLAIN"]

PLAIN, CHORD = "plain", "one chord"
_store = NamedStore("chord")
reset, filled = _store.reset, _store.filled
_CHUNK = 1_000


@cache
def application() -> tuple[Onward, Any, Any]:
    logging.disable(logging.WARNING)
    jobs = Onward(_store.url())

    @jobs.job
    def work(id: int) -> None:  # noqa: A002
        noop({"id": id, "sent": 0})

    @jobs.job
    def last() -> None:
        """Come after all of them."""

    return jobs, work, last


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return application()[0]
    raise AttributeError(name)


@contextmanager
def opened() -> Iterator[Any]:
    jobs, work, _ = application()
    with jobs:
        yield work


def bulk(work: Any, n: int) -> None:
    jobs, _, last = application()
    if os.environ["BENCH_KIND"] == CHORD:
        with jobs.batch("chord", on_success=last.call()) as batch:
            batch.add_many(work, ((number,) for number in range(n)))
        return
    for start in range(0, n, _CHUNK):
        work.enqueue_many([(number,) for number in range(start, min(n, start + _CHUNK))])


def enqueue(work: Any, n: int) -> None:
    for number in range(n):
        work.enqueue(number)


def processes(_config: str) -> int:
    return 1


def serve(_config: str) -> None:
    options = ["worker", f"{__name__}:jobs", "--processes", "2", "--quiet"]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
