"""Parts that take no time, and do what files in a folder tell them, for `test_proof`."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.proof.ledger import Ledger
from tools.proof_part import Part

FOLDER = Path(os.environ.get("PROOF_SAMPLE", "/nonexistent"))


def first(folder, scale, tell):
    _note("first")
    return Ledger("first", {"jobs": round(1_000 * scale), "pauses": 3}, {"lost": 0, "settled twice": 0})


def second(folder, scale, tell):
    """Stands still, with a process of its own, for as long as there is a file that says so."""
    _note("second")
    if (FOLDER / "stand still").exists():
        tell(7)
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (FOLDER / "other").write_text(str(other.pid))
        time.sleep(600)
    return Ledger("second", {"jobs": 10}, {"ticks missed": (FOLDER / "flaw").exists()})


def third(folder, scale, tell):
    _note("third")
    if (FOLDER / "raise").exists():
        raise RuntimeError("the server | did not start")
    name = 3 if (FOLDER / "nonsense").exists() else "third"
    return Ledger(name, {"jobs": 5, "kills of servers": 2}, {"lost": 0})


def waits_for_another(folder, scale, tell):
    """Ends when another such part has begun, too."""
    _note("one of two")
    deadline = time.monotonic() + 30
    while (FOLDER / "runs").read_text().count("one of two") < 2:
        if time.monotonic() > deadline:
            raise TimeoutError("no other part runs beside this one")
        time.sleep(0.01)
    _note("ended")
    return Ledger("one of two", {"jobs": 1}, {"lost": 0})


def measures(folder, scale, tell):
    _note("measures")
    return Ledger("measures", {"jobs": 1}, {"lost": 0})


def _note(name):
    with (FOLDER / "runs").open("a") as runs:
        runs.write(f"{name}\n")


PARTS = (Part("first", "sqlite", 5, first), Part("second", "redis", 5, second), Part("third", "sqlite", 5, third))
IN_PAIRS = (
    Part("measures", "sqlite", 5, measures, measures=True),
    Part("one", "sqlite", 5, waits_for_another),
    Part("the other", "redis", 5, waits_for_another),
)
