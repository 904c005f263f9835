"""Dramatiq: it acknowledges a job when it has run, and has no bulk interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.body import flaky, noop, payload
from bench.contenders import on_redis

# Processes, threads, and how many jobs are fetched at a time.
CONFIGS = {"2 processes, 1 thread, prefetch 100": (2, 1, 100), "2 processes, 4 threads, prefetch 200": (2, 4, 200)}

dramatiq.set_broker(RedisBroker(url=on_redis.url()))


@dramatiq.actor(actor_name="work")
def work(job: dict[str, Any]) -> None:
    noop(job)


@dramatiq.actor(actor_name="flaky", max_retries=3, min_backoff=1, max_backoff=1)
def fails_once(job: dict[str, Any]) -> None:
    flaky(job)


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[None]:
    yield


def enqueue(_: None, n: int) -> None:
    for number in range(n):
        work.send(payload(number))


def bulk_flaky(_: None, n: int) -> None:
    for number in range(n):
        fails_once.send(payload(number))


@contextmanager
def sender() -> Iterator[Any]:
    yield lambda sent: work.send(payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    count, threads, prefetch = CONFIGS[config]
    os.environ["dramatiq_queue_prefetch"] = str(prefetch)  # noqa: SIM112  that is its name
    options = ["-p", str(count), "-t", str(threads), "--skip-logging"]
    module = "bench.contenders.dramatiq_redis"
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", module, *options])  # noqa: S606
