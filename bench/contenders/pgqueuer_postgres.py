"""PgQueuer: claims and finishes in batches, and writes a line of a log for every job."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.body import Flaky, flaky, noop
from bench.contenders import on_postgres
from bench.contenders.on_postgres import Producer

# Jobs in a batch, and how many such processes; its own default is 10.
CONFIGS = {"2 processes, batch 500": (500, 2), "1 process, batch 500": (500, 1)}
SMALL = "2 processes, batch 500"
DATABASE = "pgqueuer"

logging.disable(logging.ERROR)


def reset() -> None:
    on_postgres.fresh(DATABASE)
    on_postgres.forever(_install)


async def _install() -> None:
    connection = await asyncpg.connect(on_postgres.url(DATABASE))
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


@asynccontextmanager
async def _producer(name: str = "work") -> AsyncIterator[Any]:
    connection = await asyncpg.connect(on_postgres.url(DATABASE))
    queries = Queries(AsyncpgDriver(connection))

    async def put(job: dict[str, Any]) -> None:
        await queries.enqueue(name, json.dumps(job).encode())

    async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
        await queries.enqueue([name] * len(jobs), [json.dumps(job).encode() for job in jobs], [0] * len(jobs))

    yield put, put_many
    await connection.close()


@contextmanager
def opened() -> Iterator[Producer]:
    with on_postgres.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n)


def bulk_flaky(_: Producer, n: int) -> None:
    with on_postgres.producing(_producer("flaky")) as producer:
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


async def _serve(batch: int) -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(on_postgres.url(DATABASE))))

    @queue.entrypoint("work")
    async def work(job: Job) -> None:
        noop(json.loads(job.payload or b""))

    @queue.entrypoint("flaky")
    async def fails_once(job: Job) -> None:
        try:
            flaky(json.loads(job.payload or b""))
        except Flaky:
            raise RetryRequested from None

    await queue.run(batch_size=batch)
