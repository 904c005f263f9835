"""A transaction that is kept open: what dies under it cannot be removed, and claims must not grow slower for it.

A fixed load is enqueued and done, second by second.  Before the transaction begins, at the end of its time and after it has
ended, jobs are done as fast as they can be, for a while; these speeds are compared.
"""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg

from onward.backend import Claim, Envelope, Lease, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.flow.lanes import lane_of
from onward.job.states import State
from onward.testing.contract.builders import an_envelope
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger

__all__ = ["behind_a_snapshot"]

_PER_SECOND = 1_000
_BATCH = 500
_OWNER = "worker"
_WINDOW = 1.0
_ENOUGH = 60.0  # seconds from which on a speed tells something: a busy machine is twice as slow for a moment


def behind_a_snapshot(url: str, *, seconds: float, tell: Tell, lanes: int = 0) -> Ledger:
    """Keep a transaction open for so long under a fixed load; it must stay above half of its speed, and come back to it.

    ``lanes``: over how many the jobs are spread; 0: they are plain.
    """
    begun = time.monotonic()
    for_a_while = min(10.0, seconds / 4)
    with (
        closing(PostgresBackend.from_url(url)) as backend,
        psycopg.connect(url) as other,
        psycopg.connect(url, autocommit=True) as server,
    ):
        backend.open_session(Session(owner=_OWNER))
        _work(backend, for_a_while, lanes)  # claims are never as fast as in tables that are new
        server.execute("VACUUM onward_jobs")
        before, done_before = _flat_out(backend, server, for_a_while, lanes)

        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM onward_queues")
        _, done_slowly = _work(backend, seconds, lanes, per_second=_PER_SECOND)
        tell(done_slowly)
        during, done_during = _flat_out(backend, server, for_a_while, lanes)

        other.rollback()
        server.execute("VACUUM onward_jobs")  # as it does by itself, a minute later
        _work(backend, 1.0, lanes)  # that the snapshot is gone is known within a second
        after, done_after = _flat_out(backend, server, for_a_while, lanes)
        counts = backend.counts()
        left = counts[State.AVAILABLE] + counts[State.EXECUTING]
    return Ledger(
        f"{seconds:,.0f} s behind a snapshot at {_PER_SECOND:,} jobs/s{f' in {lanes:,} lanes' if lanes else ''}, postgres",
        {
            "jobs": done_before + done_slowly + done_during + done_after,
            "a second, before": before,
            "during": during,
            "after": after,
            "percent during": 100 * during / before,
            "percent after": 100 * after / before,
            "seconds": time.monotonic() - begun,
        },
        {
            "half of the speed lost": int(seconds >= _ENOUGH and during < 0.5 * before),
            "not recovered": int(seconds >= _ENOUGH and after < 0.8 * before),  # by so much two equal runs may differ
            "jobs left": left,
        },
    )


def _flat_out(
    backend: PostgresBackend, server: psycopg.Connection[Any], seconds: float, lanes: int
) -> tuple[float, int]:
    """As fast as it can be: each time from a checkpoint on, which otherwise would fall into one of them."""
    server.execute("CHECKPOINT")
    return _work(backend, seconds, lanes)


def _work(backend: PostgresBackend, seconds: float, lanes: int, *, per_second: float = 1e9) -> tuple[float, int]:
    """Jobs done in a second of turns, and how many were done."""
    windows = [_Window()]
    done = 0
    leases: list[Lease] = []
    more = False
    numbers = itertools.count()
    begun = time.monotonic()
    end = begun + seconds
    while (now := time.monotonic()) < end or leases or more:
        if now - windows[-1].begun > _WINDOW:
            windows.append(_Window())
        if now < end:
            backend.enqueue([_job(next(numbers), lanes) for _ in range(_BATCH)])
        settlements = [Settlement.ack(lease) for lease in leases]
        claim = Claim(queues=("default",), limit=_BATCH)
        started = time.perf_counter()
        result = backend.turn(Turn(owner=_OWNER, settlements=settlements, claim=claim))
        windows[-1].busy += time.perf_counter() - started
        leases, more = list(result.leases), result.more
        windows[-1].done += len(settlements)
        done += len(settlements)
        # A load, not a race: the next batch is due when it is due.
        time.sleep(max(0.0, min(begun + done / per_second, end) - time.monotonic()))
    return statistics.median(window.done / window.busy for window in windows), done


def _job(number: int, lanes: int) -> Envelope:
    return an_envelope(lane=lane_of("", f"tenant-{number % lanes}")) if lanes else an_envelope()


@dataclass
class _Window:
    """A look at everything is due once a second: every window has one.  A bad second of the machine spoils only its own."""

    begun: float = field(default_factory=time.monotonic)
    done: int = 0
    busy: float = 0.0
