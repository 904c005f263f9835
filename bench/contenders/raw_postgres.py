"""The engine by hand: Onward's own tables, the same rows written with psycopg, and nothing around them.

`claim + move` claims a batch and moves the one before to the finished jobs, in one transaction and one round trip: what a
turn writes.  `claim + delete` forgets them instead, for scale.  There are no threads, no envelopes opened, no fences, no
sessions, no holds: only the statements that every job costs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import psycopg

from bench.body import noop, payload
from bench.contenders import on_postgres
from onward.backends.postgres import PostgresBackend
from onward.job.envelope import Letter, seal

Connection = psycopg.Connection[tuple[Any, ...]]

BATCH = 500
# Whether finished jobs are kept, and how many such processes.
CONFIGS = {
    "claim + move, batch 500, 1 process": (True, 1),
    "claim + move, batch 500, 2 processes": (True, 2),
    "claim + delete, batch 500, 1 process": (False, 1),
    "claim + delete, batch 500, 2 processes": (False, 2),
}
DATABASE = "raw"

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
_NOW = 1_763_200_000_000_000
_numbers = itertools.count()

_COLUMNS = "id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job, sealed"
_ROW = ("default", "available", 0, _NOW, 3, _NOW, 86_400_000_000, "work")
_INSERT = f"""INSERT INTO onward_jobs ({_COLUMNS})
              VALUES (%s, 'default', 'available', 0, {_NOW}, 3, {_NOW}, 86400000000, 'work', %b)"""  # noqa: S608
_UNNEST = f"""INSERT INTO onward_jobs ({_COLUMNS})
              SELECT id, 'default', 'available', 0, {_NOW}, 3, {_NOW}, 86400000000, 'work', sealed
                FROM unnest(%s::text[], %b::bytea[]) AS given (id, sealed)"""  # noqa: S608
_COPY = f"COPY onward_jobs ({_COLUMNS}) FROM STDIN (FORMAT BINARY)"
_TYPES = ("text", "text", "text", "int8", "int8", "int8", "int8", "int8", "text", "bytea")
# Along the index of Onward's own claims: `tests/tools/test_bench_raw.py` asks the planner.
FIND = f"""SELECT ctid FROM onward_jobs
            WHERE queue = 'default' AND state = 'available' AND coalesce(lane, '') = ''
            ORDER BY rank, available_at, id
            LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""  # noqa: S608
_CLAIM = f"""UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = %s, started_at = {_NOW}
              WHERE ctid = ANY (ARRAY ({FIND}))
          RETURNING id, sealed, delivery"""  # noqa: S608
_MOVE = f"""WITH gone AS (DELETE FROM onward_jobs WHERE id = ANY (%s) RETURNING *)
            INSERT INTO onward_finished (id, state, finished_at, queue, job, rank, delivery, attempts, crashes,
                   interruptions, max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed)
            SELECT id, 'completed', {_NOW}, queue, job, rank, delivery, attempts + 1, crashes, interruptions, max_crashes,
                   available_at, enqueued_at, started_at, owner, waits, idempotency_ttl, sealed
              FROM gone"""  # noqa: S608
_DELETE = "DELETE FROM onward_jobs WHERE id = ANY (%s)"


def connect() -> Connection:
    return psycopg.connect(on_postgres.url(DATABASE), autocommit=True, prepare_threshold=0)


def reset() -> None:
    with closing(PostgresBackend.from_url(on_postgres.fresh(DATABASE))) as backend:
        backend.connect()  # makes the real schema


@contextmanager
def opened() -> Iterator[Connection]:
    yield connect()


def enqueue(connection: Connection, n: int) -> None:
    for _ in range(n):
        connection.execute(_INSERT, (_id(), _BODY))


def bulk(connection: Connection, n: int) -> None:
    """By COPY."""
    for start in range(0, n, on_postgres.BATCH):
        with connection.cursor().copy(_COPY) as copy:
            copy.set_types(_TYPES)
            for _ in range(start, min(n, start + on_postgres.BATCH)):
                copy.write_row((_id(), *_ROW, _BODY))


def bulk_unnest(connection: Connection, n: int) -> None:
    for start in range(0, n, on_postgres.BATCH):
        ids = [_id() for _ in range(start, min(n, start + on_postgres.BATCH))]
        connection.execute(_UNNEST, (ids, [_BODY] * len(ids)))


def filled() -> None:
    on_postgres.rest(DATABASE)


def processes(config: str) -> int:
    return CONFIGS[config][1]


def serve(config: str) -> None:
    keep, _ = CONFIGS[config]
    owner = f"{random.getrandbits(128):032x}"
    job: dict[str, Any] = payload(1)
    done: list[str] = []
    with connect() as connection:
        connection.execute("SET plan_cache_mode = force_custom_plan")  # it knows how many ids there are
        while True:
            with connection.pipeline():
                connection.execute("BEGIN")
                connection.execute(_MOVE if keep else _DELETE, (done,))
                claimed = connection.cursor(binary=True).execute(_CLAIM, (owner,))
                connection.execute("COMMIT")
                rows = claimed.fetchall()
            done = [row[0] for row in rows]
            for _ in rows:
                noop(job)


def _id() -> str:
    return f"{next(_numbers):032x}"
