"""Suspects: a job that crashed is claimed alone, so that no other job dies with it."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Envelope, Sealed
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    ids,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs

__all__ = ["SuspectsContract"]


@pytest.mark.promise("F05")
class SuspectsContract:
    @pytest.fixture
    def crowd(self, backend, clock):
        """Enqueue two clean jobs, a suspect and two clean jobs, in this order, in one queue."""

        def gather(queue: str = "default", **options: Any) -> tuple[list[Envelope], Sealed, list[Envelope]]:
            suspect = a_lease(backend, owner="crashing", queue=queue, **options).envelope
            before, after = some_envelopes(2, queue=queue), some_envelopes(2, queue=queue)
            backend.enqueue(before)
            clock.advance(1)
            backend.reap(owner="crashing")
            clock.advance(1)
            backend.enqueue(after)
            return before, suspect, after

        return gather

    def test_a_claim_stops_before_a_suspect(self, backend, crowd):
        before, _, _ = crowd()

        assert ids(backend.claim(a_claim(limit=9))) == ids(before)

    def test_a_suspect_that_is_first_is_claimed_alone(self, backend, crowd):
        _, suspect, _ = crowd()
        backend.claim(a_claim(limit=9))

        assert ids(backend.claim(a_claim(limit=9))) == [suspect.id]

    def test_behind_a_suspect_that_was_claimed_the_clean_jobs_go_on(self, backend, crowd):
        _, _, after = crowd()
        backend.claim(a_claim(limit=9))
        backend.claim(a_claim(limit=9))

        assert ids(backend.claim(a_claim(limit=9))) == ids(after)

    def test_a_claim_that_is_full_before_the_suspect_does_not_reach_it(self, backend, crowd):
        before, _, _ = crowd()

        assert ids(backend.claim(a_claim(limit=1))) == [before[0].id]

    def test_a_claim_that_stops_before_a_suspect_does_not_go_on_to_the_next_queue(self, backend, crowd):
        before, _, _ = crowd("a")
        backend.enqueue([an_envelope(queue="b")])

        assert ids(backend.claim(a_claim(queues=("a", "b"), limit=9))) == ids(before)

    @needs("inspection", "delays")
    def test_a_turn_that_stops_before_a_suspect_promotes_in_the_queues_behind_it(self, backend, clock, crowd):
        crowd("a")
        backend.open_session(a_session())
        backend.enqueue(some_envelopes(2, queue="b", delay=60))
        clock.advance(60)

        backend.turn(a_turn(claim=a_claim(queues=("a", "b"), limit=9)))

        assert backend.counts("b")[State.AVAILABLE] == 2

    def test_a_suspect_that_is_first_in_a_later_queue_is_left_when_there_are_clean_jobs_before(self, backend, crowd):
        backend.enqueue([clean := an_envelope(queue="a")])
        before, _, _ = crowd("b")
        backend.claim(a_claim(queues=("b",), limit=len(before)))

        assert ids(backend.claim(a_claim(queues=("a", "b"), limit=9))) == [clean.id]

    def test_a_suspect_that_is_first_in_a_later_queue_is_claimed_alone_when_the_queues_before_are_empty(
        self, backend, crowd
    ):
        before, suspect, _ = crowd("b")
        backend.claim(a_claim(queues=("b",), limit=len(before)))

        assert ids(backend.claim(a_claim(queues=("a", "b"), limit=9))) == [suspect.id]

    def test_two_suspects_are_claimed_one_by_one(self, backend):
        backend.enqueue(some_envelopes(2))
        leases = backend.claim(a_claim(owner="crashing", limit=2))
        backend.reap(owner="crashing")

        claims = [ids(backend.claim(a_claim(limit=9))) for _ in range(3)]

        assert claims == [[leases[0].envelope.id], [leases[1].envelope.id], []]

    @pytest.mark.parametrize("name", ["nack", "snooze", "park", "release"])
    def test_a_suspect_that_is_put_back_is_still_a_suspect(self, backend, clock, crowd, name):
        before, suspect, _ = crowd()
        backend.claim(a_claim(limit=len(before)))
        backend.settle([SETTLEMENTS[name](backend.claim(a_claim())[0])])
        clock.advance(60)

        claims = [ids(backend.claim(a_claim(limit=9))) for _ in range(2)]

        assert [suspect.id] in claims

    @needs("inspection")
    def test_a_suspect_that_succeeds_is_completed_like_any_other(self, backend, crowd):
        _, suspect, _ = crowd()
        backend.claim(a_claim(limit=9))

        backend.ack(backend.claim(a_claim())[0])

        assert backend.get(suspect.id).state is State.COMPLETED

    @needs("inspection")
    def test_a_suspect_that_has_expired_keeps_nobody_waiting(self, backend, clock, crowd):
        before, suspect, after = crowd(expires_at=clock.micros() + 5_000_000)
        clock.advance(60)

        assert ids(backend.claim(a_claim(limit=9))) == ids(before + after)
        assert backend.get(suspect.id).state is State.CANCELLED
