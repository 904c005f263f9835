"""Counters and samples: what they leave of the throughput, on SQLite.

Contenders are the same program with ``metrics`` on, which is the default, and off.
"""

from __future__ import annotations

import argparse
import sqlite3
from typing import Any

from bench import measure
from bench.measure import PYTHON, Contender
from bench.rounds import Figure, Rounds, beside, say

__all__ = ["ON_SQLITE", "Counters"]

COUNTED, UNCOUNTED = "onward", "onward, metrics=False"
_CONFIG = "1 process, 2 threads"
_JOBS = 80_000
_LEFT = 0.97  # of the throughput


class Counters:
    """A part of the page."""

    PACKAGES = ()
    TITLE = "Counters and samples on SQLite"

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        both = [Contender(COUNTED, "onward_sqlite", PYTHON), Contender(UNCOUNTED, "onward_uncounted", PYTHON)]
        jobs = _JOBS // (8 if options.quick else 1)
        in_turns = Rounds(options.rounds)
        say("measuring")
        in_turns("processing", both, lambda each: measure.processing(each, _CONFIG, jobs))
        return {
            "engine": f"SQLite {sqlite3.sqlite_version}",
            "rounds": options.rounds,
            "configurations": {each.name: _CONFIG for each in both},
            "jobs": {each.name: jobs for each in both},
            "measures": in_turns.measures,
            "noise": in_turns.noise,
        }

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        ratio = beside(results["measures"]["processing"], COUNTED, [UNCOUNTED])
        return [("No-op processing with counters beside none", ratio, _LEFT)]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            "Everything is Onward in a program, every commit durable, history kept: with counters of every job and a sample "
            "every ten seconds, and with `metrics=False`."
        )


ON_SQLITE = Counters()
