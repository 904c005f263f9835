"""Durability: a job whose enqueue was answered is there when the store is opened again."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Hold, Settlement
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.holds import ONCE

__all__ = ["DurabilityContract"]


@needs("durable")
class DurabilityContract:
    @pytest.fixture
    def reopen(self, backend, open_client):
        """Close the store and open it again."""

        def again() -> Any:
            backend.close()
            return open_client()

        return again

    @pytest.mark.promise("F43")
    def test_an_enqueued_job_is_still_there(self, backend, reopen):
        backend.enqueue([envelope := an_envelope()])

        again = reopen()

        assert ids(again.claim(a_claim())) == [envelope.id]

    @needs("sessions")
    def test_a_lease_can_still_be_settled(self, backend, reopen):
        lease = a_lease(backend)

        assert reopen().ack(lease).applied

    @needs("remembers")
    def test_a_settlement_is_still_known(self, backend, reopen):
        ack = Settlement.ack(a_lease(backend))
        backend.settle([ack])

        (answer,) = reopen().settle([ack])

        assert answer.already_applied

    @needs("sessions")
    def test_a_session_that_expired_meanwhile_is_swept(self, backend, clock, reopen):
        lease = a_lease(backend, lease_for=30)
        again = reopen()
        clock.advance(31)

        assert [each.id for each in again.reap()] == [lease.envelope.id]

    @needs("inspection")
    def test_a_job_looks_the_same(self, backend, clock, reopen):
        lease = a_lease(backend, payload={"text": "ü"})
        backend.progress(lease, b"0.5")
        backend.nack(lease, 60)
        before = backend.get(lease.envelope.id)

        assert reopen().get(lease.envelope.id) == before
        assert before.state is State.RETRYABLE

    @needs("deduplicates")
    def test_keys_are_still_taken(self, backend, reopen):
        backend.ack(a_lease(backend, **ONCE))
        backend.enqueue([holder := an_envelope(queue="other", unique_key="k")])

        again = reopen()

        assert a_lease(again, **ONCE).hold is Hold.DONE
        assert again.enqueue([an_envelope(unique_key="k")])[0].existing_id == holder.id
