"""Noticing that the application's code has changed, for ``--reload``."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["Watcher"]


class Watcher:
    """Compares the modification times of files: enough for a person who saves one, without a library or a thread."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def watch(self, files: Iterable[str]) -> None:
        for file in files:
            self._times.setdefault(file, _modified(file))

    def changed(self) -> bool:
        """Return whether any file has changed since the last call."""
        now = {file: _modified(file) for file in self._times}
        changed = now != self._times
        self._times = now
        return changed


def _modified(file: str) -> int:
    with suppress(OSError):
        return Path(file).stat().st_mtime_ns
    return 0
