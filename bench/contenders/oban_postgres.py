"""Oban for Python, its open-source edition: claims in batches, finishes one by one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from bench.body import flaky, noop
from bench.contenders import on_postgres
from bench.contenders.on_postgres import Producer

CONFIGS = {"2 processes, 20 at a time": (20, 2)}
SMALL = "2 processes, 20 at a time"
DATABASE = "oban"

logging.disable(logging.ERROR)


@worker(queue="default")
class Work:
    async def process(self, job: Any) -> None:
        noop(job.args)


@worker(queue="default", max_attempts=3)
class FailsOnce:
    def backoff(self, job: Any) -> int:
        return 0

    async def process(self, job: Any) -> None:
        flaky(job.args)


def _pool() -> Any:
    return AsyncConnectionPool(on_postgres.url(DATABASE), min_size=1, max_size=10, open=False)


def reset() -> None:
    on_postgres.fresh(DATABASE)
    on_postgres.forever(_install)


async def _install() -> None:
    async with _pool() as pool:
        await install(pool)


@asynccontextmanager
async def _producer(kind: Any = Work) -> AsyncIterator[Any]:
    async with _pool() as pool:
        oban = Oban(pool=pool)
        await oban.start()

        async def put(job: dict[str, Any]) -> None:
            await oban.enqueue(kind.new(job))

        async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
            await oban.enqueue_many([kind.new(each) for each in jobs])

        yield put, put_many
        await oban.stop()


@contextmanager
def opened() -> Iterator[Producer]:
    with on_postgres.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n)


def bulk_flaky(_: Producer, n: int) -> None:
    with on_postgres.producing(_producer(FailsOnce)) as producer:
        producer.bulk(n)


def filled() -> None:
    on_postgres.rest(DATABASE)


@contextmanager
def sender() -> Iterator[Any]:
    with opened() as producer:
        yield producer.send


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    on_postgres.forever(lambda: _serve(CONFIGS[config][0]))


async def _serve(limit: int) -> None:
    async with _pool() as pool, Oban(pool=pool, queues={"default": limit}):
        await asyncio.Event().wait()
