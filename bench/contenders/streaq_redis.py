"""streaQ on Redis streams, results off."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from streaq import StreaqRetry, Worker

from bench.body import Flaky, flaky, noop
from bench.contenders import aio, on_redis
from bench.contenders.aio import Producer

# Processes, and jobs at a time in each.
CONFIGS = {"2 processes, 256 at a time": (2, 256), "2 processes, 64 at a time": (2, 64)}

logging.disable(logging.ERROR)

worker = Worker(
    redis_url=on_redis.url(),
    concurrency=int(os.environ.get("BENCH_CONCURRENCY", "16")),
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(ttl=0)
async def work(job: dict[str, Any]) -> None:
    noop(job)


@worker.task(ttl=0, max_tries=3)
async def fails_once(job: dict[str, Any]) -> None:
    try:
        flaky(job)
    except Flaky:
        raise StreaqRetry("again", delay=0) from None


def reset() -> None:
    on_redis.fresh()


@asynccontextmanager
async def _producer(task: Any) -> AsyncIterator[Any]:
    async with worker:

        async def put(job: dict[str, Any]) -> None:
            await task.enqueue(job)

        async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
            await worker.enqueue_many([task.enqueue(job) for job in jobs])

        yield put, put_many


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
    producer.bulk(n)


bulk_flaky = bulk


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as producer:
        yield producer.send


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    count, concurrency = CONFIGS[config]
    os.environ["BENCH_CONCURRENCY"] = str(concurrency)
    script = os.path.join(os.path.dirname(sys.executable), "streaq")  # noqa: PTH118, PTH120
    command = [sys.executable, script, "run", "bench.contenders.streaq_redis:worker", "-w", str(count)]
    os.execv(sys.executable, command)  # noqa: S606
