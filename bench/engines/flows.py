"""Flows: what a chord of very many members leaves of the throughput that plain jobs have, on one store."""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench import measure
from bench.contenders.onward_chord import CHORD, PLAIN
from bench.engines.limits import served
from bench.measure import PYTHON, Contender
from bench.rounds import Figure, Rounds, beside, say

__all__ = ["ON_POSTGRES", "ON_SQLITE", "Flows"]

_MEMBERS = 100_000
_CONFIG = "2 processes"
_TITLE = "processing, no-op jobs"


class Flows:
    """A part of the page, for one store."""

    PACKAGES = ()

    def __init__(self, store: str, title: str) -> None:
        self.TITLE = f"Flows on {title}"
        self._store = store

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        os.environ["BENCH_STORE"] = self._store
        rounds = min(3, options.rounds)
        in_turns, members = Rounds(rounds), _MEMBERS // (8 if options.quick else 1)

        def processing(each: Contender) -> float:
            os.environ["BENCH_KIND"] = each.name
            return measure.processing(each, _CONFIG, members)

        with served(self._store) as engine:
            say("measuring")
            in_turns(_TITLE, [Contender(name, "onward_chord", PYTHON) for name in (PLAIN, CHORD)], processing)
        return {
            "rounds": rounds,
            "configurations": dict.fromkeys((PLAIN, CHORD), _CONFIG),
            "jobs": dict.fromkeys((PLAIN, CHORD), members),
            "measures": in_turns.measures,
            "noise": in_turns.noise,
            "engine": engine,
        }

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        quick = results["measures"][_TITLE]
        return [("The members of one chord beside plain jobs", beside(quick, CHORD, [PLAIN]), 0.8)]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            "Both are Onward: the same no-op jobs, once enqueued by `enqueue_many`, once as the members of one flow, of "
            "which another job comes after all of them. History is kept in both."
        )


ON_SQLITE = Flows("sqlite", "SQLite")
ON_POSTGRES = Flows("postgres", "PostgreSQL")
