"""The tests' claims at full scale, and a ledger of what they have shown.

    python -m tools.proof                    a million claims, minutes of contention, the model walked at random: 15 minutes
    python -m tools.proof --scale 0.1        a tenth of it; ONWARD_PROOF_SCALE says the same
    python -m tools.proof --only log         the proofs with this in their names

The proofs are those of `tests/proof`, run as they are there, and tests on real servers that grow with the scale.  Then the
contract is run, and every model is searched for a counterexample with Hypothesis's proof profile, until it is through or its
time is over.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from onward import __version__
from tests.proof.ledger import Ledger
from tests.proof.proofs import PROOFS, Proof

ROOT = Path(__file__).parents[1]
CONTRACT = "tests/contract"
MODELS = "tests/model/test_*.py"
# Tests that grow with the scale and need a server: restarts and ended sessions, lost answers, backlogs, plans, a week of
# samples, damage.
ON_SERVERS = (
    "tests/backends/postgres/test_restarts.py",
    "tests/backends/postgres/test_failures.py",
    "tests/backends/postgres/test_backlog.py",
    "tests/backends/postgres/test_queries.py",
    "tests/backends/mysql/test_restarts.py",
    "tests/backends/mysql/test_queries.py",
    "tests/operate/series/test_sampling.py",
    "tests/damage",
)
SECONDS_OF_SEARCH = 600  # for all models together

_INTERRUPTED = 2  # pytest's exit code
_PASSED = re.compile(r"(\d+) passed")
_SHOWN = re.compile(
    r"^=+ what this run has shown =+\n(.*?)^(?:=|\d+ (?:passed|failed|error))", re.MULTILINE | re.DOTALL
)
_FAILED = re.compile(r"\d+ (failed|error)")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.proof", description="The tests' claims at full scale.")
    parser.add_argument("--scale", type=float, default=float(os.environ.get("ONWARD_PROOF_SCALE", "1")))
    parser.add_argument("--only", default="", metavar="WORD", help="the proofs with this in their names")
    options = parser.parse_args(arguments)
    # A shell has it ignored for what runs in the background, and the runs that we end by it would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    chosen = {name: run for name, run in _everything().items() if options.only in name}
    if not chosen:
        parser.error(f"no proof has {options.only!r} in its name: {', '.join(_everything())}")
    ledgers = [run(name, options.scale) for name, run in chosen.items()]
    print(f"\nWhat this has shown, at scale {options.scale:g}, with {_versions()}:")
    for ledger in ledgers:
        print(f"  {'ok  ' if ledger.flawless else 'FAIL'} {ledger}")
    return 0 if all(ledger.flawless for ledger in ledgers) else 1


def _everything() -> dict[str, Callable[[str, float], Ledger]]:
    """What there is to prove, by name."""
    models = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(MODELS))
    return {
        **{proof.__name__.replace("_", " "): partial(_prove, proof) for proof in PROOFS},
        **{path: lambda name, scale: _pytest(name, None, scale=scale, processes=0) for path in ON_SERVERS},
        CONTRACT: lambda name, _: _pytest(name, None),
        **{model: lambda name, scale: _pytest(name, SECONDS_OF_SEARCH * scale / len(models)) for model in models},
    }


def _prove(proof: Proof, name: str, scale: float) -> Ledger:
    _say(f"{name} ...")
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        return proof(Path(folder), scale, lambda done: _say(f"  {done:,}"))


def _pytest(path: str, seconds: float | None, *, scale: float | None = None, processes: int = 2) -> Ledger:
    """Run tests with the proof profile, for so long at the most; what they did not find by then, they did not find."""
    _say(f"{path} ...")
    begun = time.monotonic()
    # A single test has no limit of its own.
    spread = ["-n", str(processes)] if processes else []
    command = [sys.executable, "-m", "pytest", "-x", "-q", *spread, "--timeout=0", path]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "proof"}
    if scale is not None:
        environment["ONWARD_PROOF_SCALE"] = str(scale)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        stopped = False
        try:
            output, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            stopped = True
            running.send_signal(signal.SIGINT)
            output, _ = running.communicate()
    # Interrupted is also what a run calls itself that stopped at its first failure.
    interrupted = stopped and running.returncode == _INTERRUPTED and not _FAILED.search(output)
    well = running.returncode == 0 or interrupted
    if not well:
        print(output)
    passed = _PASSED.search(output)
    if shown := _SHOWN.search(output):
        print(shown[1].rstrip())
    return Ledger(
        path,
        {
            "tests passed": int(passed[1]) if passed else 0,
            "out of time": int(stopped),
            "seconds": time.monotonic() - begun,
        },
        {"failed": int(not well)},
    )


def _versions() -> str:
    return (
        f"Onward {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"msgspec {version('msgspec')}, Hypothesis {version('hypothesis')}, {os.cpu_count()} processors"
    )


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
