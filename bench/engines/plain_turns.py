"""What lanes and limits cost those who do not use them: turns of plain jobs beside an earlier commit, ``--before FOLDER``.

Processor time is measured and not the time that passes: the machine may be shared.  What the server of a database needs is
read from its process.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import body
from bench.measure import PYTHON, middle
from bench.rounds import Figure, say
from tests.servers.mariadb import mariadb_server

__all__ = ["ON_MARIADB", "ON_SQLITE", "PlainTurns"]

NOW, BEFORE = "this commit", "before lanes"
_SIZES = {1: (50, 60), 10: (20, 60), 100: (5, 60)}  # jobs of a turn: turns of a block, and blocks
_ARM = Path(__file__).parents[1] / "contenders" / "plain_turns.py"
_HERE = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


class _Served(NamedTuple):
    engine: str
    places: dict[str, str]  # where each of the two has its jobs
    server: int | None  # the process of the server


class PlainTurns:
    """A part of the page, for one store."""

    PACKAGES = ()

    def __init__(self, store: str, title: str) -> None:
        self.TITLE = f"Plain jobs beside the time before lanes, on {title}"
        self._store = store

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        if options.before is None:
            raise SystemExit(
                "plain turns are measured beside an earlier commit: --before FOLDER, with its source in it"
            )
        trees = {NOW: _HERE, BEFORE: options.before}
        measures = {}
        with _served(self._store) as served:
            for jobs, (turns, blocks) in _SIZES.items():
                title = f"turns of {jobs} jobs" if jobs > 1 else "turns of one job"
                rows = self._measured(served, trees, jobs, turns, blocks // (8 if options.quick else 1))
                measures[title] = rows
                say(f"  {title}: { ({name: round(middle([row[name] for row in rows])) for name in trees}) }")
            return {
                "engine": served.engine,
                "rounds": len(next(iter(measures.values()))),
                "configurations": dict.fromkeys(trees, "processor time of one connection"),
                "jobs": {
                    name: sum(jobs * turns * blocks for jobs, (turns, blocks) in _SIZES.items()) for name in trees
                },
                "measures": measures,
            }

    def figures(self, results: dict[str, Any]) -> list[Figure]:
        return [
            (
                f"{title[0].upper()}{title[1:]} beside those before lanes",
                middle([row[NOW] / row[BEFORE] for row in rows]),
                0.98,
            )
            for title, rows in results["measures"].items()
        ]

    def fairness(self, _: dict[str, Any]) -> str:
        return (
            "A turn settles so many jobs and claims as many. The commit before lanes and this one are measured in "
            "turn, block by block; a round is a block of both. Flows came in between, too."
        )

    def _measured(
        self, served: _Served, trees: dict[str, Path], jobs: int, turns: int, blocks: int
    ) -> list[dict[str, float]]:
        """Return how many turns each makes in a second of processor time, block by block."""
        rows = []
        with ExitStack() as stack:
            arms = {
                name: stack.enter_context(_arm(self._store, served.places[name], tree, jobs, turns * blocks))
                for name, tree in trees.items()
            }
            for number in range(blocks):
                row = {}
                for name in list(arms)[:: 1 if number % 2 else -1]:
                    before = _used(served.server)
                    took = middle(_block(arms[name], turns)) / 1e6
                    row[name] = 1 / (took + (_used(served.server) - before) / turns)
                rows.append(row)
        return rows


@contextmanager
def _served(store: str) -> Iterator[_Served]:
    if store == "sqlite":
        places = {name: str(body.COUNTERS / f"{number}.db") for number, name in enumerate((NOW, BEFORE))}
        yield _Served(f"SQLite {sqlite3.sqlite_version}, in memory", places, None)
        return
    with mariadb_server(in_memory=True) as server:
        places = {NOW: server.url("now"), BEFORE: server.url("earlier")}
        with closing(server.connect()) as connection:
            for name in ("now", "earlier"):
                connection.cursor().execute(f"CREATE DATABASE {name}")
        yield _Served("MariaDB, in memory", places, server.pid)


@contextmanager
def _arm(store: str, place: str, tree: Path, jobs: int, turns: int) -> Iterator[subprocess.Popen[str]]:
    command = [str(PYTHON), str(_ARM), store, place, str(jobs), str(turns)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def _block(arm: subprocess.Popen[str], turns: int) -> list[float]:
    assert arm.stdin is not None
    assert arm.stdout is not None
    arm.stdin.write(f"{turns}\n")
    arm.stdin.flush()
    took: list[float] = json.loads(arm.stdout.readline())
    return took


def _used(process: int | None) -> float:
    """Return the seconds of processor time that a process has used."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


ON_SQLITE, ON_MARIADB = PlainTurns("sqlite", "SQLite"), PlainTurns("mariadb", "MariaDB")
