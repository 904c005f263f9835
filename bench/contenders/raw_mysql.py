"""The engine by hand: Onward's own tables, the same rows written with PyMySQL, and nothing around them.

`claim + move` claims a batch and moves the one before to the finished jobs, in one transaction: what a turn writes.
`claim + delete` forgets them instead, for scale.  There are no threads, no envelopes opened, no fences, no sessions and
no holds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from bench.body import noop, payload
from bench.contenders import on_mysql
from onward.backends.mysql import MySQLBackend
from onward.job.envelope import Letter, seal

BATCH = 500
# Whether finished jobs are kept, and how many such processes.
CONFIGS = {
    "claim + move, batch 500, 1 process": (True, 1),
    "claim + move, batch 500, 2 processes": (True, 2),
    "claim + delete, batch 500, 1 process": (False, 1),
    "claim + delete, batch 500, 2 processes": (False, 2),
}
DATABASE = "raw"

_NOW = 1_763_200_000_000_000
# Ids, owners, times and payloads are as long as Onward's own.
_BODY = seal(
    Letter(
        id="0" * 32,
        namespace="default",
        queue="default",
        job="work",
        max_retries=0,
        max_crashes=3,
        enqueued_at=_NOW,
        payload=msgspec.Raw(msgspec.json.encode(payload(1))),
    ),
).data
_numbers = itertools.count()

# Nothing but placeholders: only then does the driver send many rows as one statement.
_INSERT = """INSERT INTO onward_jobs (id, sealed, queue, state, `rank`, available_at, max_crashes, enqueued_at,
                                      idempotency_ttl, job)
             VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
_ROW = (_BODY, "default", "available", 0, _NOW, 3, _NOW, 86_400_000_000, "work")
# Along the index of Onward's own claims: `tests/tools/test_bench_raw.py` asks the planner.
FIND = f"""SELECT id, sealed, delivery FROM onward_jobs
            WHERE state = 'available' AND queue = 'default' AND place = 0 AND line IS NULL
            ORDER BY available_at, id
            LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""  # noqa: S608
_CLAIM = f"""UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = %s, started_at = {_NOW}
              WHERE id IN %s"""  # noqa: S608
_MOVE = f"""INSERT INTO onward_finished (id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes,
                   interruptions, max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed)
            SELECT id, 'completed', false, {_NOW}, queue, job, `rank`, delivery, attempts + 1, crashes, interruptions,
                   max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed
              FROM onward_jobs WHERE id IN %s"""  # noqa: S608
_DELETE = "DELETE FROM onward_jobs WHERE id IN %s"


def reset() -> None:
    with closing(MySQLBackend.from_url(on_mysql.fresh(DATABASE))) as backend:
        backend.connect()  # makes the real schema


@contextmanager
def opened() -> Iterator[Any]:
    yield on_mysql.connect(DATABASE)


def enqueue(connection: Any, n: int) -> None:
    with connection.cursor() as cursor:
        for _ in range(n):
            cursor.execute(_INSERT, (_id(), *_ROW))


def bulk(connection: Any, n: int) -> None:
    """By inserts of many rows."""
    with connection.cursor() as cursor:
        for start in range(0, n, on_mysql.BATCH):
            connection.begin()
            cursor.executemany(_INSERT, [(_id(), *_ROW) for _ in range(start, min(n, start + on_mysql.BATCH))])
            connection.commit()


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    keep, _ = CONFIGS[config]
    owner = f"{random.getrandbits(128):032x}"
    job: dict[str, Any] = payload(1)
    done: list[str] = []
    connection = on_mysql.connect(DATABASE)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        while True:
            connection.begin()
            if done:
                if keep:
                    cursor.execute(_MOVE, (done,))
                cursor.execute(_DELETE, (done,))
            cursor.execute(FIND)
            rows = cursor.fetchall()
            done = [row[0] for row in rows]
            if done:
                cursor.execute(_CLAIM, (owner, done))
            connection.commit()
            for _ in rows:
                noop(job)


def _id() -> str:
    return f"{next(_numbers):032x}"
