"""A look costs what it may count, whatever is stored; and so does the page of a job, and a search.

What is read where every state of every queue is just as full as counting goes is compared with what is read where there are
many times as many jobs.

SQLite tells the steps of its virtual machine, PostgreSQL and MariaDB the rows that were read of tables and indexes, and
PostgreSQL which tables it has read as a whole.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from onward import Onward
from onward.backend import AuditEntry, AuditQuery, Look, Query, Settlement
from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.sql.audit import audit_page
from onward.backends.sql.inspection import EVERY_STATE, matching
from onward.backends.sqlite import SqliteBackend
from onward.operate.finding import LOOKED_AT, LOOKED_FOR, PAGE
from onward.testing.contract.builders import a_claim, a_failure, an_envelope, some_envelopes
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger

__all__ = ["Stock", "of_a_file", "on_mariadb", "on_postgres"]

MOST = 1.5  # times as much as where there are just as many jobs as are counted
PARTS = ("counts", "place", "deaths", "job page", "page of a search")
ACTS = 100  # of people, on the page of a job
SEARCHES = ("queue:rare", "job:rare", "state:retryable", "state:available queue:rare", "nowhere", "arg.x:1 queue:rare")
TAKES = LOOKED_FOR + 1.0  # seconds: the page that is read last is read to its end, on a machine that others use
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
    def brim(self) -> Copies:
        return Copies(self.at_most, self.at_most, ACTS)

    @property
    def full(self) -> Copies:
        return Copies(self.at_most * self.times, self.finished // 2, ACTS * self.times)


class Copies(NamedTuple):
    """How many there are of each job that waits, and of each that is over; and of what people did to one job."""

    jobs: int
    finished: int
    audit: int


def of_a_file(folder: Path, stock: Stock, tell: Tell) -> Ledger:
    """Compare the steps that looks at two files take; then search the full one for what is not there."""
    return _compared(_Files(folder), stock, tell).and_then(_searches(f"sqlite:///{folder}/full.db"))


def _searches(url: str) -> Ledger:
    """Search in vain, by all that a store compares itself and by what it does not."""
    with Onward(url) as app:
        found = {}
        for text in SEARCHES:
            begun = time.monotonic()
            found[text] = app.find(text), time.monotonic() - begun
    return Ledger(
        "searches in vain",
        {
            "looked through at most": max(page.looked for page, _ in found.values()),
            "longest": max(took for _, took in found.values()),
        },
        {
            "looked too far": sum(page.looked > LOOKED_AT for page, _ in found.values()),
            "took too long": sum(took > TAKES for _, took in found.values()),
            "found": sum(len(page.jobs) for page, _ in found.values()),
        },
    )


def on_postgres(url: str, stock: Stock, tell: Tell) -> Ledger:
    """Compare the rows that looks at two namespaces read."""
    return _compared(_PostgresNamespaces(url), stock, tell)


def on_mariadb(url: str, stock: Stock, tell: Tell) -> Ledger:
    """The same on MariaDB."""
    return _compared(_MariadbNamespaces(url), stock, tell)


class _Stores(ABC):
    """A kind of store: how one is opened and filled, and what a look at it costs."""

    NAME: str
    COPY: str  # with all columns but those that the store counts itself
    NUMBERED: str  # the id of a copy

    def __init__(self) -> None:
        self.scanned: list[str] = []  # tables that were read as a whole

    @abstractmethod
    def open(self, name: str) -> Any: ...

    @abstractmethod
    def columns(self, backend: Any, table: str) -> list[str]: ...

    @abstractmethod
    def run(self, backend: Any, statement: str) -> Any:
        """Run it; return its first value, if it has any."""

    @abstractmethod
    def analyze(self, backend: Any, table: str) -> str: ...

    @abstractmethod
    def cost(self, backend: Any, part: str, stock: Stock, last: str) -> int: ...

    def prefix(self, backend: Any) -> str:
        return str(backend._prefix)

    def fill(self, backend: Any, stock: Stock, copies: Copies) -> str:
        """Store so many copies of one job of each kind; return the job that comes last in its line, with all the entries."""
        _templates(backend, stock)
        last, prefix = "", self.prefix(backend)
        for table, number in copies._asdict().items():
            written = self.columns(backend, table)
            chosen = {"id": self.NUMBERED, "job_id": f"'{last}'"}
            copy = self.COPY.format(
                table=f"{prefix}{table}",
                names=", ".join(written),
                columns=", ".join(chosen.get(name, name) for name in written),
                copies=number,
            )
            self.run(backend, copy)
            self.run(backend, self.analyze(backend, table))
            if table == "jobs":
                newest = f"SELECT max(id) FROM {prefix}jobs WHERE queue = 'q0' AND state = 'available'"
                last = str(self.run(backend, newest))
        return last


def _compared(stores: _Stores, stock: Stock, tell: Tell) -> Ledger:
    begun = time.monotonic()
    with closing(stores.open("brim")) as brim, closing(stores.open("full")) as full:
        last = stores.fill(brim, stock, stock.brim), stores.fill(full, stock, stock.full)
        tell(2 * (stock.full.jobs * stock.queues + stock.full.finished))
        costs = {
            part: (stores.cost(brim, part, stock, last[0]), stores.cost(full, part, stock, last[1])) for part in PARTS
        }
    jobs = f"{2 * stock.full.jobs * stock.queues:,} waiting and {2 * stock.full.finished:,} finished jobs"
    figures = {
        f"{part} {where}": cost
        for part, both in costs.items()
        for where, cost in zip(("brim", "full"), both, strict=True)
    }
    return Ledger(
        f"looks at {jobs} in {stock.queues} queues, {stores.NAME}",
        {**figures, "seconds": time.monotonic() - begun},
        {f"{part} costs more": int(full > MOST * brim) for part, (brim, full) in costs.items()},
        stores.scanned,
    )


def _templates(backend: Any, stock: Stock) -> None:
    """Store one job of each kind, and what a person did to one."""
    backend.enqueue(some_envelopes(2, queue="ended"))
    dead, success = backend.claim(a_claim(queues=("ended",), limit=2))
    backend.settle([Settlement.abandon(dead, "gave up", failure=a_failure()), Settlement.ack(success)])
    for number in range(stock.queues):
        backend.enqueue([an_envelope(queue=f"q{number}"), an_envelope(queue=f"q{number}", delay=3600)])
    backend.pause("q0", paused=True, audit=[AuditEntry(at=1, who="ada", act="pause")])


def _look(part: str, stock: Stock, last: str) -> Look:
    return Look(
        counts=part == "counts",
        place_of=last if part in ("place", "job page") else None,
        deaths=part == "deaths",
        audit=AuditQuery(job_id=last, limit=ACTS) if part == "job page" else None,
        at_most=stock.at_most,
    )


def _act(backend: Any, part: str, stock: Stock, tx: Any, last: str) -> None:
    """Do what a look does, in a transaction whose cost is known."""
    look, now = _look(part, stock, last), tx.ask("clock").value()
    if look.counts:
        seen = backend._overview(tx, stock.at_most, now)
        assert {max(queue.counts.values()) for queue in seen.queues} == {stock.at_most}
    if look.place_of:
        assert backend._place(tx, last, stock.at_most, now).ahead == stock.at_most
    if look.audit:
        assert len(audit_page(tx, look.audit)) == ACTS
    if look.deaths:
        assert [group.count for group in backend._deaths(tx, stock.at_most)] == [stock.at_most]
    if look == Look(at_most=stock.at_most):
        assert len(matching(tx, _searched(), within=EVERY_STATE)) == PAGE


def _searched() -> Query:
    """A page of what a search looks through."""
    return Query(limit=PAGE, newest_first=True)


class _Files(_Stores):
    NAME = "sqlite, steps"
    COPY = """
        INSERT INTO {table} ({names}) SELECT {columns} FROM {table}
          JOIN (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {copies}) SELECT x FROM n)
    """
    NUMBERED = "printf('%s-%08d', id, x)"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def open(self, name: str) -> SqliteBackend:
        return SqliteBackend.open(self._folder / f"{name}.db", durability="relaxed")

    def prefix(self, _: Any) -> str:
        return "onward_"

    def columns(self, backend: SqliteBackend, table: str) -> list[str]:
        with backend._reading() as tx:
            connection: Any = tx._connection
            names = [row[1] for row in connection.execute(f"PRAGMA table_info(onward_{table})")]
        return [name for name in names if name != "number"]

    def run(self, backend: SqliteBackend, statement: str) -> Any:
        with backend._writing() as tx:
            connection: Any = tx._connection
            found = connection.execute(statement).fetchone()
        return found[0] if found else None

    def analyze(self, _: Any, table: str) -> str:
        return f"ANALYZE onward_{table}"

    def cost(self, backend: SqliteBackend, part: str, stock: Stock, last: str) -> int:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        with backend._reading() as tx:
            connection: Any = tx._connection
            connection.set_progress_handler(step, 1)
            try:
                _act(backend, part, stock, tx, last)
            finally:
                connection.set_progress_handler(None, 0)
        return steps


class _PostgresNamespaces(_Stores):
    NAME = "postgres, rows"
    COPY = "INSERT INTO {table} ({names}) SELECT {columns} FROM {table}, generate_series(1, {copies}) AS x"
    NUMBERED = "id || '-' || lpad(x::text, 8, '0')"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def open(self, name: str) -> PostgresBackend:
        backend = PostgresBackend.from_url(self._url, namespace=name)
        backend.connect()
        return backend

    def columns(self, backend: PostgresBackend, table: str) -> list[str]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            names = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER' "
                "AND is_identity = 'NO'",
                [self.prefix(backend) + table],
            ).fetchall()
        return [name for (name,) in names]

    def run(self, _: Any, statement: str) -> Any:
        with psycopg.connect(self._url, autocommit=True) as connection:
            asked = connection.execute(statement.encode())
            found = asked.fetchone() if asked.description else None
        return found[0] if found else None

    def analyze(self, backend: PostgresBackend, table: str) -> str:
        return f"VACUUM ANALYZE {self.prefix(backend)}{table}"

    def cost(self, backend: PostgresBackend, part: str, stock: Stock, last: str) -> int:
        def asked(tx: Any) -> int:
            ((before,),) = tx._sender.send(_READ, []).rows()
            _act(backend, part, stock, tx, last)
            ((after,),) = tx._sender.send(_READ, []).rows()
            self.scanned += [f"{part} reads {name} as a whole" for (name,) in tx._sender.send(_SCANNED, []).rows()]
            return int(after - before)

        return backend._read(asked)


class _MariadbNamespaces(_Stores):
    NAME = "mariadb, rows"
    COPY = "INSERT INTO {table} ({names}) SELECT {columns} FROM {table}, seq_1_to_{copies}"
    NUMBERED = "concat(id, '-', lpad(seq, 8, '0'))"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = f"{url}{'&' if '?' in url else '?'}read_timeout=1000"  # to copy half a million jobs takes long

    def open(self, name: str) -> MySQLBackend:
        backend = MySQLBackend.from_url(self._url, namespace=name)
        backend.connect()
        return backend

    def columns(self, backend: MySQLBackend, table: str) -> list[str]:
        with backend._connections.borrowed() as connection:
            (names,) = connection.send(
                b"SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND extra = '' "
                b"AND table_name = '%s'" % (self.prefix(backend) + table).encode()
            )
        return [name for (name,) in names.rows]

    def run(self, backend: MySQLBackend, statement: str) -> Any:
        with backend._connections.borrowed() as connection:
            (answer,) = connection.send(statement.encode())
        return answer.rows[0][0] if answer.rows else None

    def analyze(self, backend: MySQLBackend, table: str) -> str:
        return f"ANALYZE TABLE {self.prefix(backend)}{table}"

    def cost(self, backend: MySQLBackend, part: str, stock: Stock, last: str) -> int:
        look = _look(part, stock, last)

        def act() -> None:
            if look == Look(at_most=stock.at_most):
                assert len(backend.list(_searched())) == PAGE
            else:
                backend.look(look)

        act()  # what is done once, as a connection is opened, is not counted
        (connection,) = backend._connections._open.values()
        connection.send(b"FLUSH STATUS")
        act()
        (status,) = connection.send(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in status.rows)
