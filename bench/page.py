"""The results page: written by the run, never by hand; the raw figures lie beside it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import middle

PAGE, DATA = "benchmarks.md", "assets/benchmarks.json"

# Figure, measure, our ratio to whom, what it must reach.
IN_PROCESS, WORKER = "onward", "onward worker, 2 processes"
PEERS = ("huey", "litequeue", "flexiq", "quebec")
RETRYING = ("huey", "flexiq", "quebec")
RAW = ("raw SQLite",)
_LOOP = "the raw loop that does the same writes"
GOALS = (
    (
        "In a program: no-op processing beside the faster of huey and litequeue",
        "processing",
        IN_PROCESS,
        PEERS[:2],
        6.0,
    ),
    (
        "In a program: no-op processing beside the raw loop that does the same writes",
        "processing",
        IN_PROCESS,
        ("raw SQLite",),
        0.5,
    ),
    ("Two processes: no-op processing beside the fastest peer", "processing", WORKER, PEERS, 6.0),
    (f"Two processes: no-op processing beside {_LOOP}", "processing", WORKER, RAW, 0.5),
    (
        "Two processes: fail once, then succeed, beside the fastest peer",
        "fail once, then succeed",
        WORKER,
        ("huey", "flexiq", "quebec"),
        15.0,
    ),
    ("Enqueue one by one beside a raw durable insert", "enqueue one by one", IN_PROCESS, RAW, 0.8),
    ("Bulk enqueue beside raw bulk inserts", "bulk enqueue", IN_PROCESS, RAW, 0.5),
)


def write(results: dict[str, Any], docs: Path) -> None:
    (docs / DATA).parent.mkdir(parents=True, exist_ok=True)
    (docs / DATA).write_text(json.dumps(results, indent=1) + "\n")
    (docs / PAGE).write_text("\n".join(_lines(results)) + "\n")


def ratios(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Each figure with its median ratio and its goal."""
    measures = results["measures"]
    found = [
        (title, middle([row[ours] / max(row[rival] for rival in rivals) for row in measures[measure]]), goal)
        for title, measure, ours, rivals, goal in GOALS
    ]
    crowd = zip(measures["enqueue, 16 threads"], measures["enqueue one by one"], strict=True)
    found.append(
        ("Enqueue from 16 threads beside one", middle([many["onward"] / one["onward"] for many, one in crowd]), 4.0)
    )
    pickups = [_quantiles(row) for row in measures["pick-up"]]
    for title, ours, rivals in (("In a program", IN_PROCESS, PEERS[:2]), ("Two processes", WORKER, PEERS)):
        best = [min(each[rival][0] for rival in rivals) / each[ours][0] for each in pickups]
        found.append((f"{title}: pick-up p50, the fastest peer's beside ours", middle(best), 1.0))
    feet = results["footprint"]
    lightest = min(feet[peer]["memory_mb"] for peer in PEERS)
    found.append(("Two processes: memory of the lightest peer beside ours", lightest / feet[WORKER]["memory_mb"], 1.0))
    found.append(
        ("An idle worker: 1 % of a core beside what it takes", 1 / max(feet[WORKER]["idle_percent"], 0.01), 1.0)
    )
    turns = zip(results["turn_ms"]["empty"], results["turn_ms"]["full"], strict=True)
    costs = middle([empty / full for empty, full in turns])
    found.append(("A turn in an empty file beside one with 1 M finished and 1 M future jobs", costs, 1 / 1.5))
    return found


def _lines(results: dict[str, Any]) -> list[str]:
    lines = [
        "# Benchmarks",
        "",
        "This page and the [raw figures](assets/benchmarks.json) are written by `make bench` and by nothing else.",
        "",
        _conditions(results),
        "",
        _fairness(),
        "",
        "| figure | ratio | asked | |",
        "|---|---|---|---|",
    ]
    for title, ratio, goal in ratios(results):
        lines.append(f"| {title} | {ratio:.2f} | {goal:.3g} | {'reached' if ratio >= goal else '**missed**'} |")
    lines += ["", "## What was measured", ""]
    for title, rows in results["measures"].items():
        if title == "pick-up":
            continue
        lines += [f"**{title}**, per second: {_table(rows)}", ""]
    lines += ["**pick-up** on an idle worker, p50 / p99 in ms: " + _pickups(results["measures"]["pick-up"]), ""]
    turns = {name: middle(costs) for name, costs in results["turn_ms"].items()}
    lines += [
        f"**A turn** that settles 100 jobs and claims 100, in ms: empty {turns['empty']:.1f}, full {turns['full']:.1f}.",
        "",
        "| with two processes | start to first job | memory | idle |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {foot['start_s']:.2f} s | {foot['memory_mb']:.0f} MB | {foot['idle_percent']:.2f} % of a core |"
        for name, foot in results["footprint"].items()
    ]
    lines += ["", "| contender | fastest configuration | jobs per processing run |", "|---|---|---|"]
    lines += [
        f"| {name} | {config} | {results['jobs'][name]:,} |" for name, config in results["configurations"].items()
    ]
    return lines


def _conditions(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"{results['date']}, {results['machine']}, {versions}. Producer, worker and disk share the machine, which is noisy: "
        f"only ratios mean anything. Every ratio is taken within a round in which all were measured in turn; the median of "
        f"{results['rounds']} rounds is shown."
    )


def _fairness() -> str:
    return (
        "Onward runs at its default: every commit durable (`synchronous=FULL`), history kept. Huey runs at FULL too and "
        "takes a job off the queue before running it; litequeue and FlexiQ run at NORMAL, which a power cut can undo; "
        "litequeue has no worker and no retries. honker could not be installed."
        " The raw loop makes by hand the writes that a job costs, with nothing around them."
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    parts = []
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            parts.append(f"{name} {middle(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})")
    return "; ".join(parts) + "."


def _pickups(rows: Sequence[dict[str, Any]]) -> str:
    found = [_quantiles(row) for row in rows]
    return (
        "; ".join(
            f"{name} {middle([each[name][0] for each in found]):.2f} / {middle([each[name][1] for each in found]):.2f}"
            for name in found[0]
        )
        + "."
    )


def _quantiles(row: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    return {name: (middle(waits), sorted(waits)[int(len(waits) * 0.99)]) for name, waits in row.items()}
