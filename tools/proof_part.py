"""A part of the proof: its name, its engine, the plan of its seconds, and what to run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.proof.ledger import Ledger

__all__ = ["BUDGET", "EVERY", "ROOT", "Part"]

ROOT = Path(__file__).parents[1]
BUDGET = 4 * 3600  # seconds
EVERY = "several"  # the engine of a part that runs on more than one


class Part(NamedTuple):
    """A part of the proof, which runs in a process of its own."""

    name: str
    engine: str
    seconds: int  # at full scale
    prove: Callable[[Path, float, Callable[[int], None]], Ledger]
    measures: bool = False  # time or speed: no other part runs beside it

    def proved(self, scale: float, tell: Callable[[int], None]) -> Ledger:
        """Run it here."""
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            return self.prove(Path(folder), scale, tell)
