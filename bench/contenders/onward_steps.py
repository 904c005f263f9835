"""Onward with steps and with fair tenants: what the bench names, on the store that it names."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from bench.body import noop
from bench.contenders.on_named_store import NamedStore
from onward import JobContext, Onward

__all__ = ["FEW", "MANY", "PLAIN", "STEPS"]

PLAIN, STEPS = "plain", "three steps"
FEW, MANY = "beside 20,000 of another tenant", "beside 200,000 of another tenant"
CONFIGS = ("2 processes",)
_CROWDS = {FEW: 20_000, MANY: 200_000}
_store = NamedStore("steps")
reset, filled = _store.reset, _store.filled
_CHUNK = 1_000
_WORK = 0.005  # seconds that a tenant's job takes


class _Application:
    def __init__(self) -> None:
        logging.disable(logging.WARNING)
        self.jobs = Onward(_store.url(), fair_by="tenant")

        @self.jobs.job
        def plain(id: int) -> None:  # noqa: A002
            noop({"id": id, "sent": 0})

        @self.jobs.job
        def stepped(ctx: JobContext, id: int) -> None:  # noqa: A002
            for number in range(3):
                ctx.step(f"step-{number}", int, number)
            noop({"id": id, "sent": 0})

        @self.jobs.job
        def serve(tenant: str, sent: int) -> None:
            if sent:
                noop({"id": 0, "sent": sent})
            time.sleep(_WORK)

        self.plain, self.stepped, self.serve = plain, stepped, serve


@cache
def application() -> _Application:
    return _Application()


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return application().jobs
    raise AttributeError(name)


@contextmanager
def opened() -> Iterator[Any]:
    with application().jobs:
        yield application()


def bulk(app: _Application, n: int) -> None:
    """So many jobs that count, or the crowd of the big tenant where the small one's waits are measured."""
    kind = os.environ["BENCH_KIND"]
    if kind in _CROWDS:
        for _ in range(0, _CROWDS[kind], _CHUNK):
            app.serve.enqueue_many([("big", 0)] * _CHUNK)
        return
    work = app.stepped if kind == STEPS else app.plain
    for start in range(0, n, _CHUNK):
        work.enqueue_many([(number,) for number in range(start, min(n, start + _CHUNK))])


def enqueue(app: _Application, n: int) -> None:
    for number in range(n):
        app.plain.enqueue(number)


@contextmanager
def sender() -> Iterator[Any]:
    with application().jobs:
        yield lambda sent: application().serve.enqueue("small", sent)


def processes(_config: str) -> int:
    return 1


def serve(_config: str) -> None:
    options = ["worker", f"{__name__}:jobs", "--processes", "2", "--quiet"]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
