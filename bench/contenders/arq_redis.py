"""arq, results off; it looks every 10 ms here instead of every 500, and has no bulk interface."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from bench.body import Flaky, flaky, noop
from bench.contenders import aio, on_redis
from bench.contenders.aio import Producer

on_redis.apart("arq")

from arq import Retry, create_pool  # noqa: E402
from arq.connections import RedisSettings  # noqa: E402
from arq.worker import Worker  # noqa: E402

# Jobs at a time, and how many such processes; its own default is 10.
CONFIGS = {"2 processes, 100 at a time": (100, 2), "2 processes, 500 at a time": (500, 2)}

logging.disable(logging.ERROR)


async def work(_: Any, job: dict[str, Any]) -> None:
    noop(job)


async def fails_once(_: Any, job: dict[str, Any]) -> None:
    try:
        flaky(job)
    except Flaky:
        raise Retry(defer=0) from None


def reset() -> None:
    on_redis.fresh()


@asynccontextmanager
async def _producer(name: str = "work") -> AsyncIterator[Any]:
    pool = await create_pool(RedisSettings.from_dsn(on_redis.url()))

    async def put(job: dict[str, Any]) -> None:
        await pool.enqueue_job(name, job)

    async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
        await asyncio.gather(*(put(each) for each in jobs))

    yield put, put_many
    await pool.aclose()


@contextmanager
def opened() -> Iterator[Producer]:
    with aio.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n, size=50)


def bulk_flaky(_: Producer, n: int) -> None:
    with aio.producing(_producer("fails_once")) as producer:
        producer.bulk(n, size=50)


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as producer:
        yield producer.send


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    aio.forever(lambda: _serve(CONFIGS[config][0]))


async def _serve(concurrency: int) -> None:
    worker = Worker(
        functions=[work, fails_once],
        redis_settings=RedisSettings.from_dsn(on_redis.url()),
        max_jobs=concurrency,
        queue_read_limit=concurrency,
        poll_delay=0.01,
        keep_result=0,
        max_tries=5,
        log_results=False,
        handle_signals=False,
    )
    await worker.async_run()
