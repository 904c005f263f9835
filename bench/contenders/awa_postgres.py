"""awa: a core in Rust; two claimers in one process are what it does best."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import awa

from bench.body import Flaky, flaky, noop
from bench.contenders import on_postgres
from bench.contenders.on_postgres import Producer

CONFIGS = {"1 process, 500 at a time, 2 claimers of 500": {"max_workers": 500, "claimers": 2, "claim_batch_size": 500}}
SMALL = "1 process, 500 at a time, 2 claimers of 500"
DATABASE = "awa"


@dataclass
class Work:
    id: int
    user: str
    kind: str
    sent: int


@dataclass
class FailsOnce(Work):
    pass


def _url() -> str:
    """It reads no URL without a host, though it is told another one behind it."""
    return on_postgres.url(DATABASE).replace("@/", "@localhost/")


def reset() -> None:
    on_postgres.fresh(DATABASE)
    client = awa.Client(_url())
    client.migrate()
    client.install_queue_storage()  # without it, an older engine is at work
    client.close()


@asynccontextmanager
async def _producer(kind: type[Work] = Work) -> AsyncIterator[Any]:
    client = awa.AsyncClient(_url())

    async def put(job: dict[str, Any]) -> None:
        await client.insert(kind(**job), queue="bench")

    async def put_many(jobs: Sequence[dict[str, Any]]) -> None:
        await client.enqueue_many_copy([kind(**each) for each in jobs], queue="bench")

    yield put, put_many
    await client.close()


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
    return 1


def serve(config: str) -> None:
    on_postgres.forever(lambda: _serve(CONFIGS[config]))


async def _serve(options: dict[str, int]) -> None:
    client = awa.AsyncClient(_url(), 10)

    @client.task(Work, queue="bench")
    async def work(job: Any) -> None:
        noop(vars(job.args))

    @client.task(FailsOnce, queue="bench")
    async def fails_once(job: Any) -> Any:
        try:
            flaky(vars(job.args))
        except Flaky:
            return awa.RetryAfter(0)

    await client.start([{"name": "bench", **options}], poll_interval_ms=200, promote_interval_ms=50)
    await asyncio.Event().wait()
