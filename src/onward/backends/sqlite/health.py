"""The health of a file: its schema, its durability, its integrity, its log, and the free space."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

from onward.backend import Check
from onward.backends.sqlite import connection as connections
from onward.backends.sqlite import library, schema
from onward.base.lazy import shutil

__all__ = ["of_connection", "of_file", "of_library", "wal_size"]

_FREE_ENOUGH = 1024**3
_FREE_TOO_LITTLE = 64 * 1024**2
_QUICK_ENOUGH = 256 * 1024**2  # looking through a file takes about a second per gigabyte


def of_library() -> Check:
    warning = library.complaint(sqlite3.sqlite_version_info)
    return Check(
        name="library",
        status="warn" if warning else "ok",
        detail=warning or f"SQLite {sqlite3.sqlite_version}",
        fix="upgrade Python, or the SQLite that it uses" if warning else "",
    )


def of_file(path: Path) -> list[Check]:
    """Check the place of the file, the length of its log, and the free space."""
    free = shutil.disk_usage(path.parent).free
    log = wal_size(path)
    too_long = log > connections.WAL_LIMIT
    return [
        Check(name="file", status="ok", detail=f"{path}, {_size(path.stat().st_size)}"),
        Check(
            name="log",
            status="warn" if too_long else "ok",
            detail=f"write-ahead log of {_size(log)}"
            + (": a process has been reading for so long that it cannot be emptied" if too_long else ""),
            fix=f"fuser -v {path}  # then end the process that reads" if too_long else "",
        ),
        Check(
            name="space",
            status=_enough(free),
            detail=f"{_size(free)} free in {path.parent}",
            fix="" if _enough(free) == "ok" else f"du -xh {path.parent} | sort -h | tail",
        ),
    ]


def of_connection(connection: sqlite3.Connection, path: Path, prefix: str) -> list[Check]:
    """Check the schema and the durability of the file."""
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    full = journal == "wal" and synchronous >= 2
    return [
        Check(name="schema", status="ok", detail=f"version {schema.version(connection, prefix)}, tables {prefix}*"),
        Check(
            name="durability",
            status="ok" if full else "warn",
            detail=f"journal_mode={journal}, synchronous={'FULL' if synchronous >= 2 else 'NORMAL'}"
            + ("" if full else ": a power cut may undo the last moments, enqueued jobs included"),
            fix="" if full else f"export ONWARD_URL=sqlite:///{path}",
        ),
        _integrity(connection, path),
    ]


def wal_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _integrity(connection: sqlite3.Connection, path: Path) -> Check:
    if path.stat().st_size > _QUICK_ENOUGH:
        return Check(
            name="integrity", status="ok", detail="not checked: the file is large; run `PRAGMA quick_check` by hand"
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return Check(
        name="integrity",
        status="ok" if verdict == "ok" else "fail",
        detail=f"quick_check: {verdict}",
        fix="" if verdict == "ok" else f"sqlite3 {path} .recover | sqlite3 {path}.recovered",
    )


def _enough(free: int) -> Literal["ok", "warn", "fail"]:
    return "fail" if free < _FREE_TOO_LITTLE else "warn" if free < _FREE_ENOUGH else "ok"


def _size(size: int) -> str:
    return f"{size / 1024**3:,.1f} GiB" if size >= 1024**3 else f"{size / 1024**2:,.1f} MiB"
