"""Counters and samples: what they leave of the throughput, on SQLite.

A worker with counters beside one without differs by less than a machine that others use differs from itself.  So what the
counters take is measured within one worker: by the clock of its threads, as a part of all that the worker needs of the
processor.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import body
from bench.measure import PYTHON, middle
from bench.rounds import Figure, say

__all__ = ["ON_SQLITE", "Counters"]

COUNTED, UNCOUNTED = "onward", "onward without what its counters took"
_BLOCKS, _JOBS = 100, 2_000
_TITLE = "processing, for a second of the processor"
_LEFT = 0.97  # of the throughput


class Counters:
    """A part of the page."""

    PACKAGES = ()
    TITLE = "Counters and samples on SQLite"

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        say("measuring")
        blocks = _BLOCKS // (8 if options.quick else 1)
        with _arm() as arm:
            _block(arm)  # the first one pays for what is set up once
            rows = [_block(arm) for _ in range(blocks)]
        say(f"  {_TITLE}: { ({name: round(middle([row[name] for row in rows])) for name in rows[0]}) }")
        return {
            "engine": f"SQLite {sqlite3.sqlite_version}, in memory",
            "rounds": blocks,
            "configurations": {COUNTED: f"1 process, 1 handler thread, in blocks of {_JOBS:,} jobs"},
            "jobs": {COUNTED: blocks * _JOBS},
            "measures": {_TITLE: rows},
        }

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        return [("No-op processing with counters beside none", middle(_ratios(results)), _LEFT)]

    def fairness(self, results: dict[str, Any]) -> str:
        ratios = sorted(_ratios(results))
        # The median of so many lies between these two, 95 of 100 times: the ranks of a fair coin.
        off = round(0.98 * len(ratios) ** 0.5)
        low, high = (ratios[len(ratios) // 2 + each] for each in (-off, off))
        return (
            "Onward in a program, with counters of every job and a sample every ten seconds. What these take of the "
            "processor is measured within the worker, with the clock that measures it, block by block: they leave "
            f"{middle(ratios):.3f} of the throughput, 95 of 100 times from {low:.3f} to {high:.3f}."
        )


def _ratios(results: dict[str, Any]) -> list[float]:
    return [row[COUNTED] / row[UNCOUNTED] for row in results["measures"][_TITLE]]


@contextmanager
def _arm() -> Iterator[subprocess.Popen[str]]:
    command = [str(PYTHON), "-m", "bench.contenders.counting", str(body.COUNTERS / "counted.db")]
    with subprocess.Popen(command, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def _block(arm: subprocess.Popen[str]) -> dict[str, float]:
    """Return how many jobs are worked off in a second of the processor, with the counters' part of it and without."""
    assert arm.stdin is not None
    assert arm.stdout is not None
    arm.stdin.write(f"{_JOBS}\n")
    arm.stdin.flush()
    job, counting = json.loads(arm.stdout.readline())
    return {COUNTED: 1e9 / job, UNCOUNTED: 1e9 / (job - counting)}


ON_SQLITE = Counters()
