"""How the cost of a turn grows with what is stored and with the number of queues, and what more processes bring.

A turn settles a hundred jobs and claims the hundred that have waited longest.  As many are enqueued before it, outside of
the measure, so that as many wait all the time.  Turns of all sizes are made one after the other, in blocks.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bench import body, measure, stock
from bench.contenders import on_redis
from bench.engines.limits import served as served_database
from bench.engines.redis import SETTINGS
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, beside, say
from bench.stock import Stock
from onward.backend import Claim, Settlement, Turn
from tests.servers.redis import free_port, redis_server

__all__ = ["ON_POSTGRES", "ON_REDIS", "ON_SQLITE", "Growth"]

BATCH = 100
_TURNS = 10  # of a block
_SMALL, _MIDDLE, _LARGE = "1 k waiting, 1 k finished", "100 k waiting, 100 k finished", "1 M waiting, 10 M finished"
_STOCKS = {_SMALL: (1_000, 1_000), _MIDDLE: (100_000, 100_000), _LARGE: (1_000_000, 10_000_000)}
_QUEUES = {"1 queue": 1, "10 queues": 10, "100 queues": 100}
_PROCESSES = {"1 process": 1, "2 processes": 2, "8 processes": 8}
_STORED, _SPREAD, _RUN = "turns, by what is stored", "turns, by queues", "processing, by processes"


class _Turns:
    """One store of some size, and a worker's turns in it."""

    def __init__(self, backend: Any, queues: Sequence[str]) -> None:
        self.backend = backend
        self._queues = queues
        self._claim = Claim(queues=tuple(queues), limit=BATCH)
        self._leases = backend.turn(Turn(owner=stock.OWNER, claim=self._claim)).leases

    def block(self, turns: int) -> float:
        """Make so many turns; return the jobs that were settled in a second of them."""
        took = 0.0
        for _ in range(turns):
            self.backend.enqueue(stock.sealed(self._queues, BATCH))
            settlements = [Settlement.ack(lease) for lease in self._leases]
            began = time.perf_counter()
            turned = self.backend.turn(Turn(owner=stock.OWNER, settlements=settlements, claim=self._claim))
            took += time.perf_counter() - began
            self._leases = turned.leases
            assert len(self._leases) == BATCH
        return turns * BATCH / took


class Growth:
    """A part of the page, for one store."""

    PACKAGES = ()

    def __init__(self, store: str, title: str) -> None:
        self.TITLE = f"Growth on {title}"
        self._store = store

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        less, blocks = (100, 3) if options.quick else (1, 40)
        jobs = 60_000 // (8 if options.quick else 1)
        stored = {name: Stock(["default"], waiting // less, done // less) for name, (waiting, done) in _STOCKS.items()}
        spread = {name: Stock(_names(count), 1_000, 1_000) for name, count in _QUEUES.items()}
        with _served(self._store) as (engine, place):
            measures = {
                _STORED: self._in_turns(place, "stored", stored, blocks),
                _SPREAD: self._in_turns(place, "spread", spread, blocks),
                _RUN: self._by_processes(min(3, options.rounds), jobs),
            }
        return {
            "engine": engine,
            "rounds": blocks,
            "configurations": dict.fromkeys(_PROCESSES, "`onward worker` at its defaults"),
            "jobs": dict.fromkeys(_PROCESSES, jobs),
            "measures": measures,
        }

    def _in_turns(self, place: str, title: str, stocks: Mapping[str, Stock], blocks: int) -> list[dict[str, float]]:
        with ExitStack() as stack:
            workers = {}
            for number, (name, each) in enumerate(stocks.items()):
                backend = stock.opened(self._store, place, f"{title}_{number}")
                stack.callback(backend.close)
                began = time.monotonic()
                stock.fill(self._store, place, backend, each)
                say(f"  {name}: stored in {time.monotonic() - began:.0f} s")
                workers[name] = _Turns(backend, each.queues)
            for worker in workers.values():
                worker.block(_TURNS)  # the first one pays for what is set up once
            rows = [{name: worker.block(_TURNS) for name, worker in workers.items()} for _ in range(blocks)]
        say(f"  jobs a second: { ({name: round(middle([row[name] for row in rows])) for name in stocks}) }")
        return rows

    def _by_processes(self, rounds: int, jobs: int) -> list[dict[str, float]]:
        os.environ["BENCH_STORE"] = self._store
        each = Contender("onward worker", "onward_growing", PYTHON)
        rows = [{name: measure.processing(each, name, jobs) for name in _PROCESSES} for _ in range(rounds)]
        say(f"  {_RUN}: {rows}")
        return rows

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        stored, spread, run = (results["measures"][name] for name in (_STORED, _SPREAD, _RUN))
        return [
            *(
                (f"A turn with {name} beside one with {_SMALL}", beside(stored, name, [_SMALL]), 1 / 1.2)
                for name in (_MIDDLE, _LARGE)
            ),
            *(
                (f"A turn over {name} beside one over one", beside(spread, name, ["1 queue"]), 1 / 1.5)
                for name in ("10 queues", "100 queues")
            ),
            ("Two processes beside one", beside(run, "2 processes", ["1 process"]), 1.0),
            ("Eight processes beside one, on two cores", beside(run, "8 processes", ["1 process"]), 0.8),
        ]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            f"Everything is Onward. A turn settles {BATCH} jobs and claims {BATCH}, durably; before it, as many are "
            "enqueued, outside of the measure. Waiting jobs came by the front door; finished ones are copies of one that "
            "was run, with all their rows, index entries and keys. Rates are those of one connection; the last group is "
            "`onward worker` with so many processes."
        )


def _names(count: int) -> list[str]:
    return [f"queue-{number}" for number in range(count)]


@contextmanager
def _served(store: str) -> Iterator[tuple[str, str]]:
    """Have a store served; yield what it is, and where."""
    if store == "redis":
        port = free_port()
        with redis_server("redis", in_memory=False, port=port, **SETTINGS):
            os.environ["BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"
            with on_redis.client() as client:
                version = client.info("server")["redis_version"]
            yield f"Redis {version}, appendonly yes, appendfsync {SETTINGS['appendfsync']}", os.environ["BENCH_REDIS"]
        return
    with served_database(store) as engine:
        yield engine, str(body.FOLDER) if store == "sqlite" else os.environ["BENCH_POSTGRES"]


ON_SQLITE = Growth("sqlite", "SQLite")
ON_POSTGRES = Growth("postgres", "PostgreSQL")
ON_REDIS = Growth("redis", "Redis")
