"""Chancy: claims as many as it has room for, and writes results once a second."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from chancy import Chancy, Queue, Worker, job

from bench.body import flaky, noop
from bench.contenders import on_postgres
from bench.contenders.on_postgres import Producer

CONFIGS = {"2 processes, 300 at a time": (300, 2)}
SMALL = "2 processes, 300 at a time"
DATABASE = "chancy"

logging.disable(logging.ERROR)


@job(queue="work")
async def work(*, given: dict[str, Any]) -> None:
    noop(given)


@job(queue="work", max_attempts=3)
async def fails_once(*, given: dict[str, Any]) -> None:
    flaky(given)


def reset() -> None:
    on_postgres.fresh(DATABASE)
    on_postgres.forever(_install)


async def _install() -> None:
    async with Chancy(on_postgres.url(DATABASE)) as chancy:
        await chancy.migrate()


@asynccontextmanager
async def _producer(function: Any = work) -> AsyncIterator[Any]:
    async with Chancy(on_postgres.url(DATABASE)) as chancy:

        async def put(given: dict[str, Any]) -> None:
            await chancy.push(function.job.with_kwargs(given=given))

        async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
            async for _ in chancy.push_many([function.job.with_kwargs(given=each) for each in jobs], batch_size=1000):
                pass

        yield put, put_many


@contextmanager
def opened() -> Iterator[Producer]:
    with on_postgres.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n)


def bulk_flaky(_: Producer, n: int) -> None:
    with on_postgres.producing(_producer(fails_once)) as producer:
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


async def _serve(concurrency: int) -> None:
    async with Chancy(on_postgres.url(DATABASE)) as chancy:
        executor = "chancy.executors.asyncex.AsyncExecutor"
        queue = Queue("work", concurrency=concurrency, executor=executor, polling_interval=1, eager_polling=True)
        await chancy.declare(queue, upsert=True)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()
