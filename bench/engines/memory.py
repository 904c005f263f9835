"""Memory and start: `onward worker`, with worker processes that are forked and not, beside Celery's usual pool.

What an application reads into memory when it is imported is there once for all processes, if they are forked afterwards.  So
the same application weighs nothing in one round and 100 MB in the next.  Memory is the proportional set size of all
processes, supervisor and template included, after some thousand jobs: pages that several processes share count once.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench import measure
from bench.engines.redis import SETTINGS
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, say
from tests.servers.redis import free_port, redis_server

TITLE = "Memory and start"
PACKAGES = ("celery",)

FORKED, FRESH, CELERY = "onward", "onward, --no-preload", "celery"
_OPTIONS = {FORKED: "", FRESH: "--no-preload"}
_MODULES = {FORKED: "onward_forks", FRESH: "onward_forks", CELERY: "celery_prefork"}
_CASES = {
    "bare, 1 process": (0, "1 process"),
    "bare, 2 processes": (0, "2 processes"),
    "bare, 8 processes": (0, "8 processes"),
    "100 MB, 2 processes": (100, "2 processes"),
    "100 MB, 8 processes": (100, "8 processes"),
}
_JOBS = 4_000
_MEBIBYTES = 70.0  # that two processes with a bare application may take
_BESIDE_CELERY = 1.1  # times what Celery takes


def run(options: argparse.Namespace) -> dict[str, Any]:
    port = free_port()
    with redis_server("redis", in_memory=False, port=port, **SETTINGS):
        os.environ["BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"
        rounds = min(3, options.rounds)
        feet: dict[str, list[dict[str, float]]] = {}
        for number in range(rounds):
            for case in _CASES:
                for name in _MODULES:
                    foot = _footprint(name, case, options)
                    feet.setdefault(f"{name}: {case}", []).append(foot)
                    say(f"  round {number + 1}, {name}, {case}: {foot}")
    return {
        "engine": "SQLite for Onward, Redis for Celery",
        "rounds": rounds,
        "configurations": dict.fromkeys(feet, "10 threads in each process; Celery: one job at a time in each"),
        "jobs": dict.fromkeys(feet, _jobs(options)),
        "measures": {},
        "feet": feet,
        "footprint": {
            name: {key: middle([each[key] for each in rows]) for key in rows[0]} for name, rows in feet.items()
        },
    }


def figures(results: dict[str, Any]) -> list[Figure]:
    feet = results["feet"]
    bare = middle([foot["memory_mb"] for foot in feet[f"{FORKED}: bare, 2 processes"]])
    return [
        ("Two processes, a bare application: 70 MiB beside what they take", _MEBIBYTES / bare, 1.0),
        (
            "Eight processes, an application of 100 MB: Celery's memory beside ours",
            _beside(feet, "100 MB, 8 processes", CELERY, "memory_mb"),
            1 / _BESIDE_CELERY,
        ),
        (
            "Two processes, a bare application: start to first job without preloading beside with it",
            _beside(feet, "bare, 2 processes", FRESH, "start_s"),
            1.0,
        ),
        (
            "Eight processes, an application of 100 MB: memory without preloading beside with it",
            _beside(feet, "100 MB, 8 processes", FRESH, "memory_mb"),
            2.0,
        ),
    ]


def fairness(_: dict[str, Any]) -> str:
    return (
        "Memory is the proportional set size of all processes after the jobs. Celery is a parent and its pool, one job at a "
        "time in each process (`-P prefork`); Onward is a supervisor, a template and its worker processes, each with ten "
        "handler threads and a connection to SQLite. A single process of Onward is not forked."
    )


def _beside(feet: dict[str, list[dict[str, float]]], case: str, other: str, what: str) -> float:
    pairs = zip(feet[f"{other}: {case}"], feet[f"{FORKED}: {case}"], strict=True)
    return middle([theirs[what] / ours[what] for theirs, ours in pairs])


def _footprint(name: str, case: str, options: argparse.Namespace) -> dict[str, float]:
    weight, config = _CASES[case]
    os.environ |= {"BENCH_WEIGHT": str(weight), "BENCH_OPTIONS": _OPTIONS.get(name, "")}
    contender = Contender(name, _MODULES[name], options.peers if name == CELERY else PYTHON)
    return measure.footprint(contender, config, jobs=_jobs(options), seconds=1 if options.quick else 5)


def _jobs(options: argparse.Namespace) -> int:
    return _JOBS // (4 if options.quick else 1)
