"""mypy refuses the wrong lines of cases.py and no others."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("cases.py")

_EXPECTED = re.compile(r"# E: (?P<text>.+)$")
_ERROR = re.compile(r"cases\.py:(?P<line>\d+): error: (?P<text>.+)$", re.MULTILINE)


def test_mypy_refuses_exactly_the_lines_that_are_marked() -> None:
    expected = {
        number: match["text"]
        for number, line in enumerate(CASES.read_text().splitlines(), start=1)
        if (match := _EXPECTED.search(line))
    }

    refused, output = check(CASES)

    assert refused.keys() == expected.keys(), output
    for line, text in expected.items():
        assert text in refused[line]


def check(path: Path) -> tuple[dict[int, str], str]:
    """What mypy says about the file: the errors of each line, and all of it for a reader."""
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--hide-error-context", "--no-error-summary", "--no-pretty", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # 2 means that mypy itself failed, which would look like a file without errors.
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    refused: dict[int, str] = {}
    for match in _ERROR.finditer(ran.stdout):
        line = int(match["line"])
        refused[line] = refused.get(line, "") + match["text"] + "\n"
    return refused, ran.stdout
