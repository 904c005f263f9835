"""Measuring contenders against each other on a noisy machine: in turns, several rounds, medians, ratios.

A shared machine is twice as fast in one minute as in the next, so no absolute figure means anything.  Every round
measures all contenders one after the other; a ratio is taken within its round, and the median of the rounds is what
counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench import body, tree

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """Somebody to be measured, and the interpreter that has its package."""

    name: str
    module: str
    python: Path
    configs: Sequence[str] = ()  # all of its own, unless said here

    @property
    def is_ours(self) -> bool:
        return self.python == PYTHON

    def step(self, step: str, *arguments: object, timeout: float = 300) -> str:
        command = [str(self.python), "-m", "bench.drive", self.module, step, *map(str, arguments)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if answer.returncode:
            raise RuntimeError(f"{self.name}: {step} failed: {answer.stderr[-500:]}")
        return answer.stdout

    def ask(self, step: str, *arguments: object) -> object:
        return json.loads(self.step(step, *arguments))

    def start(self, config: str) -> list[subprocess.Popen[bytes]]:
        count = self.ask("processes", config)
        assert isinstance(count, int)
        command = [str(self.python), "-m", "bench.drive", self.module, "serve", config]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return [subprocess.Popen(command, start_new_session=True, **quiet) for _ in range(count)]  # type: ignore[call-overload]


def processing(contender: Contender, config: str, jobs: int) -> float:
    """Jobs a second from the first one finished to the last; the store is filled before."""
    return _processing(contender, config, jobs, "fill", "done")


def retrying(contender: Contender, config: str, jobs: int) -> float:
    """Jobs a second that fail once and then succeed, from the first failure to the last success."""
    return _processing(contender, config, jobs, "fill_flaky", "failed")


def _processing(contender: Contender, config: str, jobs: int, fill: str, begin: str) -> float:
    contender.step(fill, jobs)
    body.clear()
    workers = contender.start(config)
    try:
        first = _first(begin, workers)
        seen = body.count("done")
        while (done := body.count("done")) < jobs:
            if time.perf_counter() - first > 120 or any(worker.poll() is not None for worker in workers):
                raise RuntimeError(f"{contender.name} ({config}) stopped at {done} of {jobs} jobs")
            time.sleep(0.002)
        return (jobs - seen) / (time.perf_counter() - first)
    finally:
        _end(workers)


def pickup(contender: Contender, config: str, samples: int) -> list[float]:
    """Milliseconds from just before the enqueue to the handler's first line, on an idle worker."""
    contender.step("fill", 0)
    body.clear()
    workers = contender.start(config)
    try:
        waits = contender.ask("pickup", samples)
        assert isinstance(waits, list)
        return waits
    finally:
        _end(workers)


def footprint(contender: Contender, config: str, jobs: int, seconds: float) -> dict[str, float]:
    """What a worker costs: from start to its first job, its memory after some work, its processor time when idle."""
    contender.step("fill", jobs)
    body.clear()
    started = time.perf_counter()
    workers = contender.start(config)
    try:
        first = _first("done", workers)
        while body.count("done") < jobs:
            time.sleep(0.01)
        time.sleep(1.0)  # what is still to be settled
        everybody = [pid for worker in workers for pid in tree.of_session(worker.pid)]
        memory = sum(map(tree.memory, everybody))
        before = sum(map(tree.processor_seconds, everybody))
        time.sleep(seconds)
        busy = sum(map(tree.processor_seconds, everybody)) - before
        return {"start_s": first - started, "memory_mb": memory / 2**20, "idle_percent": 100 * busy / seconds}
    finally:
        _end(workers)


def rate(contender: Contender, step: str, jobs: int, *arguments: int) -> float | None:
    answer = contender.ask(step, jobs, *arguments)
    assert answer is None or isinstance(answer, float)
    return answer


def noise() -> dict[str, float]:
    """What the machine was like: a synced write, and a fixed piece of Python."""
    probe = body.FOLDER / "probe"
    descriptor = os.open(probe, os.O_RDWR | os.O_CREAT)
    started = time.perf_counter()
    for _ in range(100):
        os.pwrite(descriptor, b"x" * 8192, 0)
        os.fdatasync(descriptor)
    synced = (time.perf_counter() - started) / 100 * 1e6
    os.close(descriptor)
    probe.unlink()
    started = time.perf_counter()
    sum(number * number for number in range(200_000))
    return {"fdatasync_us": round(synced), "python_us": round((time.perf_counter() - started) * 1e6)}


def fastest(contender: Contender, jobs: int, progress: Progress) -> str:
    """The configuration of a contender that does best."""
    configs = contender.configs or contender.ask("configs")
    assert isinstance(configs, Sequence)
    if len(configs) == 1:
        return str(configs[0])
    rates = {str(config): processing(contender, str(config), jobs) for config in configs}
    progress(f"  {contender.name}: " + ", ".join(f"{config} {each:,.0f}/s" for config, each in rates.items()))
    return max(rates, key=lambda config: rates[config])


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def _first(counter: str, workers: Sequence[subprocess.Popen[bytes]]) -> float:
    patience = time.monotonic() + 120  # on a busy machine eight processes with a heavy application take a minute
    while body.count(counter) == 0:
        if time.monotonic() > patience or any(worker.poll() is not None for worker in workers):
            raise RuntimeError("no job was run")
        time.sleep(0.001)
    return time.perf_counter()


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        for pid in tree.of_session(worker.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
    for worker in workers:
        worker.wait()


PYTHON = Path(sys.executable)
