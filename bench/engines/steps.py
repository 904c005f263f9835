"""Steps and fairness: what three durable steps leave of the throughput, and how long a small tenant waits."""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench import measure
from bench.contenders.onward_steps import CONFIGS, FEW, MANY, PLAIN, STEPS
from bench.engines.limits import served
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, Rounds, say

__all__ = ["ON_POSTGRES", "ON_SQLITE", "StepsAndFairness"]

_JOBS = 20_000
_DONE, _WAITS = "processing, no-op jobs", "pick-up"
_SINGLE = "enqueue one by one"
_STEPS = 3


class StepsAndFairness:
    """A part of the page, for one store."""

    PACKAGES = ()

    def __init__(self, store: str, title: str) -> None:
        self.TITLE = f"Steps and fairness on {title}"
        self._store = store

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        os.environ["BENCH_STORE"] = self._store
        rounds, jobs = min(3, options.rounds), _JOBS // (8 if options.quick else 1)
        in_turns = Rounds(rounds)

        def processing(each: Contender) -> float:
            os.environ["BENCH_KIND"] = each.name
            return measure.processing(each, CONFIGS[0], jobs)

        def waits(each: Contender) -> list[float]:
            os.environ["BENCH_KIND"] = each.name
            return measure.pickup(each, CONFIGS[0], 60)

        with served(self._store) as engine:
            say("measuring")
            in_turns(_DONE, [Contender(name, "onward_steps", PYTHON) for name in (PLAIN, STEPS)], processing)
            single = 500 if options.quick else 3_000
            in_turns(
                _SINGLE, [Contender(PLAIN, "onward_steps", PYTHON)], lambda each: measure.rate(each, "enqueue", single)
            )
            in_turns(_WAITS, [Contender(name, "onward_steps", PYTHON) for name in (FEW, MANY)], waits)
        return {
            "engine": engine,
            "rounds": rounds,
            "configurations": dict.fromkeys((PLAIN, STEPS), CONFIGS[0]),
            "jobs": dict.fromkeys((PLAIN, STEPS), jobs),
            "measures": in_turns.measures,
            "noise": in_turns.noise,
        }

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        measures = results["measures"]
        in_rounds = zip(measures[_DONE], measures[_SINGLE], strict=True)
        return [
            (
                "A step beside a job enqueued on its own: each is one durable write",
                middle([_STEPS * done[STEPS] / single[PLAIN] for done, single in in_rounds]),
                0.5,
            ),
            (
                f"A small tenant's wait, p95: {FEW} to {MANY}",
                middle([_late(row[FEW]) / _late(row[MANY]) for row in measures[_WAITS]]),
                0.5,
            ),
        ]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            "Everything is Onward, by `onward worker` with 2 processes. A step is noted durably before the next one begins. "
            "The waits are those of single jobs of a small tenant, from the enqueue to the handler's first line, while so "
            "many jobs of 5 ms of another tenant wait that came before it, with `fair_by`."
        )


def _late(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.95)]


ON_SQLITE = StepsAndFairness("sqlite", "SQLite")
ON_POSTGRES = StepsAndFairness("postgres", "PostgreSQL")
