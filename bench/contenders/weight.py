"""What an application has in memory when it is imported: as many megabytes of Python objects as BENCH_WEIGHT says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

HELD: list[dict[str, Any]] = []


def carry() -> None:
    """Make them.  No job looks at them."""
    wanted = _resident() + int(os.environ.get("BENCH_WEIGHT", "0")) * 2**20
    while _resident() < wanted:
        first = len(HELD)
        HELD.extend({"id": n, "name": f"name {n}", "words": (str(n), f"{n:x}")} for n in range(first, first + 1000))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
