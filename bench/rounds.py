"""Measuring several contenders in turns: every round measures all of them, one after the other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from bench import measure
from bench.measure import Contender, middle

Figure = tuple[str, float, float]  # what it says, the ratio, what was asked for


def say(line: str) -> None:
    print(line, flush=True)


class Rounds:
    """The measures of one engine.  A peer that fails is left out of that round, and it is said."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.measures: dict[str, list[dict[str, Any]]] = {}
        self.noise: list[dict[str, float]] = []

    def __call__(self, title: str, contenders: Sequence[Contender], once: Callable[[Contender], Any]) -> None:
        rows: list[dict[str, Any]] = []
        for number in range(self.count):
            rows.append({each.name: _tried(once, each) for each in contenders})
            self.noise.append(measure.noise())
            say(f"  {title}, round {number + 1}: {_shown(rows[-1])}")
        self.measures[title] = rows


def beside(rows: Sequence[dict[str, Any]], ours: str, rivals: Sequence[str]) -> float:
    """How many times as fast as the fastest rival: the median of the rounds."""
    return middle([row[ours] / max(row[rival] or 0.0 for rival in rivals) for row in rows])


def sooner(rows: Sequence[dict[str, Any]], ours: str, rivals: Sequence[str]) -> float:
    """How many times the time that we take the fastest rival takes."""
    pickups = [quantiles(row) for row in rows]
    return middle([min(each[rival][0] for rival in rivals if rival in each) / each[ours][0] for each in pickups])


def quantiles(row: dict[str, list[float] | None]) -> dict[str, tuple[float, float]]:
    """The median and the 99th percentile of each."""
    return {name: (middle(waits), sorted(waits)[int(len(waits) * 0.99)]) for name, waits in row.items() if waits}


def _tried(once: Callable[[Contender], Any], contender: Contender) -> Any:
    try:
        return once(contender)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        if contender.is_ours:
            raise
        say(f"  {contender.name} failed: {error}")
        return None


def _shown(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {middle(value):.2f} ms" if isinstance(value, list) else f"{name} {value or 0:,.0f}/s"
        for name, value in row.items()
    )
