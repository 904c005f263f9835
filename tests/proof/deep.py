"""A deep backlog, a full calendar and a long history: a claim costs what it costs in an empty table.

Two namespaces of one database are claimed from in turns, so that a bad second of the machine is everybody's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg

from onward.backend import Claim, Lease, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend, queries
from onward.backends.postgres.arrays import as_array
from onward.backends.postgres.queue_marks import QueueMarks
from onward.testing.contract.builders import some_envelopes
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tests.waiting import eventually

__all__ = ["tables"]

_BATCH = 20
_OWNER = "worker"
_ENOUGH = 300_000  # rows of a kind from which on a p99 tells something of them
_YEAR = 31_536_000_000_000

# What a worker asks again and again, and what may be walked for it.
_ASKED = {
    "claim": "jobs_claim_idx",
    "promote": "jobs_due_idx",
    "complete": "jobs_pkey",
    "settle": "",  # by ids, along that of the keys or of the owners
    "dead_leases": "jobs_owner_idx",
    "orphans": "jobs_owner_idx",
    "next_due": "jobs_claim_idx",
}

_FILL = """
INSERT INTO {prefix}jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed)
SELECT lpad(to_hex(n), 32, '0'), 'default', 'available', 0, n, 3, n, 'work', {body} FROM generate_series(1, {count}) AS n;
INSERT INTO {prefix}jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed)
SELECT 'f' || lpad(to_hex(n), 31, '0'), 'default', 'scheduled', 0, {year} + n, 3, n, 'work', {body}
  FROM generate_series(1, {count}) AS n;
INSERT INTO {prefix}finished (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job, sealed,
                              delivery, attempts, crashes, interruptions, waits, finished_at)
SELECT 'a' || lpad(to_hex(n), 31, '0'), 'default', 'completed', 0, n, 3, n, 0, 'work', {body}, 1, 1, 0, 0, 0, n
  FROM generate_series(1, {count}) AS n;
VACUUM ANALYZE {prefix}jobs;
VACUUM ANALYZE {prefix}finished;
CHECKPOINT
"""


def tables(url: str, *, rows: int, turns: int, tell: Tell) -> Ledger:
    """So many rows of each kind beside none; the p99 of a turn that claims and settles may be twice as long, no more."""
    begun = time.monotonic()
    with (
        closing(PostgresBackend.from_url(url, namespace="empty")) as empty,
        closing(PostgresBackend.from_url(url, namespace="full")) as full,
    ):
        empty.connect()
        full.connect()
        _fill(url, "onward_full_", rows)
        tell(3 * rows)
        took: dict[str, list[float]] = {"empty": [], "full": []}
        for backend in (empty, full):
            backend.open_session(Session(owner=_OWNER))
        leases: dict[str, Sequence[Lease]] = {"empty": [], "full": []}
        for _ in range(turns):
            for name, backend in (("empty", empty), ("full", full)):
                leases[name] = _turn(backend, leases[name], took[name])
        _tidy(url)
        walked = {name: _pages(backend) for name, backend in (("empty", empty), ("full", full))}
        strays = [name for name, index in _ASKED.items() if not _walks(full, name, index)]
    slow = {name: sorted(each)[int(len(each) * 0.99)] * 1000 for name, each in took.items()}
    ratio = slow["full"] / slow["empty"]
    return Ledger(
        f"{rows:,} waiting, {rows:,} future and {rows:,} finished jobs beside none, postgres",
        {
            "turns": turns,
            "p99 ms in empty tables": slow["empty"],
            "in full ones": slow["full"],
            "ratio": ratio,
            "pages of a claim in empty tables": walked["empty"],
            "in full ones, pages": walked["full"],
            "seconds": time.monotonic() - begun,
        },
        {
            "p99 more than doubled": int(rows >= _ENOUGH and ratio > 2.0),
            # The indexes of millions are some pages deeper.
            "pages more than tripled": int(walked["full"] > 3 * walked["empty"]),
        },
        [f"{name} does not walk its index" for name in strays],
    )


def _turn(backend: PostgresBackend, leases: Sequence[Lease], took: list[float]) -> Sequence[Lease]:
    backend.enqueue(some_envelopes(_BATCH))
    settlements = [Settlement.ack(lease) for lease in leases]
    claim = Claim(queues=("default",), limit=_BATCH)
    started = time.perf_counter()
    claimed = backend.turn(Turn(owner=_OWNER, settlements=settlements, claim=claim)).leases
    took.append(time.perf_counter() - started)
    return claimed


def _fill(url: str, prefix: str, rows: int) -> None:
    year = time.time_ns() // 1000 + _YEAR
    body = "decode(repeat('ab', 200), 'hex')"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _FILL.split(";\n"):
            connection.execute(statement.format(prefix=prefix, count=rows, year=year, body=body).encode())


def _tidy(url: str) -> None:
    """Remove what has died in both: the server itself does that to one sooner than to the other.

    While it analyses a table it keeps a snapshot, behind which nothing can be removed.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        at_work = b"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
        eventually(lambda: connection.execute(at_work).fetchone() == (0,), what="the server's own vacuum does not end")
        for prefix in ("onward_empty_", "onward_full_"):
            connection.execute(f"VACUUM {prefix}jobs".encode())


def _pages(backend: PostgresBackend) -> int:
    """What a claim looks at, in pages of the server's memory."""
    backend.enqueue(some_envelopes(_BATCH))
    given: dict[str, Any] = {"now": None, "owner": _OWNER, "queues": ["default"], "at_most": [_BATCH], "limit": _BATCH}
    given |= {"released": [], **QueueMarks().for_claim(["default"])}
    sql, names = backend._sql["claim"]
    values = [as_array(given[name]) if isinstance(given[name], list) else given[name] for name in names]
    with backend._connections.borrowed() as connection:
        connection.execute("BEGIN")
        row = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, values).fetchone()
        connection.execute("ROLLBACK")
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _walks(backend: PostgresBackend, name: str, index: str) -> bool:
    """Whether a statement, as a connection prepares it, walks this index of the jobs and reads no table as a whole."""
    sql, names = queries.load("onward_full_")[name]
    with backend._connections.borrowed() as connection:
        connection.execute(b"PREPARE planned AS " + sql, prepare=False)
        nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
        row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{nulls}".encode(), prepare=False).fetchone()
        connection.execute("DEALLOCATE planned", prepare=False)
    assert row is not None
    steps = list(_steps(row[0][0]["Plan"]))
    whole = {step.get("Relation Name") for step in steps if step["Node Type"] == "Seq Scan"}
    sorts = [step for step in steps if step["Node Type"] in ("Sort", "Incremental Sort", "Hash Join", "Merge Join")]
    walked = {step["Index Name"] for step in steps if "Index Name" in step}
    # From its beginning to its end; the other indexes hold few jobs, or are walked from a place on.
    whole |= {step["Relation Name"] for step in steps if _is_key(step) and "Index Cond" not in step}
    large = {"onward_full_jobs", "onward_full_finished"}
    return (not index or f"onward_full_{index}" in walked) and not whole & large and (name != "claim" or not sorts)


def _is_key(step: dict[str, Any]) -> bool:
    return str(step.get("Index Name", "")).endswith("_pkey")


def _steps(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for inner in step.get("Plans", ()):
        yield from _steps(inner)
