"""The results page: written by the run, never by hand; the raw figures lie beside it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import middle

PAGE, DATA = "benchmarks.md", "assets/benchmarks.json"

# Figure, measure, our ratio to whom, what it must reach.
GOALS = (
    ("No-op processing beside the faster of huey and litequeue", "processing", ("huey", "litequeue"), 6.0),
    ("No-op processing beside the raw loop that does the same writes", "processing", ("raw SQLite",), 0.5),
    ("Enqueue one by one beside a raw durable insert", "enqueue one by one", ("raw SQLite",), 0.8),
    ("Bulk enqueue beside raw bulk inserts", "bulk enqueue", ("raw SQLite",), 0.5),
)


def write(results: dict[str, Any], docs: Path) -> None:
    (docs / DATA).parent.mkdir(parents=True, exist_ok=True)
    (docs / DATA).write_text(json.dumps(results, indent=1) + "\n")
    (docs / PAGE).write_text("\n".join(_lines(results)) + "\n")


def ratios(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Each figure with its median ratio and its goal."""
    measures = results["measures"]
    found = [
        (title, middle([row["onward"] / max(row[rival] for rival in rivals) for row in measures[measure]]), goal)
        for title, measure, rivals, goal in GOALS
    ]
    crowd = zip(measures["enqueue, 16 threads"], measures["enqueue one by one"], strict=True)
    found.append(
        ("Enqueue from 16 threads beside one", middle([many["onward"] / one["onward"] for many, one in crowd]), 4.0)
    )
    pickups = [_quantiles(row) for row in measures["pick-up"]]
    best = [min(each["huey"][0], each["litequeue"][0]) / each["onward"][0] for each in pickups]
    found.append(("Pick-up p50: the faster peer's beside ours", middle(best), 1.0))
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
        lines.append(f"| {title} | {ratio:.2f} | {goal:g} | {'reached' if ratio >= goal else '**missed**'} |")
    lines += ["", "## What was measured", ""]
    for title, rows in results["measures"].items():
        if title == "pick-up":
            continue
        lines += [f"**{title}**, per second: {_table(rows)}", ""]
    lines += ["**pick-up** on an idle worker, p50 / p99 in ms: " + _pickups(results["measures"]["pick-up"]), ""]
    lines += ["| contender | fastest configuration | jobs per processing run |", "|---|---|---|"]
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
        "takes a job off the queue before running it; litequeue runs at NORMAL, which a power cut can undo, and has no "
        "worker. The raw loop makes by hand the writes that a job costs, with nothing around them."
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
