"""Stores that hold very many jobs: waiting ones come by the front door, finished ones are copies of one that was run.

Ten million jobs by the front door would take most of an hour.  A copy has all the rows, index entries and keys of the job
that it is a copy of, but for its id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import redis

from onward.backend import Backend, Claim, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.backends.redis import RedisBackend
from onward.backends.sqlite import SqliteBackend
from onward.base.clock import SystemClock
from onward.base.ids import IdMaker
from onward.job.envelope import Envelope, Letter, seal

__all__ = ["OWNER", "Stock", "fill", "opened", "sealed"]

OWNER = "bench"
_CHUNK = 1_000
_COPIES = 100_000  # in one statement, or in ten calls of a script
_clock = SystemClock()
_new_id = IdMaker(_clock)


class Stock(NamedTuple):
    """How many jobs there are."""

    queues: Sequence[str]
    waiting: int
    finished: int


def opened(store: str, place: str, name: str) -> Any:
    """An empty store, beside others in the same place."""
    if store == "sqlite":
        return SqliteBackend.open(Path(place) / f"{name}.db")
    backend: Any = (PostgresBackend if store == "postgres" else RedisBackend).from_url(place, namespace=name)
    backend.connect()
    return backend


def fill(store: str, place: str, backend: Any, stock: Stock) -> None:
    """Store the jobs, and open the session that the turns are made in."""
    backend.open_session(Session(owner=OWNER))
    template = _finished_one(backend, stock.queues[0])
    {"sqlite": _copy_sqlite, "postgres": _copy_postgres, "redis": _copy_redis}[store](
        place, backend, template, stock.finished - 1
    )
    for start in range(0, stock.waiting, _CHUNK):
        backend.enqueue(sealed(stock.queues, min(_CHUNK, stock.waiting - start)))
    if store == "postgres":
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def sealed(queues: Sequence[str], count: int) -> list[Envelope]:
    """So many jobs, as many in each queue."""
    now = _clock.micros()
    return [
        seal(
            Letter(
                id=_new_id(),
                namespace="default",
                queue=queues[number % len(queues)],
                job="work",
                max_retries=0,
                max_crashes=3,
                enqueued_at=now,
            )
        )
        for number in range(count)
    ]


def _finished_one(backend: Backend, queue: str) -> str:
    backend.enqueue(sealed([queue], 1))
    (lease,) = backend.turn(Turn(owner=OWNER, claim=Claim(queues=(queue,), limit=1))).leases
    backend.turn(Turn(owner=OWNER, settlements=[Settlement.ack(lease)]))
    return lease.envelope.id


def _portions(count: int) -> Iterator[tuple[int, int]]:
    """The first number and the number after the last, of one portion after the other."""
    for start in range(0, count, _COPIES):
        yield start, min(count, start + _COPIES)


def _copy_sqlite(place: str, backend: Any, template: str, count: int) -> None:
    file = backend._connections.path  # noqa: SLF001  copies are no business of its
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        names = [row[1] for row in connection.execute("PRAGMA table_info(onward_finished)") if row[1] != "number"]
        for start, end in _portions(count):
            connection.execute(
                f"""INSERT INTO onward_finished ({", ".join(names)})
                    WITH RECURSIVE n (x) AS (SELECT ?1 UNION ALL SELECT x + 1 FROM n WHERE x + 1 < ?2)
                    SELECT {_columns(names, "printf('0%031x', x)")} FROM onward_finished, n WHERE id = ?3""",  # noqa: S608
                (start, end, template),
            )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy_postgres(place: str, backend: Any, template: str, count: int) -> None:
    table = f"{backend._prefix}finished"  # noqa: SLF001
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND table_name = %s AND is_generated = 'NEVER' AND is_identity = 'NO'",
            [table],
        ).fetchall()
        names = [name for (name,) in found]
        copy = (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {_columns(names, _POSTGRES_ID)} "  # noqa: S608
            f"FROM {table}, generate_series(%s::bigint, %s::bigint - 1) AS x WHERE id = %s"
        )
        for start, end in _portions(count):
            connection.execute(copy.encode(), [start, end, template])


_POSTGRES_ID = "'0' || lpad(to_hex(x), 31, '0')"


def _columns(names: Sequence[str], numbered: str) -> str:
    return ", ".join(numbered if name == "id" else name for name in names)


# Whatever has the job as a field or as a member has its copies, too.
_COPY = """
local hashes, scored = cjson.decode(ARGV[1]), cjson.decode(ARGV[2])
for number = ARGV[4], ARGV[5] - 1 do
  local id = string.format('0%031x', number)
  for _, each in ipairs(hashes) do redis.call('HSET', each, id, redis.call('HGET', each, ARGV[3])) end
  for _, each in ipairs(scored) do redis.call('ZADD', each, redis.call('ZSCORE', each, ARGV[3]), id) end
end
"""


def _copy_redis(place: str, backend: Any, template: str, count: int) -> None:
    with redis.Redis.from_url(place) as client:
        hashes, scored = [], []
        for key in client.scan_iter(f"{backend._prefix}*", count=1_000):  # noqa: SLF001
            kind = client.type(key)
            if kind == b"hash" and client.hexists(key, template):
                hashes.append(key.decode())
            elif kind == b"zset" and client.zscore(key, template) is not None:
                scored.append(key.decode())
        copy = client.register_script(_COPY)
        for start in range(0, count, 10 * _CHUNK):
            copy(args=[json.dumps(hashes), json.dumps(scored), template, start, min(count, start + 10 * _CHUNK)])
