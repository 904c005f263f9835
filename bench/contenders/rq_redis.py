"""RQ, with workers that do not fork for every job, and no results."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rq import Queue, Retry, SimpleWorker

from bench.body import flaky, noop, payload
from bench.contenders import on_redis

CONFIGS = {"2 processes, no forks": 2}

BATCH = 1000

logging.disable(logging.ERROR)


def reset() -> None:
    on_redis.fresh()


@contextmanager
def opened() -> Iterator[Queue]:
    yield Queue("bench", connection=on_redis.client())


def enqueue(queue: Queue, n: int) -> None:
    for number in range(n):
        queue.enqueue(noop, payload(number), result_ttl=0)


def bulk(queue: Queue, n: int) -> None:
    _bulk(queue, n, noop, None)


def bulk_flaky(queue: Queue, n: int) -> None:
    _bulk(queue, n, flaky, Retry(max=2, interval=0))


def _bulk(queue: Queue, n: int, work: Any, retry: Any) -> None:
    for start in range(0, n, BATCH):
        numbers = range(start, min(n, start + BATCH))
        queue.enqueue_many(
            [Queue.prepare_data(work, (payload(number),), result_ttl=0, retry=retry) for number in numbers]
        )


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as queue:
        yield lambda sent: queue.enqueue(noop, payload(1, sent), result_ttl=0)


def processes(config: str) -> int:
    return CONFIGS[config]


def serve(config: str) -> None:
    connection = on_redis.client()
    SimpleWorker([Queue("bench", connection=connection)], connection=connection, log_job_description=False).work(
        logging_level="CRITICAL"
    )
