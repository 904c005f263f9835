"""Quebec on SQLite: a core in Rust, Solid Queue's tables.  Its file is switched to WAL beforehand, which it keeps."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

os.environ.setdefault("RUST_LOG", "off")
import quebec

from bench.body import FOLDER, Flaky, flaky, noop, payload

# Threads, whether finished jobs are kept, and how many such workers.
CONFIGS = {"16 threads": (16, False, 1), "3 threads, history": (3, True, 1), "2 processes": (16, False, 2)}
SMALL = "2 processes"

FILE = FOLDER / "quebec.db"
URL = f"sqlite:///{FILE.absolute()}?mode=rwc"


class Work(quebec.BaseClass):  # type: ignore[misc]
    def perform(self, job: dict[str, Any]) -> None:
        noop(job)


class FlakyWork(quebec.BaseClass):  # type: ignore[misc]
    retry_on = [quebec.RetryStrategy((Flaky,), wait=timedelta(0), attempts=3, handler=None)]  # noqa: RUF012

    def perform(self, job: dict[str, Any]) -> None:
        flaky(job)


def build(**options: Any) -> Any:
    queue = quebec.Quebec(URL, **options)
    queue.register_job_class(Work)
    queue.register_job_class(FlakyWork)
    return queue


def reset() -> None:
    for file in FOLDER.glob("quebec.db*"):
        file.unlink()
    queue = build()
    queue.create_tables()
    queue.close()
    sqlite3.connect(FILE).execute("PRAGMA journal_mode = wal")


@contextmanager
def opened() -> Iterator[Any]:
    yield build()


def enqueue(queue: Any, n: int) -> None:
    for number in range(n):
        Work.perform_later(queue, payload(number))


def bulk(queue: Any, n: int, kind: Any = Work) -> None:
    for start in range(0, n, 1000):
        queue.perform_all_later([kind.build(payload(number)) for number in range(start, min(n, start + 1000))])


def bulk_flaky(queue: Any, n: int) -> None:
    bulk(queue, n, FlakyWork)


@contextmanager
def sender() -> Iterator[Any]:
    queue = build()
    yield lambda sent: Work.perform_later(queue, payload(1, sent))


def processes(config: str) -> int:
    return CONFIGS[config][2]


def serve(config: str) -> None:
    logging.disable(logging.ERROR)
    threads, keep, _ = CONFIGS[config]
    often = timedelta(milliseconds=10)
    build(
        preserve_finished_jobs=keep,
        worker_threads=threads,
        worker_polling_interval=often,
        dispatcher_polling_interval=often,
    ).run()
