"""What contenders on PostgreSQL share: the server that the bench started, and a database of each one's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import psycopg

from bench.body import payload

Put = Callable[[dict[str, Any]], Awaitable[Any]]
PutMany = Callable[[Sequence[dict[str, Any]]], Awaitable[Any]]

BATCH = 1000  # jobs in one call of a bulk interface


def url(database: str) -> str:
    return os.environ["BENCH_POSTGRES"].replace("/postgres?", f"/{database}?")


def fresh(database: str) -> str:
    """An empty database, and where it is."""
    with psycopg.connect(url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return url(database)


def rest(database: str) -> None:
    """What a server does now and then, done now: it is not part of anybody's figures."""
    with psycopg.connect(url(database), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


class Producer:
    """An asynchronous producer, for a caller that is not."""

    def __init__(self, runner: asyncio.Runner, put: Put, put_many: PutMany) -> None:
        self._runner = runner
        self._put = put
        self._put_many = put_many

    def enqueue(self, n: int) -> None:
        async def one_by_one() -> None:
            for number in range(n):
                await self._put(payload(number))

        self._runner.run(one_by_one())

    def bulk(self, n: int, size: int = BATCH) -> None:
        async def by_batches() -> None:
            for start in range(0, n, size):
                await self._put_many([payload(number) for number in range(start, min(n, start + size))])

        self._runner.run(by_batches())

    def send(self, sent: int) -> None:
        self._runner.run(self._sent(sent))

    async def _sent(self, sent: int) -> None:
        await self._put(payload(1, sent))


@contextmanager
def producing(opening: AbstractAsyncContextManager[tuple[Put, PutMany]]) -> Iterator[Producer]:
    with _runner() as runner:
        put, put_many = runner.run(_entered(opening))
        yield Producer(runner, put, put_many)
        runner.run(_left(opening))


def forever(work: Callable[[], Any]) -> None:
    with _runner() as runner:
        runner.run(work())


def _runner() -> asyncio.Runner:
    import uvloop

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _entered(opening: AbstractAsyncContextManager[Any]) -> Any:
    return await opening.__aenter__()


async def _left(opening: AbstractAsyncContextManager[Any]) -> None:
    await opening.__aexit__(None, None, None)
