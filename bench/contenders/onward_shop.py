"""What Onward does on every store: the jobs, how they are enqueued, and its worker inside a program or in processes."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from bench.body import flaky, noop, payload
from onward import NoDelay, Onward

__all__ = ["ALL_CONFIGS", "Shop"]

_BATCH = 1000  # jobs in one call of a bulk interface

# Processes of `onward worker`, none: inside this program; and whether finished jobs are kept.
ALL_CONFIGS = {
    "in a program": (0, True),
    "2 processes": (2, True),
    "2 processes, retention 0": (2, False),
    "1 process": (1, True),
}


class _Application(NamedTuple):
    jobs: Onward
    work: Any
    fails_once: Any


class Shop:
    """One contender.  Its module names the store, and hands these methods to the bench."""

    def __init__(self, module: str, url: Callable[[], str], configs: dict[str, tuple[int, bool]]) -> None:
        self._module = module
        self._url = url
        self._configs = configs

    @cached_property
    def application(self) -> _Application:
        """Opened when it is needed, not before: whoever resets a store must not have it open."""
        logging.disable(logging.WARNING)  # a line for every failure, which nobody else writes here
        retention = {"completed": 0} if os.environ.get("BENCH_RETENTION") == "0" else {}
        jobs = Onward(self._url(), retention=retention)

        @jobs.job
        def work(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
            noop({"id": id, "user": user, "kind": kind, "sent": sent})

        @jobs.job(name="flaky", max_retries=3, retry=NoDelay())
        def fails_once(id: int, user: str, kind: str, sent: int) -> None:  # noqa: A002
            flaky({"id": id, "user": user, "kind": kind, "sent": sent})

        return _Application(jobs, work, fails_once)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        yield self.application.work

    def enqueue(self, job: Any, n: int) -> None:
        for number in range(n):
            job.enqueue(**payload(number))

    def bulk(self, job: Any, n: int) -> None:
        for start in range(0, n, _BATCH):
            numbers = range(start, min(n, start + _BATCH))
            job.enqueue_many([tuple(payload(number).values()) for number in numbers])

    def bulk_flaky(self, _: Any, n: int) -> None:
        self.bulk(self.application.fails_once, n)

    def crowd(self, job: Any, n: int, threads: int) -> None:
        producers = [threading.Thread(target=self.enqueue, args=(job, n // threads)) for _ in range(threads)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()

    @contextmanager
    def sender(self) -> Iterator[Any]:
        work = self.application.work
        yield lambda sent: work.enqueue(**payload(1, sent))

    def processes(self, _config: str) -> int:
        return 1

    def serve(self, config: str) -> None:
        count, keep = self._configs[config]
        if not keep:
            os.environ["BENCH_RETENTION"] = "0"
        if not count:
            self.application.jobs.worker().start().wait()
        options = ["worker", f"{self._module}:jobs", "--processes", str(count), "--quiet"]
        os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606
