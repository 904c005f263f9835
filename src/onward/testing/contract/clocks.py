"""The clock: the store's own decides, and it may stop or go back without harm."""

from __future__ import annotations

import pytest

from onward.base.clock import SECOND
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["ClocksContract"]


class ClocksContract:
    @needs("delays")
    @pytest.mark.parametrize("skew", [-3600, 3600])
    @pytest.mark.promise("F41")
    def test_the_clients_clock_does_not_decide_what_is_due(self, backend, clock, skew):
        enqueued_at = clock.micros() + skew * SECOND
        backend.enqueue([due := an_envelope(enqueued_at=enqueued_at), an_envelope(enqueued_at=enqueued_at, delay=60)])

        assert ids(backend.claim(a_claim(limit=9))) == [due.id]

    def test_a_clock_that_stands_still_delays_nobody(self, backend):
        envelopes = some_envelopes(3)
        for envelope in envelopes:
            backend.enqueue([envelope])

        assert ids(backend.claim(a_claim(limit=9))) == ids(envelopes)

    @pytest.mark.promise("F42")
    def test_a_clock_that_goes_back_does_not_hide_what_was_available(self, backend, clock):
        backend.enqueue([envelope := an_envelope()])

        clock.advance(-3600)

        assert ids(backend.claim(a_claim())) == [envelope.id]

    def test_a_clock_that_goes_back_ends_no_session(self, backend, clock):
        lease = a_lease(backend)
        clock.advance(-3600)

        assert backend.reap() == []
        assert backend.ack(lease).applied

    def test_a_clock_that_goes_back_does_not_lower_the_tokens(self, backend, clock):
        lease = a_lease(backend)
        backend.release(lease)
        clock.advance(-3600)

        (again,) = backend.claim(a_claim())

        assert again.token > lease.token
