"""Sweeps, asked of each database: many leases at once, and none that keeps the others."""

import logging
import time

import pytest

from onward.job.states import State
from onward.testing.contract.builders import a_claim, some_envelopes


class Sweeps:
    """Fixtures: ``refuse(job_id)`` lets the store refuse to change this job, and ``relent()`` lets it change all again."""

    longest = 15  # seconds for 20,000 leases

    @pytest.mark.promise("F11")
    def test_twenty_thousand_leases_come_back_in_one_sweep(self, backend, clock, report, store_name):
        for _ in range(20):
            backend.enqueue(some_envelopes(1_000))
        for owner in range(4):
            backend.claim(a_claim(owner=f"worker-{owner}", limit=5_000))
        assert backend.counts()[State.EXECUTING] == 20_000
        clock.advance(31)

        started = time.monotonic()
        reaped = backend.reap()
        elapsed = time.monotonic() - started

        report(f"20,000 leases of dead sessions given back on {store_name} in {elapsed:.2f} s")
        assert len(reaped) == 20_000
        assert backend.counts()[State.RETRYABLE] == 20_000
        assert elapsed < self.longest

    @pytest.mark.promise("F11")
    def test_one_that_cannot_be_given_back_keeps_no_other(self, backend, clock, refuse, relent, caplog):
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
        relent()
        assert [each.id for each in backend.reap()] == [stuck]
