"""The engine by hand: Onward's own tables, the same durable writes per job, and nothing around them.

`claim + move` claims a batch and moves the one before to the finished jobs, in one transaction: what a turn writes.
`claim + delete` forgets them instead, for scale.  There are no threads, no envelopes opened, no sessions, no holds:
only the statements that every job costs.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.body import FOLDER, noop, payload
from onward.backends.sqlite import SqliteBackend
from onward.envelope import Letter, seal

FILE = FOLDER / "raw.db"
BATCH = 500
_numbers = itertools.count()
CONFIGS = {f"claim + move, batch {BATCH}": "move", f"claim + delete, batch {BATCH}": "delete"}

_BODY = seal(
    Letter(id="0" * 32, namespace="default", queue="default", job="work", max_retries=0, max_crashes=3, enqueued_at=1),
).data

_INSERT = """INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job,
                                      sealed)
             VALUES (?, 'default', 'available', 0, 1, 3, 1, 0, 'work', ?)"""
_SELECT = """SELECT rowid, id, sealed FROM onward_jobs
              WHERE queue = 'default' AND state = 'available' ORDER BY rank, available_at, id LIMIT ?"""
_CLAIM = (
    "UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = 'raw', started_at = 1 WHERE rowid = ?"
)
_MOVE = """INSERT INTO onward_finished (id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions,
                  max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed)
           SELECT id, 'completed', 2, queue, job, rank, delivery, attempts + 1, crashes, interruptions, max_crashes,
                  available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed
             FROM onward_jobs WHERE rowid = ?"""
_DELETE = "DELETE FROM onward_jobs WHERE rowid = ?"


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect(FILE, timeout=30, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def reset() -> None:
    for file in FOLDER.glob("raw.db*"):
        file.unlink()
    SqliteBackend.open(FILE).close()  # the real schema


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    yield connect()


def enqueue(connection: sqlite3.Connection, n: int) -> None:
    for _ in range(n):
        connection.execute(_INSERT, (f"{next(_numbers):032x}", _BODY))


def bulk(connection: sqlite3.Connection, n: int) -> None:
    for start in range(0, n, 1000):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(f"{next(_numbers):032x}", _BODY) for _ in range(start, min(n, start + 1000))]
        connection.executemany(_INSERT, rows)
        connection.execute("COMMIT")


def processes(config: str) -> int:
    return 1


def serve(config: str) -> None:
    connection = connect()
    job: dict[str, Any] = payload(1)
    done: list[tuple[int]] = []
    while True:
        connection.execute("BEGIN IMMEDIATE")
        if CONFIGS[config] == "move":
            connection.executemany(_MOVE, done)
        connection.executemany(_DELETE, done)
        rows = connection.execute(_SELECT, (BATCH,)).fetchall()
        connection.executemany(_CLAIM, [(rowid,) for rowid, _, _ in rows])
        connection.execute("COMMIT")
        for _ in rows:
            noop(job)
        done = [(rowid,) for rowid, _, _ in rows]
