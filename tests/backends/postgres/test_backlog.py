"""A claim costs the same beside a million jobs that wait, a million for later and a million that ended."""

import os
import time
from contextlib import closing
from statistics import quantiles

import pytest

from onward.backend import Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.testing.contract.builders import a_claim, a_session, some_envelopes
from tests.servers.connecting import connected

SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0.02"))
MANY = round(1_000_000 * SCALE)
CLAIMS = 300
WAITING = """
INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed)
SELECT '{state}' || lpad(cast(n AS text), 20, '0'), 'default', '{state}', 0, {at}, 3, 1, 'work', 'x'
  FROM generate_series(1, {count}) AS n
"""
ENDED = """
INSERT INTO onward_finished (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job, sealed,
                             delivery, attempts, crashes, interruptions, waits, finished_at)
SELECT 'f' || lpad(cast(n AS text), 20, '0'), 'default', 'completed', 0, 0, 3, 1, 0, 'work', 'x', 1, 1, 0, 0, 0, 1
  FROM generate_series(1, {count}) AS n
"""


@pytest.fixture
def url(fresh_url):
    return fresh_url


@pytest.fixture
def claims(url, sql):
    """Claim one job after the other, and settle each with the next: the blocks that this touched, and the slowest of a
    hundred in milliseconds."""

    def measure():
        with closing(connected(PostgresBackend.from_url(url))) as backend:
            backend.open_session(a_session("me"))
            backend.enqueue(some_envelopes(CLAIMS, priority=10))
        before = _touched(sql)
        with closing(connected(PostgresBackend.from_url(url))) as backend:
            took, settlements = [], []
            for _ in range(CLAIMS):
                begun = time.perf_counter()
                result = backend.turn(Turn(owner="me", settlements=settlements, claim=a_claim(owner="me", limit=1)))
                took.append(time.perf_counter() - begun)
                settlements = [Settlement.ack(lease) for lease in result.leases]
                assert len(settlements) == 1
            backend.settle(settlements)
        return _touched(sql) - before, quantiles(took[10:], n=100)[98] * 1000

    return measure


def _touched(sql):
    """A session tells what it did when it ends."""
    while sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'onward'"):
        time.sleep(0.01)
    ((blocks,),) = sql(
        "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) "
        "FROM pg_statio_user_tables WHERE relname = 'onward_jobs'"
    )
    return blocks


@pytest.mark.slow
@pytest.mark.promise("F46")
@pytest.mark.timeout(120 + 1_800 * SCALE)
@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(WAITING.format(state="available", at=0, count=MANY), id="waiting"),
        pytest.param(WAITING.format(state="scheduled", at=2**57, count=MANY), id="for later"),
        pytest.param(ENDED.format(count=MANY), id="ended"),
    ],
)
def test_a_claim_does_not_depend_on_what_else_is_there(claims, sql, url, fill, report, request):
    connected(PostgresBackend.from_url(url)).close()
    sql("ALTER TABLE onward_jobs SET (autovacuum_enabled = off)")  # so that the planner does not learn of it
    few, quick = claims()
    sql(fill)
    sql("SELECT pg_stat_force_next_flush()")  # or what that touched would be told later

    many, slow = claims()

    report(
        f"claims on PostgreSQL beside {MANY:,} jobs ({request.node.callspec.id}): {many / few:.2f} x the blocks and "
        f"{slow / quick:.1f} x the time of an empty table, p99 {slow:.1f} ms"
    )
    assert many < 2 * few
