"""Processes that belong together, as the kernel sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def of_session(leader: int) -> list[int]:
    """The processes of a session: a worker's children stay in it, whatever group they are in."""
    return [pid for pid, fields in _everybody() if int(fields[3]) == leader]


def memory(pid: int) -> int:
    """Bytes that a process occupies; what it shares with others is divided among them."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def processor_seconds(pid: int) -> float:
    with suppress(OSError):
        fields = _fields(Path(f"/proc/{pid}"))
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _everybody() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            yield int(folder.name), _fields(folder)


def _fields(folder: Path) -> list[str]:
    """What stands after the name in `stat`, from the state on."""
    return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
