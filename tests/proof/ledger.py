"""What a proof has shown: its figures, and everything that should not have been."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from onward.errors import BackendUnavailable
from tests.proof.totals import added, totals_of

__all__ = ["Ledger", "damage_of", "integrity_of", "scheme_of"]


@dataclass(frozen=True)
class Ledger:
    """Figures in the order they are read; ``flaws`` are those that must be nothing."""

    name: str
    figures: dict[str, float]
    flaws: dict[str, int]
    errors: list[str] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # by engine: what tests have counted

    def __post_init__(self) -> None:
        # A part may say whether, and not how often.
        object.__setattr__(self, "flaws", {name: int(count) for name, count in self.flaws.items()})

    @property
    def flawless(self) -> bool:
        return not self.errors and not any(self.flaws.values())

    def and_then(self, other: Ledger) -> Ledger:
        """Both, as one."""
        return Ledger(
            f"{self.name}; {other.name}",
            {**self.figures, **other.figures},
            {**self.flaws, **other.flaws},
            [*self.errors, *other.errors],
        )

    def with_counts(self, file: Path) -> Ledger:
        """The same, with what tests have reported in a file: a line of JSON for each, if any has."""
        counts: dict[str, dict[str, int]] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            engine, counted = json.loads(line)
            counts[engine] = added([counts.get(engine, {}), counted])
        return replace(self, counts=counts)

    def totals(self, engine: str) -> dict[str, dict[str, int]]:
        """What it counted in the words of the totals, by engine; its own figures are those of ``engine``."""
        own = totals_of(self.figures, self.flaws, len(self.errors))
        return {**self.counts, engine: added([self.counts.get(engine, {}), own])}

    def __str__(self) -> str:
        locks = sum(error.startswith(BackendUnavailable.__name__) for error in self.errors)
        figures = {**self.figures, **self.flaws, "lock errors": locks, "other errors": len(self.errors) - locks}
        counted = ", ".join(f"{name} {_number(value)}" for name, value in figures.items())
        # One of a kind is enough: in a crowd everybody meets the same error.
        return "\n    ".join([f"{self.name}: {counted}", *sorted(set(self.errors))[:5]])


def integrity_of(file: Path) -> list[str]:
    """What SQLite finds wrong with a file, as errors."""
    with closing(sqlite3.connect(file)) as connection:
        verdicts = [verdict for (verdict,) in connection.execute("PRAGMA integrity_check(5)")]
    return [] if verdicts == ["ok"] else [f"integrity_check: {verdict}" for verdict in verdicts]


def damage_of(url: str) -> list[str]:
    """What an engine finds wrong with a store, where it can be asked."""
    return integrity_of(Path(url.removeprefix("sqlite:///"))) if scheme_of(url) == "sqlite" else []


def scheme_of(url: str) -> str:
    return url.partition(":")[0]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
