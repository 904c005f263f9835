"""The parts of the proof: what each runs, on which engine, and how many seconds it takes on two cores at full scale.

The seconds are the plan: together they must stay within four hours (`python -m tools.proof --list`).  A run shows the rest
by the seconds of the run before it, where there was one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.proof import proofs
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tools.proof_part import EVERY, ROOT, Part

__all__ = ["PARTS"]

SECONDS_OF_SEARCH = 300  # for all models together

_INTERRUPTED = 2  # pytest's exit code
_PASSED = re.compile(r"(\d+) passed")
_SHOWN = re.compile(
    r"^=+ what this run has shown =+\n(.*?)^(?:=|\d+ (?:passed|failed|error))", re.MULTILINE | re.DOTALL
)
_FAILED = re.compile(r"\d+ (failed|error)")


def _proof(prove: proofs.Proof, engine: str, seconds: int, *, measures: bool = False) -> Part:
    return Part(prove.__name__.replace("_", " "), engine, seconds, prove, measures)


@dataclass(frozen=True)
class _Pytest:
    """Tests, run with the proof profile."""

    path: str
    processes: int
    search: float | None  # seconds: what they did not find by then, they did not find

    def __call__(self, folder: Path, scale: float, tell: Tell) -> Ledger:
        begun = time.monotonic()
        # A single test has no limit of its own.
        spread = ["-n", str(self.processes)] if self.processes else []
        command = [sys.executable, "-m", "pytest", "-x", "-q", *spread, "--timeout=0", self.path]
        counts = folder / "counts.jsonl"
        environment = os.environ | {"HYPOTHESIS_PROFILE": "proof", "PROOF_COUNTS": str(counts)}
        environment["ONWARD_PROOF_SCALE"] = str(scale)
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
            stopped = False
            try:
                output, _ = running.communicate(timeout=None if self.search is None else self.search * scale)
            except subprocess.TimeoutExpired:
                stopped = True
                running.send_signal(signal.SIGINT)
                output, _ = running.communicate()
        tell(0)
        # Interrupted is also what a run calls itself that stopped at its first failure.
        interrupted = stopped and running.returncode == _INTERRUPTED and not _FAILED.search(output)
        well = running.returncode == 0 or interrupted
        if not well:
            print(output)
        passed = _PASSED.search(output)
        if shown := _SHOWN.search(output):
            print(shown[1].rstrip())
        ledger = Ledger(
            self.path,
            {
                "tests passed": int(passed[1]) if passed else 0,
                "out of time": int(stopped),
                "seconds": time.monotonic() - begun,
            },
            {"failed": int(not well)},
        )
        return ledger.with_counts(counts)


def _tests(path: str, engine: str, seconds: int, *, processes: int = 0, search: float | None = None) -> Part:
    """Tests that grow with the scale; with ``search``, for so many seconds at full scale at the most."""
    # Beside another part a search would not come as far.
    return Part(path, engine, seconds, _Pytest(path, processes, search), measures=search is not None)


def _models() -> list[Part]:
    """Every model is searched for a counterexample, until it is through or its time is over."""
    paths = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/model/test_*.py"))
    engines = {"mysql": "mariadb", "lease_protocol": "no store"}
    share = SECONDS_OF_SEARCH // len(paths)
    named = [(path, Path(path).stem.removeprefix("test_")) for path in paths]
    return [_tests(path, engines.get(name, name), share + 10, processes=2, search=share) for path, name in named]


PARTS: tuple[Part, ...] = (
    _proof(proofs.processes_share_a_file, "sqlite", 220),
    _proof(proofs.threads_share_a_file, "sqlite", 100),
    _proof(proofs.threads_share_memory, "memory", 60),
    _proof(proofs.processes_enqueue_one_by_one, "sqlite", 120, measures=True),
    _proof(proofs.many_rivals_for_one_key, "sqlite", 30),
    _proof(proofs.log_behind_a_reader, "sqlite", 60),
    _proof(proofs.worker_on_a_file, "sqlite", 150),
    _proof(proofs.worker_on_postgres, "postgres", 200),
    _proof(proofs.worker_on_mariadb, "mariadb", 250),
    _proof(proofs.worker_in_memory, "memory", 60),
    _proof(proofs.worker_processes_are_killed, "sqlite", 300),
    _proof(proofs.worker_processes_are_killed_on_postgres, "postgres", 300),
    _proof(proofs.worker_processes_are_killed_on_mariadb, "mariadb", 300),
    _proof(proofs.worker_processes_are_killed_on_redis, "redis", 300),
    _proof(proofs.keys_on_postgres, "postgres", 120),
    _proof(proofs.keys_on_mariadb, "mariadb", 150),
    _proof(proofs.transactions_on_a_file, "sqlite", 180),
    _proof(proofs.transactions_on_postgres, "postgres", 180),
    _proof(proofs.transactions_on_mariadb, "mariadb", 180),
    _proof(proofs.jobs_are_transferred, EVERY, 300),
    _proof(proofs.claims_behind_a_snapshot, "postgres", 350, measures=True),
    _proof(proofs.claims_of_two_lanes_behind_a_snapshot, "postgres", 250, measures=True),
    _proof(proofs.claims_of_many_lanes_behind_a_snapshot, "postgres", 250, measures=True),
    _proof(proofs.claims_in_full_tables, "postgres", 150, measures=True),
    _proof(proofs.looks_at_a_full_file, "sqlite", 150, measures=True),
    _proof(proofs.looks_at_full_tables, "postgres", 200, measures=True),
    _proof(proofs.looks_at_full_tables_of_mariadb, "mariadb", 400, measures=True),
    _proof(proofs.watchers_of_a_file, "sqlite", 260, measures=True),
    _proof(proofs.watchers_of_tables, "postgres", 260, measures=True),
    _proof(proofs.watchers_of_the_dashboard, "sqlite", 150, measures=True),
    _proof(proofs.redis_is_killed, "redis", 100),
    _proof(proofs.schedules_on_a_file, "sqlite", 240),
    _proof(proofs.schedules_on_postgres, "postgres", 240),
    _proof(proofs.schedules_on_mariadb, "mariadb", 240),
    _proof(proofs.schedules_on_redis, "redis", 240),
    _proof(proofs.a_limit_under_fire_on_a_file, "sqlite", 150),
    _proof(proofs.a_limit_under_fire_on_postgres, "postgres", 150),
    _proof(proofs.a_limit_under_fire_on_mariadb, "mariadb", 200),
    _proof(proofs.a_limit_under_fire_on_redis, "redis", 150),
    _proof(proofs.a_rate_on_a_file, "sqlite", 80, measures=True),
    _proof(proofs.a_rate_on_postgres, "postgres", 80, measures=True),
    _proof(proofs.a_rate_on_mariadb, "mariadb", 80, measures=True),
    _proof(proofs.a_rate_on_redis, "redis", 80, measures=True),
    _proof(proofs.tenants_take_turns_on_a_file, "sqlite", 200, measures=True),
    _proof(proofs.tenants_take_turns_on_postgres, "postgres", 250, measures=True),
    _proof(proofs.tenants_take_turns_on_mariadb, "mariadb", 400, measures=True),
    _proof(proofs.tenants_take_turns_on_redis, "redis", 150, measures=True),
    _proof(proofs.flows_under_fire_on_a_file, "sqlite", 400),
    _proof(proofs.flows_under_fire_on_postgres, "postgres", 400),
    _proof(proofs.flows_under_fire_on_mariadb, "mariadb", 500),
    _proof(proofs.flows_under_fire_on_redis, "redis", 400),
    _proof(proofs.chord_on_a_file, "sqlite", 120),
    _proof(proofs.chord_on_postgres, "postgres", 120),
    _proof(proofs.chord_on_mariadb, "mariadb", 200),
    _proof(proofs.chord_on_redis, "redis", 100),
    _tests("tests/backends/postgres", "postgres", 650, processes=2),
    _tests("tests/backends/mysql/test_restarts.py", "mariadb", 300),
    _tests("tests/backends/redis", "redis", 250, processes=2),
    _tests("tests/backends/mysql/test_queries.py", "mariadb", 200),
    _tests("tests/operate/series/test_sampling.py", EVERY, 120),
    _tests("tests/damage", EVERY, 600),
    _tests("tests/supervisor", EVERY, 240, processes=2),
    _tests("tests/contract", EVERY, 400, processes=2),
    *_models(),
)
