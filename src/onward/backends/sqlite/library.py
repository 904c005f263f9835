"""Which SQLite library this Python has, and whether it will do."""

from __future__ import annotations

import logging
import sqlite3

from onward.errors import BackendMisconfigured

__all__ = ["check", "complaint"]

_NEEDED = (3, 38, 0)  # STRICT tables and built-in JSON functions
_SOUND = (3, 51, 3)  # before it, resetting the log could, very rarely, damage the file

_logger = logging.getLogger("onward.backend.sqlite")
_warned: set[str] = set()


def check() -> None:
    """Refuse a library that cannot do it; warn, once, of one that should be replaced."""
    warning = complaint(sqlite3.sqlite_version_info)
    if warning is not None and warning not in _warned:
        _warned.add(warning)
        _logger.warning("%s", warning)


def complaint(version: tuple[int, ...]) -> str | None:
    if version < _NEEDED:
        raise BackendMisconfigured(
            f"SQLite {_dotted(version)} is too old, {_dotted(_NEEDED)} or newer is needed: upgrade Python or its library"
        )
    if version < _SOUND:
        return f"SQLite {_dotted(version)} has the WAL-reset bug, fixed in {_dotted(_SOUND)}: upgrade the library"
    return None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
