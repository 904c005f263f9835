"""What happens to the programs of a proof without an end of theirs: answers that are lost, clocks that jump."""

from __future__ import annotations

import os
import random
import struct
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from onward import Onward
from onward.backend import Backend
from onward.base.clock import SECOND, SystemClock, from_micros
from onward.errors import BackendUnavailable
from onward.worker.options import WorkerParts

__all__ = ["LossyOnward", "WallClock", "cuts_of"]

_LOST = 0.02
_SECONDS = struct.Struct("<q")


class LossyOnward(Onward):
    """Loses one in fifty of the answers that its workers wait for: what they asked for was done.

    A worker that gets none adopts its own leases under a new session.
    """

    def parts(self, **options: Any) -> WorkerParts:
        parts = super().parts(**options)
        if "KILL_SHOP_CUTS" in os.environ:
            _lose_answers(parts.backend, os.environ["KILL_SHOP_CUTS"])
        return parts


def cuts_of(file: Path) -> int:
    """How many answers were lost: each leaves a byte."""
    return file.stat().st_size if file.exists() else 0


def _lose_answers(backend: Backend, cuts: str) -> None:
    dice, lock = random.Random(os.getpid()), threading.Lock()

    def lossy(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            answer = verb(*args, **options)
            with lock:
                lost = dice.random() < _LOST
            if lost:
                with open(cuts, "ab", buffering=0) as file:  # noqa: PTH123
                    file.write(b".")
                raise BackendUnavailable("the answer was lost")
            return answer

        return call

    for name in ("turn", "open_session", "extend"):
        setattr(backend, name, lossy(getattr(backend, name)))


class WallClock:
    """A wall clock that several processes share, and that can be set while they run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._base = SystemClock()
        self.ahead = 0
        file.write_bytes(_SECONDS.pack(0))

    def environment(self) -> dict[str, str]:
        """What gives a Python program this clock."""
        folder = str(Path(__file__).with_name("clock"))
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(paths), "PROOF_CLOCK": str(self._file)}

    def set_ahead(self, seconds: int) -> None:
        """Set it so many seconds ahead of the true time; negative ones are back."""
        self.ahead = seconds
        with self._file.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))

    def now(self) -> datetime:
        return from_micros(self.micros())

    def micros(self) -> int:
        return self._base.micros() + self.ahead * SECOND
