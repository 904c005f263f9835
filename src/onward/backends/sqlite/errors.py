"""SQLite's errors in Onward's words: what may be tried again, what is refused, what has to be changed."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    BackendUnreachable,
    StoreCorrupt,
    StoreFull,
)

__all__ = ["DRIVERS", "is_broken", "is_busy", "translation"]

DRIVERS = (sqlite3.Error, OverflowError, ValueError)  # the errors of the driver; a backend raises none of them

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
# An answer of the disk is lost or wrong: the connection's cache of the file may be, too.
_BROKEN = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_READONLY")
# SQLite's error for a full disk depends on which of its files could not grow; the transaction is rolled back.
_FAILED_WRITES = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE")
_REFUSED = ("SQLITE_CONSTRAINT", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_RANGE")
# Values that Python's driver cannot send: unknown types, integers of more than 64 bits, lone surrogates.
_UNBINDABLE = (sqlite3.InterfaceError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError, ValueError)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection is writing, or opening or closing the file: wait a little."""
    return _code(error).startswith(_BUSY)


def is_broken(error: BaseException) -> bool:
    """Return whether the connection should not be used again."""
    return isinstance(error, sqlite3.Error) and _code(error).startswith(_BROKEN)


def translation(error: Exception, path: Path) -> BackendError:
    """Return the error to raise instead."""
    code = _code(error)
    if code.startswith(_BUSY):
        return BackendUnreachable(
            f"{path}: another process holds the write lock, or a transaction of your own: end it, enqueue within it by "
            f"jobs.transaction(connection), or raise busy_timeout ({error})"
        )
    if code.startswith("SQLITE_FULL") or (code in _FAILED_WRITES and _no_room(path)):
        return StoreFull(
            f"{path}: no space is left on its disk: make room and try again; nothing of this call was kept"
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreCorrupt(
            f"{path}: {error}: the file was not changed; restore a backup, or save what `sqlite3 {path.name} .recover` reads"
        )
    if code.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return BackendMisconfigured(
            f"{path}: cannot be written ({error}): give this user write access to it and its folder"
        )
    if code.startswith("SQLITE_CANTOPEN"):
        return BackendMisconfigured(f"{path}: {_why_not_opened(path)}")
    if code.startswith(_REFUSED) or (not code and isinstance(error, _UNBINDABLE)):
        return BackendRefused(f"{path}: these values are refused, nothing of the call was applied: {error}")
    if code.startswith(("SQLITE_IOERR", "SQLITE_INTERRUPT", "SQLITE_NOMEM", "SQLITE_SCHEMA", "SQLITE_ABORT")):
        return BackendUnavailable(f"{path}: {error} ({code}): whether the call was applied is unknown")
    return BackendError(f"{path}: {error} ({code or type(error).__name__})")


def _code(error: BaseException) -> str:
    return getattr(error, "sqlite_errorname", None) or ""


def _no_room(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < 1024**2


def _why_not_opened(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist: create it"
    if not path.exists():
        return "the file is gone: it was moved or deleted while in use"
    return (
        f"the file cannot be opened: this user must be able to read and write it and to create files in {path.parent}"
    )
