"""A look costs what it may count, whatever is stored.

What is read where every state of every queue is just as full as counting goes is compared with what is read where there are
many times as many jobs.

SQLite tells the steps of its virtual machine, PostgreSQL and MariaDB the rows that were read of tables and indexes, and
PostgreSQL which tables it has read as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from onward.backend import Look, Settlement
from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.sqlite import SqliteBackend
from onward.testing.contract.builders import a_claim, a_failure, an_envelope, some_envelopes
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger

__all__ = ["Stock", "of_a_file", "on_mariadb", "on_postgres"]

MOST = 1.5  # times as much as where there are just as many jobs as are counted
PARTS = ("counts", "place", "deaths")
_SQLITE_COPY = """
    INSERT INTO onward_{table} SELECT {columns} FROM onward_{table}
      JOIN (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {copies}) SELECT x FROM n)
"""
_POSTGRES_COPY = (
    "INSERT INTO {prefix}{table} ({names}) SELECT {columns} FROM {prefix}{table}, generate_series(1, {copies}) AS x"
)
_MARIADB_COPY = "INSERT INTO {prefix}{table} ({names}) SELECT {columns} FROM {prefix}{table}, seq_1_to_{copies}"
_READ = (
    b"SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint FROM pg_class"
    b" WHERE relname LIKE 'onward%' AND relkind IN ('r', 'i')"
)
_SCANNED = b"SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 AND seq_tup_read > 1000"


class Stock(NamedTuple):
    """How many jobs there are."""

    at_most: int  # no state of a queue is counted beyond
    queues: int
    times: int  # as many available and as many scheduled jobs in each queue of the full store
    finished: int  # in the full store, half of them dead

    @property
    def brim(self) -> tuple[int, int]:
        """Copies of each job that waits, and of each that is over, where there are just as many as are counted."""
        return self.at_most, self.at_most

    @property
    def full(self) -> tuple[int, int]:
        return self.at_most * self.times, self.finished // 2


def of_a_file(folder: Path, stock: Stock, tell: Tell) -> Ledger:
    """Compare the steps that looks at two files take."""
    begun = time.monotonic()
    with (
        closing(SqliteBackend.open(folder / "brim.db", durability="relaxed")) as brim,
        closing(SqliteBackend.open(folder / "full.db", durability="relaxed")) as full,
    ):
        _fill_file(brim, stock, stock.brim)
        tell(_fill_file(full, stock, stock.full))
        costs = {part: (_steps(brim, part, stock), _steps(full, part, stock)) for part in PARTS}
    return _ledger("sqlite, steps", stock, costs, begun)


def on_postgres(url: str, stock: Stock, tell: Tell) -> Ledger:
    """Compare the rows that looks at two namespaces read."""
    begun = time.monotonic()
    with (
        closing(PostgresBackend.from_url(url, namespace="brim")) as brim,
        closing(PostgresBackend.from_url(url, namespace="full")) as full,
    ):
        brim.connect()
        full.connect()
        _fill_tables(brim, url, "onward_brim_", stock, stock.brim)
        tell(_fill_tables(full, url, "onward_full_", stock, stock.full))
        counted = {part: (_rows(brim, part, stock), _rows(full, part, stock)) for part in PARTS}
    costs = {part: (at_brim[0], at_full[0]) for part, (at_brim, at_full) in counted.items()}
    scanned = [
        f"{part} reads {', '.join(at_full[1])} as a whole" for part, (_, at_full) in counted.items() if at_full[1]
    ]
    return _ledger("postgres, rows", stock, costs, begun, scanned)


def on_mariadb(url: str, stock: Stock, tell: Tell) -> Ledger:
    """The same on MariaDB."""
    begun = time.monotonic()
    with (
        closing(MySQLBackend.from_url(url, namespace="brim")) as brim,
        closing(MySQLBackend.from_url(url, namespace="full")) as full,
    ):
        brim.connect()
        full.connect()
        last = (
            _fill_mariadb(brim, "onward_brim_", stock, stock.brim),
            _fill_mariadb(full, "onward_full_", stock, stock.full),
        )
        tell(2 * (stock.full[0] * stock.queues + stock.full[1]))
        costs = {part: (_handled(brim, part, stock, last[0]), _handled(full, part, stock, last[1])) for part in PARTS}
    return _ledger("mariadb, rows", stock, costs, begun)


def _ledger(
    name: str, stock: Stock, costs: dict[str, tuple[int, int]], begun: float, errors: list[str] | None = None
) -> Ledger:
    waiting, finished = stock.full
    jobs = f"{2 * waiting * stock.queues:,} waiting and {2 * finished:,} finished jobs in {stock.queues} queues"
    figures = {
        f"{part} {where}": cost
        for part, both in costs.items()
        for where, cost in zip(("brim", "full"), both, strict=True)
    }
    return Ledger(
        f"looks at {jobs}, {name}",
        {**figures, "seconds": time.monotonic() - begun},
        {f"{part} costs more": int(full > MOST * brim) for part, (brim, full) in costs.items()},
        errors or [],
    )


def _act(backend: Any, part: str, stock: Stock, tx: Any, last: str) -> None:
    now = tx.ask("clock").value()
    if part == "counts":
        seen = backend._overview(tx, stock.at_most, now)
        assert {max(queue.counts.values()) for queue in seen.queues} == {stock.at_most}
    elif part == "place":
        assert backend._place(tx, last, stock.at_most, now).ahead == stock.at_most
    else:
        assert [group.count for group in backend._deaths(tx, stock.at_most)] == [stock.at_most]


def _steps(backend: SqliteBackend, part: str, stock: Stock) -> int:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    with backend._reading() as tx:
        connection: Any = tx._connection
        last = _last(lambda sql: connection.execute(sql).fetchone(), "onward_")
        connection.set_progress_handler(step, 1)
        try:
            _act(backend, part, stock, tx, last)
        finally:
            connection.set_progress_handler(None, 0)
    return steps


def _rows(backend: PostgresBackend, part: str, stock: Stock) -> tuple[int, list[str]]:
    def asked(tx: Any) -> tuple[int, list[str]]:
        def one(sql: str) -> Any:
            return tx._sender.send(sql.encode(), []).rows()[0]

        last = _last(one, backend._prefix)
        ((before,),) = tx._sender.send(_READ, []).rows()
        _act(backend, part, stock, tx, last)
        ((after,),) = tx._sender.send(_READ, []).rows()
        return after - before, [name for (name,) in tx._sender.send(_SCANNED, []).rows()]

    return backend._read(asked)


def _handled(backend: MySQLBackend, part: str, stock: Stock, last: str) -> int:
    look = Look(
        counts=part == "counts",
        place_of=last if part == "place" else None,
        deaths=part == "deaths",
        at_most=stock.at_most,
    )
    backend.look(look)  # what is done once, as a connection is opened, is not counted
    (connection,) = backend._connections._open.values()
    connection.send(b"FLUSH STATUS")
    backend.look(look)
    (status,) = connection.send(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in status.rows)


def _fill_mariadb(backend: MySQLBackend, prefix: str, stock: Stock, copies: tuple[int, int]) -> str:
    """Return the job that comes last in its line."""
    _templates(backend, stock)
    with backend._connections.borrowed() as connection:
        for table, number in zip(("jobs", "finished"), copies, strict=True):
            (names,) = connection.send(
                b"SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND extra = '' "
                b"AND table_name = '%s'" % (prefix + table).encode()
            )
            written = [name for (name,) in names.rows]
            columns = ", ".join("concat(id, '-', lpad(seq, 8, '0'))" if name == "id" else name for name in written)
            copy = _MARIADB_COPY.format(
                prefix=prefix, table=table, names=", ".join(written), columns=columns, copies=number
            )
            connection.send(copy.encode())
            connection.send(f"ANALYZE TABLE {prefix}{table}".encode())
        (found,) = connection.send(
            f"SELECT max(id) FROM {prefix}jobs WHERE queue = 'q0' AND state = 'available'".encode()
        )
    return str(found.rows[0][0])


def _last(one: Callable[[str], Any], prefix: str) -> str:
    """Return the job that comes last in its line."""
    ((job_id,),) = (one(f"SELECT max(id) FROM {prefix}jobs WHERE queue = 'q0' AND state = 'available'"),)
    return str(job_id)


def _templates(backend: Any, stock: Stock) -> None:
    """Store one job of each kind."""
    backend.enqueue(some_envelopes(2, queue="ended"))
    dead, success = backend.claim(a_claim(queues=("ended",), limit=2))
    backend.settle([Settlement.abandon(dead, "gave up", failure=a_failure()), Settlement.ack(success)])
    for number in range(stock.queues):
        backend.enqueue([an_envelope(queue=f"q{number}"), an_envelope(queue=f"q{number}", delay=3600)])


def _fill_file(backend: SqliteBackend, stock: Stock, copies: tuple[int, int]) -> int:
    _templates(backend, stock)
    with backend._writing() as tx:
        connection: Any = tx._connection
        for table, number in zip(("jobs", "finished"), copies, strict=True):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info(onward_{table})")]
            columns = ", ".join("printf('%s-%08d', id, x)" if name == "id" else name for name in names)
            connection.execute(_SQLITE_COPY.format(table=table, columns=columns, copies=number))
        connection.execute("ANALYZE")
    return 2 * (copies[0] * stock.queues + copies[1])


def _fill_tables(backend: PostgresBackend, url: str, prefix: str, stock: Stock, copies: tuple[int, int]) -> int:
    _templates(backend, stock)
    with psycopg.connect(url, autocommit=True) as connection:
        for table, number in zip(("jobs", "finished"), copies, strict=True):
            names = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER' "
                "AND is_identity = 'NO'",
                [prefix + table],
            ).fetchall()
            written = [name for (name,) in names]
            columns = ", ".join("id || '-' || lpad(x::text, 8, '0')" if name == "id" else name for name in written)
            copy = _POSTGRES_COPY.format(
                prefix=prefix, table=table, names=", ".join(written), columns=columns, copies=number
            )
            connection.execute(copy.encode())
            connection.execute(f"VACUUM ANALYZE {prefix}{table}".encode())
    return 2 * (copies[0] * stock.queues + copies[1])
