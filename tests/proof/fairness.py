"""Turns between tenants, however much waits: who starts when, and what a claim looks at to find out.

What is looked at is counted where the engine counts it: steps of SQLite's virtual machine, pages of PostgreSQL's memory,
rows that MariaDB reads, commands that Redis executes.  A claim among a million jobs may look at half as much again as one
among a thousand, for indexes grow deeper; nothing in it may grow with what waits.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from onward import Onward
from onward.backend import Claim, Envelope, Lease, LimitRow, Session, Settlement, Turn
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds
from onward.testing.contract.builders import some_envelopes
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger, scheme_of

__all__ = ["of_tenants"]

_FEW = 1_000
_SMALL = 10
_DEEPER = 1.5
_BATCH = 5_000
_OWNER = "worker"
_BLOCKED = LimitRow(kind="key", name="render", declared=Bounds(running=1))
_PREFIX = LimitRow(kind="job", name="report", declared=Bounds(running=1))

Looks = Callable[[Callable[[], Any]], int]  # what is looked at meanwhile


def of_tenants(store: Any, *, waiting: int, tenants: int, short_lived: int, tell: Tell) -> Ledger:
    """One tenant with so many jobs; a job whose lane is full with as many; so many tenants; processes of one claim each."""
    begun = time.monotonic()
    url = store.url()
    with closing(Onward(url)) as app, _counting(app, store) as looks:
        backend: Any = app.connect().parts().backend
        backend.open_session(Session(owner=_OWNER, limits=(_BLOCKED, _PREFIX)))
        small = _small_beside_large(backend, looks, waiting, tell)
        blocked = _behind_a_full_lane(backend, looks, waiting, tell)
        prefix = _behind_a_full_job(backend, looks, tenants)
        turns = _turns_of_many(backend, tenants)
    shares = _shares(url, short_lived)
    return Ledger(
        f"{waiting:,} jobs of one tenant, {waiting:,} that are blocked, {tenants:,} tenants, {scheme_of(url)}",
        {
            f"starts until {_SMALL} of another tenant have started": small[0],
            "looked at beside a thousand": small[1],
            "beside all": small[2],
            "looked at behind a full lane of a thousand": blocked[0],
            "of all": blocked[1],
            "looked at behind a full job with a thousand keys at most": prefix[1],
            "starts until every tenant has started": turns,
            "claims of processes that live for one": 100 * short_lived,
            "smallest share, of an equal one": min(shares),
            "largest share": max(shares),
            "seconds": time.monotonic() - begun,
        },
        {
            "late starts of the small tenant": int(small[0] > 2 * _SMALL),
            "more looked at beside more": int(small[2] > _DEEPER * small[1]),
            "more looked at behind a longer lane": int(blocked[1] > _DEEPER * blocked[0]),
            "more looked at behind more keys": int(prefix[1] > _DEEPER * prefix[0]),
            "late starts of a tenant": int(turns > tenants),
            "shares beyond a factor of 3": int(min(shares) < 1 / 3 or max(shares) > 3),
            "nothing was counted": int(not all((*small, *blocked, *prefix))),
        },
    )


def _small_beside_large(backend: Any, looks: Looks, waiting: int, tell: Tell) -> tuple[int, int, int]:
    """Starts until the jobs of a small tenant have started, and what a claim looks at beside few and beside all."""
    large, small = lane_of("", "large"), lane_of("", "small")
    _fill(backend, _FEW, "turns", large, tell)
    few = _steady(backend, looks, "turns")
    _fill(backend, waiting - _FEW, "turns", large, tell)
    many = _steady(backend, looks, "turns")
    backend.enqueue(some_envelopes(_SMALL, queue="turns", lane=small))
    starts, found = 0, 0
    while found < _SMALL:
        for lease in _done(backend, _claim(backend, "turns", 4)):
            starts += found < _SMALL
            found += lease.lane == small
    return starts, few, many


def _behind_a_full_lane(backend: Any, looks: Looks, waiting: int, tell: Tell) -> tuple[int, int]:
    """What a claim looks at that steps over a lane whose limit is reached, which is first in line."""
    full = lane_of("render", "large")
    _fill(backend, _FEW, "blocked", full, tell)
    assert len(_claim(backend, "blocked", 1)) == 1
    _fill(backend, 4 * _FEW, "blocked", lane_of("render", "other"), tell)
    few = _steady(backend, looks, "blocked")
    _fill(backend, waiting - _FEW, "blocked", full, tell)
    return few, _steady(backend, looks, "blocked")


def _behind_a_full_job(backend: Any, looks: Looks, keys: int) -> tuple[int, int]:
    """What a claim looks at that steps over all lanes of a job whose limit is reached: of ten, and of so many."""
    backend.enqueue([_one("prefix", "report", number) for number in range(10)])
    assert len(_claim(backend, "prefix", 1)) == 1
    backend.enqueue(some_envelopes(_FEW, queue="prefix", lane=lane_of("", "other")))
    few = _steady(backend, looks, "prefix")
    backend.enqueue([_one("prefix", "report", number) for number in range(keys)])
    return few, _steady(backend, looks, "prefix")


def _turns_of_many(backend: Any, tenants: int) -> int:
    """How many starts it takes until each of so many tenants has had one.  Each has several jobs."""
    for _ in range(3):
        backend.enqueue([_one("tenants", "", number) for number in range(tenants)])
    seen: set[str | None] = set()
    for starts in itertools.count(20, 20):
        seen |= {lease.lane for lease in _done(backend, _claim(backend, "tenants", 20))}
        if len(seen) == tenants or starts > 3 * tenants:
            return starts
    raise AssertionError("it counts for ever")


def _shares(url: str, tenants: int) -> list[float]:
    """The share of each tenant of an equal one, where every claim is made by a process of its own."""
    served: Counter[str | None] = Counter()
    for number in range(100 * tenants):
        with closing(Onward(url)) as app:
            backend: Any = app.connect().parts().backend
            if number == 0:
                backend.enqueue([_one("short", "", each) for each in range(tenants)])
            backend.open_session(Session(owner=_OWNER))
            leases = _claim(backend, "short", 1)
            backend.settle([Settlement.release(lease) for lease in leases])
            served.update(lease.lane for lease in leases)
    return [served[lane_of("", f"tenant-{number}")] / 100 for number in range(tenants)]


def _one(queue: str, job: str, number: int) -> Envelope:
    (envelope,) = some_envelopes(1, queue=queue, lane=lane_of(job, f"tenant-{number}"))
    return envelope


def _fill(backend: Any, count: int, queue: str, lane: str | None, tell: Tell) -> None:
    for done in range(0, count, _BATCH):
        backend.enqueue(some_envelopes(min(_BATCH, count - done), queue=queue, lane=lane))
        if done % (20 * _BATCH) == 0:
            tell(done)


def _claim(backend: Any, queue: str, limit: int) -> Sequence[Lease]:
    claimed: Sequence[Lease] = backend.turn(Turn(owner=_OWNER, claim=Claim(queues=(queue,), limit=limit))).leases
    return claimed


def _done(backend: Any, leases: Sequence[Lease]) -> Sequence[Lease]:
    backend.settle([Settlement.ack(lease) for lease in leases])
    return leases


def _steady(backend: Any, looks: Looks, queue: str) -> int:
    """What a claim of ten looks at: the least of some, for the first ones read what later ones know."""
    leases: list[Lease] = []
    found = []
    for _ in range(5):
        found.append(looks(lambda: leases.extend(_claim(backend, queue, 10))))
        assert leases, f"nothing was claimed from {queue}"
        _done(backend, leases)
        leases.clear()
    return min(found)


# What is looked at, engine by engine.


@contextmanager
def _counting(app: Onward, store: Any) -> Iterator[Looks]:
    backend: Any = app.connect().parts().backend
    counter = {"sqlite": _steps, "postgresql": _pages, "mysql": _rows, "redis": _commands}[
        scheme_of(store.url()).partition("+")[0]
    ]
    with counter(backend, store) as looks:
        yield looks


@contextmanager
def _steps(backend: Any, _: Any) -> Iterator[Looks]:
    """Steps of the virtual machine, by tens."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    def looks(act: Callable[[], Any]) -> int:
        before = steps
        act()
        return steps - before

    pools = (backend._connections.writer, backend._connections._reader)
    for pool in pools:
        with pool.borrowed() as connection:
            connection.set_progress_handler(step, 10)
    yield looks
    for pool in pools:
        with pool.borrowed() as connection:
            connection.set_progress_handler(None, 0)


@contextmanager
def _pages(backend: Any, store: Any) -> Iterator[Looks]:
    """Pages of tables and indexes that the server's sessions asked for."""
    sql = "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) FROM pg_statio_user_tables"

    def count(server: psycopg.Connection[Any]) -> int:
        with backend._connections.borrowed() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
        row = server.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])

    with psycopg.connect(store.url(), autocommit=True) as server:

        def looks(act: Callable[[], Any]) -> int:
            before = count(server)
            act()
            return count(server) - before

        yield looks


@contextmanager
def _rows(backend: Any, _: Any) -> Iterator[Looks]:
    """Rows that the storage engine was asked for."""

    def count() -> int:
        with backend._connections.borrowed() as connection:
            (found,) = connection.send(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in found.rows)

    def looks(act: Callable[[], Any]) -> int:
        before = count()
        act()
        return count() - before

    yield looks


@contextmanager
def _commands(_: Any, store: Any) -> Iterator[Looks]:
    """Commands that the server executed, those of scripts among them."""
    with store._server.client() as client:

        def count() -> int:
            return sum(each["calls"] for each in client.info("commandstats").values())

        def looks(act: Callable[[], Any]) -> int:
            before = count()
            act()
            return count() - before

        yield looks
