"""A reader that does not end: the log may grow while it reads, and one prune after it left shortens it again."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from onward.backends.sqlite import SqliteBackend
from onward.backends.sqlite.connection import WAL_LIMIT
from onward.testing.contract.builders import some_envelopes
from tests.proof.ledger import Ledger, integrity_of

__all__ = ["behind_a_reader"]

_PAYLOAD = "x" * 200_000
_BATCH = 50


def behind_a_reader(file: Path, *, times_the_limit: float) -> Ledger:
    """Write until the log is so many times as long as it may be, then let the reader go and prune once."""
    begun = time.monotonic()
    with closing(SqliteBackend.open(file)) as backend, closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        while _log_of(file) < times_the_limit * WAL_LIMIT:
            backend.enqueue(some_envelopes(_BATCH, payload=_PAYLOAD))
        backend.prune({})  # cannot help yet, and must not fail
        longest, warned = _log_of(file), _warns_of_its_log(backend)

        reader.execute("ROLLBACK")
        backend.prune({})
        shortened, calm = _log_of(file), not _warns_of_its_log(backend)
    return Ledger(
        "log behind a reader, sqlite",
        {
            "limit MiB": WAL_LIMIT / 1024**2,
            "longest MiB": longest / 1024**2,
            "after one prune MiB": shortened / 1024**2,
            "seconds": time.monotonic() - begun,
        },
        {
            "bytes over the limit": max(0, shortened - WAL_LIMIT),
            "missing warnings": not warned,
            "false warnings": not calm,
        },
        integrity_of(file),
    )


def _log_of(file: Path) -> int:
    return file.with_name(f"{file.name}-wal").stat().st_size


def _warns_of_its_log(backend: SqliteBackend) -> bool:
    return any(check.name == "log" and check.status == "warn" for check in backend.health())
