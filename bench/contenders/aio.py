"""What asynchronous contenders share: a producer for a caller that is not asynchronous, on the fastest event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from bench.body import payload

__all__ = ["BATCH", "Producer", "Put", "PutMany", "forever", "producing"]

Put = Callable[[dict[str, Any]], Awaitable[Any]]
PutMany = Callable[[Sequence[dict[str, Any]]], Awaitable[Any]]

BATCH = 1000  # jobs in one call of a bulk interface


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
        leave = asyncio.Event()
        holding, (put, put_many) = runner.run(_entered(opening, leave))
        yield Producer(runner, put, put_many)
        leave.set()
        runner.run(_ended(holding))


def forever(work: Callable[[], Any]) -> None:
    with _runner() as runner:
        runner.run(work())


def _runner() -> asyncio.Runner:
    import uvloop

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _entered(opening: AbstractAsyncContextManager[Any], leave: asyncio.Event) -> tuple[asyncio.Task[None], Any]:
    """Some insist on being left by the task that entered them."""
    entered = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with opening as producer:
            entered.set_result(producer)
            await leave.wait()

    holding = asyncio.create_task(hold())
    await asyncio.wait([holding, entered], return_when=asyncio.FIRST_COMPLETED)
    if not entered.done():
        await holding
    return holding, entered.result()


async def _ended(task: asyncio.Task[None]) -> None:
    await task
