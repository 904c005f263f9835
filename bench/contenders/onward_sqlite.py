"""Onward's worker inside a program, on its default: an SQLite file, every commit durable, history kept."""

from __future__ import annotations

import logging
import threading
from typing import Any

from bench.body import FOLDER, noop, payload
from onward import Onward

CONFIGS = {"1 process, 10 threads": 10, "1 process, 2 threads": 2}

FILE = FOLDER / "onward.db"


def application() -> tuple[Onward, Any]:
    logging.disable(logging.WARNING)  # the notice about old SQLite libraries
    jobs = Onward(f"sqlite:///{FILE}")

    @jobs.job
    def work(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
        noop({"id": id, "user": user, "kind": kind, "sent": sent})

    return jobs, work


def reset() -> None:
    for file in FOLDER.glob("onward.db*"):
        file.unlink()


def fill(n: int) -> None:
    reset()
    bulk(n)


def enqueue(n: int) -> None:
    jobs, work = application()
    for number in range(n):
        work.enqueue(**payload(number))
    jobs.close()


def bulk(n: int) -> None:
    jobs, work = application()
    for start in range(0, n, 1000):
        work.enqueue_many([tuple(payload(number).values()) for number in range(start, min(n, start + 1000))])
    jobs.close()


def crowd(n: int, threads: int) -> None:
    jobs, work = application()

    def produce() -> None:
        for number in range(n // threads):
            work.enqueue(**payload(number))

    producers = [threading.Thread(target=produce) for _ in range(threads)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    jobs.close()


def sender() -> Any:
    _, work = application()
    return lambda sent: work.enqueue(**payload(1, sent))


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    jobs, _ = application()
    jobs.worker(concurrency=CONFIGS[config]).start().wait()
