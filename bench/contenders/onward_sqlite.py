"""Onward's worker inside a program, on its default: an SQLite file, every commit durable, history kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.body import FOLDER, noop, payload
from onward import Onward

CONFIGS = {"1 process, 10 threads": 10, "1 process, 2 threads": 2}

FILE = FOLDER / "onward.db"
SETTINGS: dict[str, Any] = {}


def application() -> tuple[Onward, Any]:
    logging.disable(logging.WARNING)  # the notice about old SQLite libraries
    jobs = Onward(f"sqlite:///{FILE}", **SETTINGS)

    @jobs.job
    def work(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        noop({"id": id, "user": user, "kind": kind, "sent": sent})

    return jobs, work


def reset() -> None:
    for file in FOLDER.glob("onward.db*"):
        file.unlink()


@contextmanager
def opened() -> Iterator[Any]:
    jobs, work = application()
    with jobs:
        yield work


def enqueue(work: Any, n: int) -> None:
    for number in range(n):
        work.enqueue(**payload(number))


def bulk(work: Any, n: int) -> None:
    for start in range(0, n, 1000):
        work.enqueue_many([tuple(payload(number).values()) for number in range(start, min(n, start + 1000))])


def crowd(work: Any, n: int, threads: int) -> None:
    producers = [threading.Thread(target=enqueue, args=(work, n // threads)) for _ in range(threads)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()


@contextmanager
def sender() -> Iterator[Any]:
    _, work = application()
    yield lambda sent: work.enqueue(**payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    jobs, _ = application()
    jobs.worker(concurrency=CONFIGS[config]).start().wait()
