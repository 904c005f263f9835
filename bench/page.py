"""The results page: written by the run, never by hand; the raw figures lie beside it as JSON, engine by engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import picture
from bench.measure import middle
from bench.rounds import quantiles
from bench.tried import TRIED

PAGE, DATA = "benchmarks.md", "assets/benchmarks.json"


def read(docs: Path) -> dict[str, Any]:
    """What was measured before, by engine."""
    file = docs / DATA
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {name: each for name, each in results.items() if isinstance(each, dict) and "engine" in each}


def write(engines: Mapping[str, Any], results: dict[str, Any], docs: Path) -> None:
    (docs / DATA).parent.mkdir(parents=True, exist_ok=True)
    (docs / DATA).write_text(json.dumps(results, indent=1) + "\n")
    about = (
        "This page and the [raw figures](assets/benchmarks.json) are written by `make bench` and by nothing else. "
        "Producer, worker, server and disk share one machine, which is noisy: only ratios mean anything. Every ratio is "
        "taken within a round in which all were measured in turn; the median of the rounds is shown."
    )
    lines = ["# Benchmarks", "", about, "", *_summary(engines, results)]
    for name, engine in engines.items():
        if name in results:
            file, title = picture.file_name(name), f"What was measured on {engine.TITLE}"
            drawn = picture.draw(title, results[name]["measures"], engine.PACKAGES)
            (docs / "assets" / file).write_text(drawn)
            shown = f"![{title}](assets/{file})"
            lines += ["", f"## {engine.TITLE}", "", *_lines(engine, results[name], shown)]
    (docs / PAGE).write_text("\n".join(lines) + "\n")


def figures(engine: Any, results: dict[str, Any]) -> list[str]:
    """The table of what was asked for and what was reached."""
    lines = ["| figure | ratio | asked | |", "|---|---|---|---|"]
    for title, ratio, goal in engine.figures(results):
        lines.append(f"| {title} | {ratio:.2f} | {goal:.3g} | {'reached' if ratio >= goal else '**missed**'} |")
    return lines


def _summary(engines: Mapping[str, Any], results: dict[str, Any]) -> list[str]:
    """A line for each part: when it was measured, and how many of its goals it reached."""
    lines = ["| part | measured | goals reached | missed |", "|---|---|--:|--:|"]
    for name, engine in engines.items():
        if name in results:
            reached = [ratio >= goal for _, ratio, goal in engine.figures(results[name])]
            link = f"[{engine.TITLE}](#{re.sub(r'[^a-z0-9]+', '-', engine.TITLE.lower())})"
            lines.append(f"| {link} | {results[name]['date']} | {sum(reached)} | {len(reached) - sum(reached)} |")
    return lines


def _missed(engine: Any, results: dict[str, Any]) -> list[str]:
    """What was tried for the goals that were missed."""
    tried = TRIED.get(engine.TITLE, {})
    missed = [title for title, ratio, goal in engine.figures(results) if ratio < goal and title in tried]
    return (
        ["", "What was tried for what was missed:", "", *(f"- *{each}*: {tried[each]}" for each in missed)]
        if missed
        else []
    )


def _lines(engine: Any, results: dict[str, Any], shown: str) -> list[str]:
    lines = [_conditions(results), "", engine.fairness(results), "", *figures(engine, results)]
    lines += _missed(engine, results)
    lines += ["", f"### What was measured on {engine.TITLE}", "", shown, ""]
    for title, rows in results["measures"].items():
        if title == "pick-up":
            continue
        lines += [f"**{title}**, per second: {_table(rows)}", ""]
    if "pick-up" in results["measures"]:
        lines += ["**pick-up** on an idle worker, p50 / p99 in ms: " + _pickups(results["measures"]["pick-up"]), ""]
    if "turn_ms" in results:
        turns = {name: middle(costs) for name, costs in results["turn_ms"].items()}
        empty, full = turns["empty"], turns["full"]
        lines += [f"**A turn** that settles 100 jobs and claims 100, in ms: empty {empty:.1f}, full {full:.1f}.", ""]
    if "footprint" in results:
        lines += ["| with two processes | start to first job | memory | idle |", "|---|---|---|---|"]
        lines += [
            f"| {name} | {foot['start_s']:.2f} s | {foot['memory_mb']:.0f} MB | {foot['idle_percent']:.2f} % of a core |"
            for name, foot in results["footprint"].items()
        ]
        lines += [""]
    lines += ["| contender | configuration | jobs per processing run |", "|---|---|---|"]
    lines += [
        f"| {name} | {config} | {results['jobs'][name]:,} |" for name, config in results["configurations"].items()
    ]
    return lines


def _conditions(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    of = f", at `{results['commit']}`" if "commit" in results else ""
    return f"{results['date']}{of}, {results['machine']}, {results['engine']}, {versions}; {results['rounds']} rounds."


def _table(rows: Sequence[dict[str, Any]]) -> str:
    parts = []
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            parts.append(f"{name} {middle(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})")
    return "; ".join(parts) + "."


def _pickups(rows: Sequence[dict[str, Any]]) -> str:
    found = [quantiles(row) for row in rows]
    names = [name for name in rows[0] if all(name in each for each in found)]
    return (
        "; ".join(
            f"{name} {middle([each[name][0] for each in found]):.2f} / {middle([each[name][1] for each in found]):.2f}"
            for name in names
        )
        + "."
    )
