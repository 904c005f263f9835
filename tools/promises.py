"""Keep the list of promises honest: every promise is shown by a test, every test names a promise that exists.

    python -m tools.promises check    exit 1 and say why, if that does not hold or the page is out of date
    python -m tools.promises write    bring the page up to date

`docs/promises.md` holds one promise per bullet, and below each the tests that show it:

    - **S3** A job that was accepted is never lost.
      Shown by: [`test_a_job_survives_a_crash`](../tests/unit/test_reap.py)

The bullets are written by hand, the "Shown by" lines by this program.  A test names its promises with
``@pytest.mark.promise("S3", "F47")``; on a class it counts for each of its tests.  Tests are read, never
imported: the list can be checked where the tests cannot run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE = Path("docs/promises.md")
TEST_FOLDERS = (Path("tests"), Path("src/onward/testing/contract"))
MAX_SHOWN = 4

_ENTRY = re.compile(r"- \*\*(?P<number>[A-Z]+\d+|CVE-\d+-\d+)\*\*")
_SHOWN_BY = "  Shown by: "


class Test(NamedTuple):
    """A test that names promises; a class without tests of its own (they are inherited) counts as one."""

    path: Path
    line: int
    name: str
    promises: frozenset[str]


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.promises", description="Check or write docs/promises.md.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page = (root / PAGE).read_text(encoding="utf-8")
    tests = find_tests(root)
    current = with_shown_by(page, tests)
    complaints = find_complaints(page, tests)
    if command == "write":
        (root / PAGE).write_text(current, encoding="utf-8")
    elif page != current:
        complaints.append(f"{PAGE}: out of date, run `python -m tools.promises write`")

    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def find_tests(root: Path) -> list[Test]:
    """Every test that names a promise, in the order of the files and their lines."""
    paths = sorted(path for folder in TEST_FOLDERS for path in (root / folder).rglob("*.py"))
    return [
        Test(path.relative_to(root), line, name, promises)
        for path in paths
        for line, name, promises in _marked(ast.parse(path.read_bytes(), path), frozenset())
    ]


def find_complaints(page: str, tests: Sequence[Test]) -> list[str]:
    """What is wrong with the promises themselves, one line each."""
    promised = [number for number, _ in _entries(page)]
    shown = {number for test in tests for number in test.promises}
    return [
        *(f"{PAGE}: {number} is there twice" for number in dict.fromkeys(promised) if promised.count(number) > 1),
        *(f"{PAGE}: no test shows {number}" for number in dict.fromkeys(promised) if number not in shown),
        *(
            f"{test.path}:{test.line}: {test.name} names {number}, which is not promised"
            for test in tests
            for number in sorted(test.promises - set(promised))
        ),
    ]


def with_shown_by(page: str, tests: Sequence[Test]) -> str:
    """The page with the "Shown by" line of every entry made anew."""
    lines = [line for line in page.splitlines() if not line.startswith(_SHOWN_BY)]
    # From the last entry to the first, so that the places still to come do not move.
    for number, end in reversed(_entries("\n".join(lines))):
        if showing := [test for test in tests if number in test.promises]:
            lines.insert(end, _shown_by(showing))
    return "\n".join(lines) + "\n"


def _entries(page: str) -> list[tuple[str, int]]:
    """Each promise's number with the index of the line after it: a bullet goes on while lines are indented."""
    lines = page.splitlines()
    entries = []
    for start, line in enumerate(lines):
        if match := _ENTRY.match(line):
            end = start + 1
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            entries.append((match["number"], end))
    return entries


def _shown_by(tests: Sequence[Test]) -> str:
    links = [f"[`{test.name}`]({_link(test.path)})" for test in tests[:MAX_SHOWN]]
    more = f" and {len(tests) - MAX_SHOWN} more" if len(tests) > MAX_SHOWN else ""
    return _SHOWN_BY + ", ".join(links) + more


def _link(path: Path) -> str:
    return Path(os.path.relpath(path, PAGE.parent)).as_posix()


def _marked(parent: ast.Module | ast.ClassDef, inherited: frozenset[str]) -> Iterator[tuple[int, str, frozenset[str]]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            promises = inherited | _promises(node)
            tests = list(_marked(node, promises))
            yield from tests
            if promises and not tests:
                yield node.lineno, node.name, promises
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            promises = inherited | _promises(node)
            if promises:
                yield node.lineno, node.name, promises


def _promises(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The numbers in the ``…mark.promise("S3", "F47")`` decorators of a test or class."""
    return frozenset(
        ast.unparse(number).strip("'\"")
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.promise")
        for number in decorator.args
    )


if __name__ == "__main__":
    sys.exit(main())
