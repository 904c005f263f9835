"""The time that processes of this machine have had a processor for themselves, as the kernel counts it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["seconds_of"]


def seconds_of(pid: int) -> float:
    """Return the seconds of all threads of a process, to the nanosecond; 0 for one that is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return 0.0
    return sum(map(_of_thread, threads))


def _of_thread(folder: Path) -> float:
    try:
        return int((folder / "schedstat").read_text("ascii").split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended meanwhile
