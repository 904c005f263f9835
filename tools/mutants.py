"""Break the code on purpose: each known way to lose or repeat a job must be noticed by a test.

    python -m tools.mutants                  apply them all, one at a time; exit 1 if one goes unnoticed
    python -m tools.mutants --only M1 M3
    python -m tools.mutants --list

A mutant is a named change of a few lines.  It is applied to a copy of the tree, and the tests that are expected to notice
are run there.  Without it they must pass.  With it one of them must fail, by an assertion: a mutant that breaks the program
altogether, so that not even an ordinary job gets through, would be noticed by anything and proves nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tools.seeded_bugs import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "tools", "pyproject.toml")
SECONDS = 120
ORDINARY = "tests/proof/test_programs.py::test_an_ordinary_job_succeeds"

_PASSED = "nothing failed"
_FAILURE = re.compile(r"^FAILED \S+::(?P<test>\w+)(\[.*?\])?( - (?P<why>.*))?$", re.MULTILINE)
_OUR_OWN = ("ONWARD_", "PYTEST_", "HYPOTHESIS_")  # settings of the run that we are part of


class DoesNotMatch(Exception):
    """The code has changed: the mutant must follow it."""


class Verdict(NamedTuple):
    words: str  # the test that noticed, or why none did
    noticed: bool = False
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None, root: Path = ROOT, mutants: Sequence[Mutant] = MUTANTS) -> int:
    options = _parser(mutants).parse_args(arguments)
    chosen = [mutant for mutant in mutants if not options.only or mutant.number in options.only]
    if options.list:
        print("\n".join(f"{mutant.number:4} {mutant.breaks}" for mutant in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        # One snapshot for all: the working tree may go on changing.
        snapshot = copy_of(root, Path(folder) / "snapshot")
        tests = dict.fromkeys(test for mutant in chosen for test in mutant.noticed_by)
        unchanged = judge(snapshot, [ORDINARY, *tests], seconds=SECONDS * max(1, len(chosen)))
        print(f"without a mutant: {unchanged.words}, {unchanged.seconds:.1f} s", flush=True)
        return 1 if unchanged.words != _PASSED else _try_all(chosen, snapshot)


def try_out(mutant: Mutant, snapshot: Path) -> Verdict:
    """Apply it to a copy of its own, and see whether its tests notice."""
    try:
        changed = mutated(mutant, snapshot)
    except DoesNotMatch as error:
        return Verdict(str(error))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = copy_of(snapshot, Path(folder) / "tree")
        for file, text in changed.items():
            (tree / file).write_text(text, encoding="utf-8")
        return judge(tree, [ORDINARY, *mutant.noticed_by])


def mutated(mutant: Mutant, root: Path) -> dict[str, str]:
    """The changed files by name."""
    texts: dict[str, str] = {}
    for file, old, new in mutant.edits:
        if file not in texts:
            texts[file] = (root / file).read_text(encoding="utf-8") if (root / file).exists() else ""
        if (found := texts[file].count(old)) != 1:
            raise DoesNotMatch(f"does not match: {file} has this text {found} times: {old.strip()!r:.100}")
        texts[file] = texts[file].replace(old, new)
    return texts


def judge(tree: Path, tests: Sequence[str], seconds: float = SECONDS) -> Verdict:
    """Run tests in a tree, against that tree's own code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OUR_OWN)}
    # Wide, so that the reason of a failure stands beside its name.
    environment |= {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "999"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    begun = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Verdict(f"no end after {seconds:.0f} s", seconds=time.monotonic() - begun)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)  # with the processes that its tests have started
    words, noticed = _read(running.returncode, output)
    return Verdict(words, noticed, time.monotonic() - begun)


def copy_of(root: Path, tree: Path) -> Path:
    tree.mkdir()
    for source in (root / name for name in COPIED):
        if source.is_dir():
            shutil.copytree(source, tree / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree)
    return tree


def _parser(mutants: Sequence[Mutant]) -> argparse.ArgumentParser:
    numbers = list(dict.fromkeys(mutant.number for mutant in mutants))
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Break the code; tests must notice.")
    parser.add_argument("--only", nargs="+", metavar="NUMBER", choices=numbers, help=f"some of {' '.join(numbers)}")
    parser.add_argument("--list", action="store_true", help="name them and change nothing")
    return parser


def _try_all(mutants: Sequence[Mutant], snapshot: Path) -> int:
    unnoticed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, verdict in zip(mutants, pool.map(lambda each: try_out(each, snapshot), mutants), strict=True):
            unnoticed += not verdict.noticed
            mark = "noticed by" if verdict.noticed else "UNNOTICED:"
            print(f"{mutant.number:4} {mutant.breaks:75} {verdict.seconds:5.1f} s  {mark} {verdict.words}", flush=True)
    print(f"{len(mutants) - unnoticed} of {len(mutants)} mutants were noticed")
    return 1 if unnoticed else 0


def _read(code: int, output: str) -> tuple[str, bool]:
    """What pytest's words mean."""
    if code == 0:
        return _PASSED, False
    failure = _FAILURE.search(output)
    if code != 1 or failure is None:
        return "the tests could not run: " + " / ".join(output.strip().splitlines()[-3:]), False
    test, why = failure["test"], failure["why"] or ""
    if ORDINARY.endswith(f"::{test}"):
        return "not even an ordinary job gets through", False
    if not why.startswith(("assert", "AssertionError")):
        return f"{test} broke down instead of failing: {why}", False
    return test, True


if __name__ == "__main__":
    sys.exit(main())
