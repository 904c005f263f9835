"""A worker in a program: prints the processor time of each job, and how much of that its counters and samples took.

``python -m bench.contenders.counting FILE``; each line of the input is how many jobs to work off.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from onward import Onward
from onward.operate.series.sampling import Sampling
from onward.telemetry.metrics import Metrics


class Meter:
    """Adds up the processor time of what it has wrapped; its own clock is in it, so it says too much."""

    def __init__(self) -> None:
        self.took = 0
        self._lock = threading.Lock()

    def wrap(self, owner: type, name: str) -> None:
        act: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.thread_time_ns()
            try:
                return act(*arguments, **options)
            finally:
                took = time.thread_time_ns() - began
                with self._lock:
                    self.took += took

        setattr(owner, name, timed)


def main() -> None:
    meter = Meter()
    meter.wrap(Metrics, "add_all")
    for name in ("_due", "_answered", "work"):  # all of a renewal that is there for samples, but for the statement
        meter.wrap(Sampling, name)
    logging.disable(logging.WARNING)  # the notice about old SQLite libraries
    with Onward(f"sqlite:///{sys.argv[1]}") as jobs:
        left, done = 0, threading.Event()

        @jobs.job
        def work(id: int, user: str, kind: str) -> None:  # noqa: A002
            nonlocal left
            left -= 1  # by the one thread that runs handlers
            if not left:
                done.set()

        jobs.pause("default")
        with jobs.worker(concurrency=1):
            gc.disable()
            print("ready", flush=True)
            for line in sys.stdin:
                left = int(line)
                done.clear()
                work.enqueue_many([(number, f"user-{number}", "email") for number in range(left)])
                gc.collect()
                began, counting = time.process_time_ns(), meter.took
                jobs.resume("default")
                done.wait()
                took = time.process_time_ns() - began
                jobs.pause("default")
                print(json.dumps([took / int(line), (meter.took - counting) / int(line)]), flush=True)


if __name__ == "__main__":
    main()
