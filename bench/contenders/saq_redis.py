"""SAQ on Redis.  It has no bulk interface: a hundred enqueues at a time stand for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from bench.body import flaky, noop
from bench.contenders import aio, on_redis
from bench.contenders.aio import Producer

on_redis.apart("saq")

from saq import Queue  # noqa: E402
from saq.worker import Worker  # noqa: E402

# Jobs at a time, and how many such processes.
CONFIGS = {"2 processes, 100 at a time": (100, 2), "2 processes, 50 at a time": (50, 2)}

logging.disable(logging.ERROR)


async def work(_: Any, *, given: dict[str, Any]) -> None:
    noop(given)


async def fails_once(_: Any, *, given: dict[str, Any]) -> None:
    flaky(given)


def reset() -> None:
    on_redis.fresh()


@asynccontextmanager
async def _producer(name: str = "work", **options: Any) -> AsyncIterator[Any]:
    queue = Queue.from_url(on_redis.url())
    await queue.connect()

    async def put(given: dict[str, Any]) -> None:
        await queue.enqueue(name, given=given, **options)

    async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
        await asyncio.gather(*(put(each) for each in jobs))

    yield put, put_many
    await queue.disconnect()


@contextmanager
def opened() -> Iterator[Producer]:
    with aio.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n, size=100)


def bulk_flaky(_: Producer, n: int) -> None:
    with aio.producing(_producer("fails_once", retries=3, retry_delay=0.0)) as producer:
        producer.bulk(n, size=100)


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as producer:
        yield producer.send


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    aio.forever(lambda: _serve(CONFIGS[config][0]))


async def _serve(concurrency: int) -> None:
    queue = Queue.from_url(on_redis.url())
    await queue.connect()
    await Worker(queue, functions=[work, fails_once], concurrency=concurrency).start()
