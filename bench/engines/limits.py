"""Limits and lanes: what they leave of the throughput that plain jobs have, on one store.

Contenders here are the same program with other declarations.  What a pinned snapshot leaves is measured by the proof of it.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from bench import measure
from bench.contenders.onward_laned import CONFIGS, ELSEWHERE, HUNDRED, KINDS, PLAIN, TWO
from bench.measure import PYTHON, Contender
from bench.rounds import Figure, Rounds, beside, say
from tests.proof import snapshots
from tests.servers.postgres import postgres_server

__all__ = ["ON_POSTGRES", "ON_SQLITE", "Limits", "served"]

_JOBS = {0: 60_000, 100: 4_000, 20: 8_000}  # by milliseconds of a job
_SNAPSHOT_LANES = (2, 1_000)
_BARS = {100: 0.9, 20: 0.7}


class Limits:
    """A part of the page, for one store."""

    PACKAGES = ()

    def __init__(self, store: str, title: str) -> None:
        self.TITLE = f"Limits and lanes on {title}"
        self._store = store

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        os.environ["BENCH_STORE"] = self._store
        with served(self._store) as engine:
            return self._measured(options) | {"engine": engine}

    def _measured(self, options: argparse.Namespace) -> dict[str, Any]:
        rounds = min(3, options.rounds)
        in_turns = Rounds(rounds)
        jobs = {name: _JOBS[kind.ms] // (8 if options.quick else 1) for name, kind in KINDS.items()}
        config = {name: CONFIGS[kind.ms > 0] for name, kind in KINDS.items()}

        def processing(each: Contender) -> float:
            os.environ["BENCH_KIND"] = each.name
            return measure.processing(each, config[each.name], jobs[each.name])

        say("measuring")
        for ms in _JOBS:
            alike = [Contender(name, "onward_laned", PYTHON) for name, kind in KINDS.items() if kind.ms == ms]
            in_turns(_title(ms), alike, processing)
        return {
            "rounds": rounds,
            "configurations": config,
            "jobs": jobs,
            "measures": in_turns.measures,
            "noise": in_turns.noise,
            "snapshot": self._behind_a_snapshot(8.0 if options.quick else 60.0),
        }

    def _behind_a_snapshot(self, seconds: float) -> dict[str, float]:
        """What a pinned snapshot leaves of the speed, by number of lanes, where a store has such a thing."""
        if self._store != "postgres":
            return {}
        found = {}
        for lanes in _SNAPSHOT_LANES:
            ledger = snapshots.behind_a_snapshot(
                os.environ["BENCH_POSTGRES"], seconds=seconds, lanes=lanes, tell=lambda _: None
            )
            say(f"  {ledger}")
            found[str(lanes)] = ledger.figures["percent during"] / 100
        return found

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        quick = results["measures"][_title(0)]
        limited = [
            (
                f"A limit of 40 beside none, 4 processes of 10 slots, jobs of {ms} ms",
                beside(results["measures"][_title(ms)], f"limit of 40, {ms} ms", [f"unlimited, {ms} ms"]),
                bar,
            )
            for ms, bar in _BARS.items()
        ]
        pinned = [
            (f"Turns behind a pinned snapshot beside turns without one, {int(lanes):,} lanes", ratio, 0.5)
            for lanes, ratio in results["snapshot"].items()
        ]
        return [
            ("Plain jobs beside plain jobs of a store without limits", beside(quick, ELSEWHERE, [PLAIN]), 0.98),
            ("Two lanes beside plain jobs", beside(quick, TWO, [PLAIN]), 0.7),
            ("A hundred lanes beside plain jobs", beside(quick, HUNDRED, [PLAIN]), 0.5),
            *limited,
            *pinned,
        ]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            "Everything is Onward: the same jobs with lanes, limits or neither, and history kept. No-op jobs are run by "
            "`onward worker` with 2 processes; jobs that take a while by 4 processes of 10 slots, with a limit of as many "
            "as there are slots: what it costs is the claim's lock, and that a claim takes no more than can begin."
        )


@contextmanager
def served(store: str) -> Iterator[str]:
    """Have a store served, and yield what it is."""
    if store == "sqlite":
        yield f"SQLite {sqlite3.sqlite_version}"
        return
    with postgres_server("15", in_memory=False) as server:  # its commits are to cost what they cost
        os.environ["BENCH_POSTGRES"] = server.url()
        with psycopg.connect(server.url()) as connection:
            version = connection.info.server_version
        yield f"PostgreSQL {version // 10_000}.{version % 10_000}, fsync and synchronous_commit on"


def _title(ms: int) -> str:
    return f"processing, jobs of {ms} ms" if ms else "processing, no-op jobs"


ON_SQLITE = Limits("sqlite", "SQLite")
ON_POSTGRES = Limits("postgres", "PostgreSQL")
