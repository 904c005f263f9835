"""Celery, results off, JSON, without the messages that its workers send each other.  It has no bulk interface.

By default it acknowledges a job before running it: a crash loses it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from bench.body import Flaky, flaky, noop, payload
from bench.contenders import on_redis

# The kind of its pool, its size, how many jobs are fetched for each of them, and how many such processes.
CONFIGS = {"2 processes, 4 threads": ("threads", 4, 32, 2), "2 processes, no pool": ("solo", 1, 128, 2)}

app = Celery("bench", broker=on_redis.url())
app.conf.update(
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
    task_send_sent_event=False,
)


@app.task(name="work")
def work(job: dict[str, Any]) -> None:
    noop(job)


@app.task(name="flaky", autoretry_for=(Flaky,), default_retry_delay=0, max_retries=3, retry_jitter=False)
def fails_once(job: dict[str, Any]) -> None:
    flaky(job)


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[None]:
    yield


def enqueue(_: None, n: int) -> None:
    for number in range(n):
        work.delay(payload(number))


def bulk_flaky(_: None, n: int) -> None:
    for number in range(n):
        fails_once.delay(payload(number))


@contextmanager
def sender() -> Iterator[Any]:
    yield lambda sent: work.delay(payload(1, sent))


def processes(config: str) -> int:
    return CONFIGS[config][3]


def serve(config: str) -> None:
    pool, size, prefetch, _ = CONFIGS[config]
    options = ["-P", pool, "-c", str(size), "--prefetch-multiplier", str(prefetch), "-l", "ERROR"]
    options += ["-n", f"{os.getpid()}@bench", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = ["-m", "celery", "-A", "bench.contenders.celery_redis", "worker", *options]
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606
