"""Procrastinate: a statement for every claim and another for every end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import procrastinate

from bench.body import flaky, noop
from bench.contenders import on_postgres
from bench.contenders.on_postgres import Producer

CONFIGS = {"2 processes, 10 at a time, finished jobs deleted": (10, 2)}
SMALL = "2 processes, 10 at a time, finished jobs deleted"
DATABASE = "procrastinate"

logging.disable(logging.ERROR)

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=on_postgres.url(DATABASE), min_size=1, max_size=10)
)


@app.task(name="work")
async def work(given: dict[str, Any]) -> None:
    noop(given)


@app.task(name="flaky", retry=procrastinate.RetryStrategy(max_attempts=3, wait=0))
async def fails_once(given: dict[str, Any]) -> None:
    flaky(given)


def reset() -> None:
    on_postgres.fresh(DATABASE)
    connector = procrastinate.SyncPsycopgConnector(conninfo=on_postgres.url(DATABASE))
    with app.replace_connector(connector) as other, other.open():
        other.schema_manager.apply_schema()


@asynccontextmanager
async def _producer(task: Any = work) -> AsyncIterator[Any]:
    async with app.open_async():

        async def put(given: dict[str, Any]) -> None:
            await task.defer_async(given=given)

        async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
            await task.batch_defer_async(*[{"given": each} for each in jobs])

        yield put, put_many


@contextmanager
def opened() -> Iterator[Producer]:
    with on_postgres.producing(_producer()) as producer:
        yield producer


def enqueue(producer: Producer, n: int) -> None:
    producer.enqueue(n)


def bulk(producer: Producer, n: int) -> None:
    producer.bulk(n)


@contextmanager
def opened_flaky() -> Iterator[Producer]:
    with on_postgres.producing(_producer(fails_once)) as producer:
        yield producer


def bulk_flaky(producer: Producer, n: int) -> None:
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
    script = os.path.join(os.path.dirname(sys.executable), "procrastinate")  # noqa: PTH118, PTH120
    options = ["worker", "-c", str(CONFIGS[config][0]), "--delete-jobs", "always"]
    command = [sys.executable, script, "--app", "bench.contenders.procrastinate_postgres.app", *options]
    os.execv(sys.executable, command)  # noqa: S606
