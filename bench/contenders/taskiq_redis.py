"""taskiq on Redis streams, which are acknowledged.  It has no bulk interface."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from taskiq import SimpleRetryMiddleware
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

from bench.body import flaky, noop
from bench.contenders import aio, on_redis
from bench.contenders.aio import Producer

# Processes, jobs at a time, jobs fetched ahead.
CONFIGS = {"2 processes, 1000 at a time": (2, 1000, 1000), "2 processes, 100 at a time": (2, 100, 100)}

broker = (
    RedisStreamBroker(on_redis.url())
    .with_serializer(ORJSONSerializer())
    .with_middlewares(SimpleRetryMiddleware(default_retry_count=3))
)


@broker.task(task_name="work")
async def work(job: dict[str, Any]) -> None:
    noop(job)


@broker.task(task_name="flaky", retry_on_error=True)
async def fails_once(job: dict[str, Any]) -> None:
    flaky(job)


def reset() -> None:
    on_redis.fresh()


@asynccontextmanager
async def _producer(task: Any) -> AsyncIterator[Any]:
    await broker.startup()

    async def put(job: dict[str, Any]) -> None:
        await task.kiq(job)

    async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
        await asyncio.gather(*(put(each) for each in jobs))

    yield put, put_many
    await broker.shutdown()


@contextmanager
def opened() -> Iterator[Producer]:
    with aio.producing(_producer(work)) as producer:
        yield producer


@contextmanager
def opened_flaky() -> Iterator[Producer]:
    with aio.producing(_producer(fails_once)) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n, size=50)


bulk_flaky = bulk


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as producer:
        yield producer.send


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    workers, tasks, prefetch = map(str, CONFIGS[config])
    options = ["--workers", workers, "--max-async-tasks", tasks, "--max-prefetch", prefetch, "--log-level", "CRITICAL"]
    command = ["-m", "taskiq", "worker", "bench.contenders.taskiq_redis:broker", *options]
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606
