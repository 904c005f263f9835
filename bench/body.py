"""The job that every contender runs, and how it tells that it ran.

A finished job appends one byte to a file in memory, or the time it waited for its pick-up: about a microsecond, the
same for everybody, from any thread or process.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))  # the disk that is measured
COUNTERS = Path(os.environ.get("BENCH_COUNTERS", "/dev/shm"))  # noqa: S108  never a disk

_NUMBERS = 1 << 20
_descriptors: dict[str, int] = {}
_maps: dict[str, mmap.mmap] = {}


def payload(number: int, sent: int = 0) -> dict[str, Any]:
    return {"id": number, "user": f"user-{number % 1000}", "kind": "email", "sent": sent}


def noop(job: dict[str, Any]) -> None:
    """Count, or tell how long it took to be picked up."""
    if job["sent"]:
        os.write(_file("waits"), struct.pack("q", time.monotonic_ns() - job["sent"]))
    else:
        os.write(_file("done"), b".")


class Flaky(Exception):
    """What a job raises that fails at first."""


def flaky(job: dict[str, Any]) -> None:
    """Fail the first time that this number is seen, succeed the second time."""
    if "seen" not in _maps:
        with counter("seen").open("r+b") as file:
            _maps["seen"] = mmap.mmap(file.fileno(), _NUMBERS)
    seen = _maps["seen"]
    if not seen[job["id"]]:
        seen[job["id"]] = 1
        os.write(_file("failed"), b".")
        raise Flaky("the first time")
    os.write(_file("done"), b".")


def counter(name: str) -> Path:
    return COUNTERS / f"onward-bench-{name}"


def clear() -> None:
    for name in ("done", "failed", "waits"):
        counter(name).write_bytes(b"")
    counter("seen").write_bytes(bytes(_NUMBERS))


def count(name: str, size: int = 1) -> int:
    path = counter(name)
    return path.stat().st_size // size if path.exists() else 0


def waits() -> list[float]:
    """Milliseconds between sending and the handler's first line."""
    return [waited / 1e6 for (waited,) in struct.iter_unpack("q", counter("waits").read_bytes())]


def _file(name: str) -> int:
    if name not in _descriptors:
        _descriptors[name] = os.open(counter(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    return _descriptors[name]
