"""Sweeps: many leases at once, and none that keeps the others."""

import logging
import sqlite3
import time
from contextlib import closing

import pytest

from onward.job.states import State
from onward.testing.contract.builders import a_claim, some_envelopes


@pytest.mark.promise("F11")
def test_twenty_thousand_leases_come_back_in_one_sweep(backend, clock, report):
    for _ in range(20):
        backend.enqueue(some_envelopes(1_000))
    for owner in range(4):
        backend.claim(a_claim(owner=f"worker-{owner}", limit=5_000))
    assert backend.counts()[State.EXECUTING] == 20_000
    clock.advance(31)

    started = time.monotonic()
    reaped = backend.reap()
    elapsed = time.monotonic() - started

    report(f"20,000 leases of dead sessions given back on SQLite in {elapsed:.2f} s")
    assert len(reaped) == 20_000
    assert backend.counts()[State.RETRYABLE] == 20_000
    assert elapsed < 15


@pytest.fixture
def refuse(file):
    """Let the store refuse to change this job."""

    def refuse_it(job_id):
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute(
                f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs WHEN old.id = '{job_id}' "
                "BEGIN SELECT raise(ABORT, 'not this one'); END"
            )

    return refuse_it


@pytest.fixture
def relent(file):
    def relent_now():
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER refuse")

    return relent_now


@pytest.mark.promise("F11")
def test_one_that_cannot_be_given_back_keeps_no_other(backend, clock, refuse, relent, caplog):
    backend.enqueue(some_envelopes(10))
    leases = backend.claim(a_claim(limit=10))
    stuck = leases[0].envelope.id
    refuse(stuck)
    clock.advance(31)

    with caplog.at_level(logging.ERROR, "onward.backend.sqlite"):
        reaped = backend.reap()

    assert {each.id for each in reaped} == {lease.envelope.id for lease in leases[1:]}
    assert [record.getMessage() for record in caplog.records] == [f"job {stuck} cannot be given back: not this one"]
    relent()
    assert [each.id for each in backend.reap()] == [stuck]
