"""``python -m bench --peers PYTHON``: measures, prints ratios, and writes the results page."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import body, claim_cost, measure, page
from bench.measure import PYTHON, Contender, middle

RAW_MOVE, RAW_DELETE = (
    ("claim + move, batch 500", "claim + move, a statement per batch of 500"),
    "claim + delete, batch 500",
)
HERE = Path(__file__).parent.parent


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="onward-bench-", dir=options.disk) as folder:
        os.environ["BENCH_FOLDER"] = folder
        body.FOLDER = Path(folder)
        os.environ["PYTHONPATH"] = str(HERE)
        results = _run(options)
    if options.write:
        page.write(results, HERE / "docs")
        print(f"written: {page.PAGE} and {page.DATA}")
    return 0


def _run(options: argparse.Namespace) -> dict[str, Any]:
    onward = Contender("onward", "onward_sqlite", PYTHON)
    raw = Contender("raw SQLite", "raw_sqlite", PYTHON, RAW_MOVE)
    peers = [
        Contender("huey", "huey_sqlite", options.peers),
        Contender("litequeue", "litequeue_sqlite", options.peers),
        Contender("flexiq", "flexiq_sqlite", options.peers),
        Contender("quebec", "quebec_sqlite", options.peers),
    ]
    workers = [
        Contender("onward worker, 1 process", "onward_worker", PYTHON, ("1 process",)),
        Contender("onward worker, 2 processes", "onward_worker", PYTHON, ("2 processes",)),
    ]
    everybody = [onward, *workers, raw, *peers]
    jobs = {each.name: 4_000 for each in peers} | {each.name: 80_000 for each in (onward, *workers, raw)}
    if options.quick:
        jobs = {name: count // 8 for name, count in jobs.items()}
    print("choosing the fastest configuration of each", flush=True)
    chosen = {each.name: measure.fastest(each, jobs[each.name] // 2, _say) for each in everybody}
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": _machine(),
        "versions": _versions(options.peers),
        "rounds": options.rounds,
        "configurations": chosen,
        "jobs": jobs,
        "measures": {},
        "noise": [],
    }

    def in_turns(title: str, contenders: Sequence[Contender], once: Callable[[Contender], Any]) -> None:
        rows: list[dict[str, Any]] = []
        for number in range(options.rounds):
            rows.append({each.name: once(each) for each in contenders})
            results["noise"].append(measure.noise())
            _say(f"  {title}, round {number + 1}: {_shown(rows[-1])}")
        results["measures"][title] = rows

    print("measuring", flush=True)
    in_turns("processing", everybody, lambda each: measure.processing(each, chosen[each.name], jobs[each.name]))
    delete = Contender("raw SQLite", "raw_sqlite", PYTHON, (RAW_DELETE,))
    in_turns("processing, delete only", [delete], lambda each: measure.processing(each, RAW_DELETE, jobs[each.name]))
    single = 500 if options.quick else 3_000
    in_turns("enqueue one by one", [onward, raw, *peers], lambda each: measure.rate(each, "enqueue", single))
    in_turns("enqueue, 16 threads", [onward], lambda each: measure.rate(each, "crowd", single * 4, 16))
    in_turns("bulk enqueue", [onward, raw], lambda each: measure.rate(each, "bulk", jobs[each.name]))
    retrying = [workers[-1], *(each for each in peers if each.name != "litequeue")]  # which has no retries
    in_turns(
        "fail once, then succeed",
        retrying,
        lambda each: measure.processing(each, chosen[each.name], jobs[each.name] // 2, "fill_flaky"),
    )
    samples = 40 if options.quick else 150
    in_turns("pick-up", [onward, workers[-1], *peers], lambda each: measure.pickup(each, chosen[each.name], samples))
    results["footprint"] = _footprints([workers[-1], *peers], options)
    results["turn_ms"] = _turn_costs(options)
    return results


def _footprints(contenders: Sequence[Contender], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Each with two processes, which is what its `SMALL` configuration has."""
    found = {}
    for each in contenders:
        config = str(each.ask("small"))
        found[each.name] = measure.footprint(each, config, jobs=1_000, seconds=5 if options.quick else 20)
        _say(f"  footprint of {each.name} ({config}): {found[each.name]}")
    return found


def _turn_costs(options: argparse.Namespace) -> dict[str, list[float]]:
    """Medians of turns in an empty file and in a full one, in turns."""
    count = 100_000 if options.quick else 1_000_000
    empty, full = body.FOLDER / "empty.db", body.FOLDER / "full.db"
    claim_cost.fill(full, count)
    costs: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(options.rounds):
        for name, file in (("empty", empty), ("full", full)):
            costs[name].append(measure.middle(claim_cost.turns(file, 50)))
    _say(f"  a turn of {claim_cost.BATCH} jobs, ms: {costs}")
    return costs


def _shown(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {middle(value):.2f} ms" if isinstance(value, list) else f"{name} {value or 0:,.0f}/s"
        for name, value in row.items()
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"


def _versions(peers: Path) -> dict[str, str]:
    code = "import importlib.metadata as m, sys\nfor n in sys.argv[1:]: print(n, m.version(n))"
    listed = subprocess.run([peers, "-c", code, *page.PEERS], capture_output=True, text=True, check=True).stdout
    versions = dict(line.split() for line in listed.splitlines())
    return {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version, **versions}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--peers", type=Path, required=True, help="the interpreter that has the peers installed")
    parser.add_argument("--disk", type=Path, default=HERE / "build", help="a folder on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="an eighth of the work: to try the bench, not to quote it")
    parser.add_argument("--write", action="store_true", help="write the results page")
    options = parser.parse_args()
    options.disk.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
