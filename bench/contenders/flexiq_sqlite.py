"""FlexiQ on SQLite: a core in Rust.  It sets synchronous=NORMAL, which a power cut can undo, and offers nothing stricter."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flexiq import Queue

from bench.body import FOLDER, flaky, noop, payload

# Pool and workers; all fetch 100 jobs at a time and poll every millisecond.
CONFIGS = {"8 threads": ("thread", 8), "2 threads": ("thread", 2), "2 processes": ("prefork", 2)}
SMALL = "2 processes"

FILE = FOLDER / "flexiq.db"


def build(workers: int = 2) -> Any:
    queue = Queue(
        backend="sqlite", db_path=str(FILE), workers=workers, scheduler_poll_interval_ms=1, scheduler_batch_size=100
    )
    queue.task(name="work")(noop)
    queue.task(name="flaky", max_retries=3, retry_delays=[0.0, 0.0, 0.0], retry_backoff=0.0)(flaky)
    return queue


def reset() -> None:
    for file in FOLDER.glob("flexiq.db*"):
        file.unlink()


@contextmanager
def opened() -> Iterator[Any]:
    yield build()


def enqueue(queue: Any, n: int) -> None:
    for number in range(n):
        queue.enqueue("work", (payload(number),))


def bulk(queue: Any, n: int, name: str = "work") -> None:
    for start in range(0, n, 1000):
        queue.enqueue_many(name, [(payload(number),) for number in range(start, min(n, start + 1000))])


def bulk_flaky(queue: Any, n: int) -> None:
    bulk(queue, n, "flaky")


@contextmanager
def sender() -> Iterator[Any]:
    queue = build()
    yield lambda sent: queue.enqueue("work", (payload(1, sent),))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    pool, workers = CONFIGS[config]
    os.environ["BENCH_FLEXIQ"] = str(workers)
    os.environ["FLEXIQ_PYTHON"] = sys.executable
    script = os.path.join(os.path.dirname(sys.executable), "flexiq")  # noqa: PTH118, PTH120
    options = ["worker", "--app", "bench.contenders.flexiq_sqlite:queue", "--pool", pool]
    os.execv(sys.executable, [sys.executable, script, *options])  # noqa: S606


queue = build(int(os.environ["BENCH_FLEXIQ"])) if "BENCH_FLEXIQ" in os.environ else None
