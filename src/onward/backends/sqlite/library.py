"""The SQLite library of this Python, and whether Onward can use it."""

from __future__ import annotations

import sqlite3

from onward.errors import BackendMisconfigured

__all__ = ["check", "complaint"]

_NEEDED = (3, 38, 0)  # STRICT tables and built-in JSON functions
_SOUND = (3, 51, 3)  # before it, resetting the log could, very rarely, damage the file


def check() -> None:
    """Raise for a library that is too old."""
    complaint(sqlite3.sqlite_version_info)


def complaint(version: tuple[int, ...]) -> str | None:
    """Return what is wrong with a library, and what a person can do about it; None if nothing is."""
    if version < _NEEDED:
        raise BackendMisconfigured(
            f"SQLite {_dotted(version)} is too old, {_dotted(_NEEDED)} or newer is needed: upgrade Python or its library"
        )
    if version < _SOUND:
        return (
            f"SQLite {_dotted(version)} has the WAL-reset bug, fixed in {_dotted(_SOUND)}: very rarely it damages a file "
            f"that several processes write.  Python uses the library of its system, or the one it was built with: a newer "
            f"release of the distribution or another build of Python brings a newer one, unless the distribution has "
            f"fixed its {_dotted(version)}; docs/sqlite.md says more"
        )
    return None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
