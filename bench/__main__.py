"""``python -m bench --peers PYTHON``: measures, prints ratios, and writes the results page.

Every engine is a part of the page.  ``--only postgres`` measures that one; the others stay as they were.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import body, page
from bench.engines import (
    beanstalkd,
    counters,
    flows,
    growth,
    limits,
    mariadb,
    memory,
    plain_turns,
    postgres,
    redis,
    sqlite,
    steps,
)
from bench.rounds import say

ENGINES: dict[str, Any] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "mariadb": mariadb,
    "redis": redis,
    "beanstalkd": beanstalkd,
    "limits on sqlite": limits.ON_SQLITE,
    "limits on postgres": limits.ON_POSTGRES,
    "plain turns on sqlite": plain_turns.ON_SQLITE,
    "plain turns on mariadb": plain_turns.ON_MARIADB,
    "flows on sqlite": flows.ON_SQLITE,
    "flows on postgres": flows.ON_POSTGRES,
    "counters on sqlite": counters.ON_SQLITE,
    "steps on sqlite": steps.ON_SQLITE,
    "steps on postgres": steps.ON_POSTGRES,
    "growth on sqlite": growth.ON_SQLITE,
    "growth on postgres": growth.ON_POSTGRES,
    "growth on redis": growth.ON_REDIS,
    "memory": memory,
}
HERE = Path(__file__).parent.parent


def main() -> int:
    options = _options()
    results = page.read(HERE / "docs")
    in_memory = body.COUNTERS
    for name in [] if options.page else options.only or _without_earlier(options):
        say(f"{name}:")
        with (
            tempfile.TemporaryDirectory(prefix="onward-bench-", dir=options.disk) as folder,
            tempfile.TemporaryDirectory(prefix="onward-bench-", dir=in_memory) as counters,
        ):
            os.environ |= {"BENCH_FOLDER": folder, "BENCH_COUNTERS": counters}
            body.FOLDER, body.COUNTERS = Path(folder), Path(counters)
            os.environ["PYTHONPATH"] = str(HERE)
            _compile_once(folder)
            results[name] = _described(options.peers, ENGINES[name].PACKAGES) | ENGINES[name].run(options)
        for line in page.figures(ENGINES[name], results[name]):
            say(line)
    if options.write or options.page:
        page.write(ENGINES, results, HERE / "docs")
        print(f"written: {page.PAGE} and {page.DATA}")
    return 0


def _without_earlier(options: argparse.Namespace) -> list[str]:
    """What is measured unless it is named: what needs an earlier commit only if there is one."""
    return [name for name in ENGINES if options.before is not None or not name.startswith("plain turns")]


def _compile_once(folder: str) -> None:
    """What was installed has its bytecode beside it, and so have the peers; what runs from a source tree gets it here."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"


def _described(peers: Path, packages: tuple[str, ...]) -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}",
        "versions": {"Python": platform.python_version()} | _versions(peers, packages),
    }


def _commit() -> str:
    """What is measured.  With a plus where the source holds what is not committed."""
    asked = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    return subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()


def _versions(peers: Path, packages: tuple[str, ...]) -> dict[str, str]:
    # Those in folders of their own, or for a later Python, come last, and do not hide what the others use.
    code = (
        "import importlib.metadata as m, pathlib, sys\n"
        "found = {}\n"
        "prefix = pathlib.Path(sys.prefix)\n"
        "apart = [*map(str, (*prefix.glob('apart/*'), *prefix.glob('later/lib/python*/site-packages')))]\n"
        "for d in m.distributions(path=sys.path + apart): found.setdefault(d.metadata['Name'].lower(), d.version)\n"
        "for each in found.items(): print(*each)"
    )
    listed = subprocess.run([peers, "-c", code], capture_output=True, text=True, check=True).stdout
    installed = dict(line.split() for line in listed.splitlines())
    return {name: installed[name] for name in packages if name in installed}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--peers", type=Path, required=True, help="the interpreter that has the peers installed")
    parser.add_argument(
        "--only", action="append", choices=list(ENGINES), help="measure this engine alone; may be repeated"
    )
    parser.add_argument("--disk", type=Path, default=HERE / "build", help="a folder on the disk to measure")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, for plain turns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="an eighth of the work: to try the bench, not to quote it")
    parser.add_argument("--write", action="store_true", help="write the results page")
    parser.add_argument(
        "--page", action="store_true", help="write the page from what was measured before, measure nothing"
    )
    options = parser.parse_args()
    options.disk.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
