"""The engine by hand: Onward's own tables, the same rows written the same way, and nothing around them.

`claim + move` claims a batch and moves the one before to the finished jobs, in one transaction: what a turn writes.  It does
so with a statement per job, as one would write it down, or with one for the whole batch, which is what Onward does.
`claim + delete` forgets them instead, for scale.  There are no threads, no envelopes opened, no fences, no sessions, no
holds: only the statements that every job costs.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.body import FOLDER, noop, payload
from onward.backends.sqlite import SqliteBackend
from onward.job.envelope import Letter, seal

FILE = FOLDER / "raw.db"
BATCH = 500
_numbers = itertools.count()
CONFIGS = {
    f"claim + move, batch {BATCH}": "move",
    f"claim + move, a statement per batch of {BATCH}": "set",
    f"claim + delete, batch {BATCH}": "delete",
}

# Ids, owners, times and payloads are as long as Onward's own.
_BODY = seal(
    Letter(
        id="0" * 32,
        namespace="default",
        queue="default",
        job="work",
        max_retries=0,
        max_crashes=3,
        enqueued_at=1_763_200_000_000_000,
        payload=msgspec.Raw(msgspec.json.encode(payload(1))),
    ),
).data

_INSERT = """INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job,
                                      sealed)
             VALUES (?, 'default', 'available', 0, 1763200000000000, 3, 1763200000000000, 86400000000, 'work', ?)"""
# Along the index of Onward's own claims: `tests/tools/test_bench_raw.py` asks the planner.
FIND = """SELECT rowid, id, sealed FROM onward_jobs
            WHERE queue = 'default' AND state = 'available' AND (lane IS NULL OR lane = '')
            ORDER BY rank, available_at, id LIMIT ?"""
_CLAIM = """UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1,
                   owner = '00000000000000000000000000000000', started_at = 1763200000000000
             WHERE rowid = ?"""
_MOVE = """INSERT INTO onward_finished (id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions,
                  max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed)
           SELECT id, 'completed', 1763200000000000, queue, job, rank, delivery, attempts + 1, crashes, interruptions,
                  max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed
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
    write = _for_all if CONFIGS[config] == "set" else _for_each
    done: list[int] = []
    while True:
        connection.execute("BEGIN IMMEDIATE")
        if CONFIGS[config] != "delete":
            write(connection, _MOVE, done)
        write(connection, _DELETE, done)
        rows = connection.execute(FIND, (BATCH,)).fetchall()
        done = [rowid for rowid, _, _ in rows]
        write(connection, _CLAIM, done)
        connection.execute("COMMIT")
        for _ in rows:
            noop(job)


def _for_each(connection: sqlite3.Connection, statement: str, rowids: Sequence[int]) -> None:
    connection.executemany(statement, [(rowid,) for rowid in rowids])


def _for_all(connection: sqlite3.Connection, statement: str, rowids: Sequence[int]) -> None:
    connection.execute(statement.replace("= ?", "IN (SELECT value FROM json_each(?))"), (json.dumps(rowids),))
