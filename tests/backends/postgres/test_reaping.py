"""Sweeps: many leases at once, and none that keeps the others."""

import logging
import time

import pytest

from onward.job.states import State
from onward.testing.contract.builders import a_claim, some_envelopes


@pytest.mark.promise("F11")
def test_twenty_thousand_leases_come_back_in_one_sweep(backend, clock, report):
    for _ in range(4):
        backend.enqueue(some_envelopes(5_000))
    for owner in range(4):
        backend.claim(a_claim(owner=f"worker-{owner}", limit=5_000))
    assert backend.counts()[State.EXECUTING] == 20_000
    clock.advance(31)

    started = time.monotonic()
    reaped = backend.reap()
    elapsed = time.monotonic() - started

    report(f"20,000 leases of dead sessions given back on PostgreSQL in {elapsed:.2f} s")
    assert len(reaped) == 20_000
    assert backend.counts()[State.RETRYABLE] == 20_000
    assert elapsed < 15


@pytest.fixture
def refuse(sql):
    """Let the store refuse to change this job."""

    def refuse_it(job_id):
        sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$")
        sql(
            f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs FOR EACH ROW WHEN (old.id = '{job_id}') "
            "EXECUTE FUNCTION refuse()"
        )

    yield refuse_it
    sql("DROP FUNCTION IF EXISTS refuse CASCADE")


@pytest.mark.promise("F11")
def test_one_that_cannot_be_given_back_keeps_no_other(backend, clock, refuse, sql, caplog):
    backend.enqueue(some_envelopes(10))
    leases = backend.claim(a_claim(limit=10))
    stuck = leases[0].envelope.id
    refuse(stuck)
    clock.advance(31)

    with caplog.at_level(logging.ERROR, "onward.backend"):
        reaped = backend.reap()

    assert {each.id for each in reaped} == {lease.envelope.id for lease in leases[1:]}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"job {stuck} cannot be given back: ")
    assert "not this one" in told
    sql("DROP FUNCTION refuse CASCADE")
    assert [each.id for each in backend.reap()] == [stuck]
