"""Batches: one turn settles many leases of every kind, and each gets the answer it would have got alone."""

from __future__ import annotations

import msgspec
import pytest

from onward.backend import Settlement
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_failure,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs

__all__ = ["BatchesContract", "TurnsContract"]

_TARGETS = {
    "ack": State.COMPLETED,
    "skip": State.COMPLETED,
    "nack": State.RETRYABLE,
    "abandon": State.DISCARDED,
    "snooze": State.SCHEDULED,
    "park": State.SCHEDULED,
    "cancelled": State.CANCELLED,
    "release": State.AVAILABLE,
    "crashed": State.RETRYABLE,
}


class BatchesContract:
    BATCH = 500

    def test_no_settlements_need_no_answers(self, backend):
        assert backend.settle([]) == []

    def test_a_turn_of_every_move_answers_each_in_order(self, backend):
        backend.enqueue(some_envelopes(len(SETTLEMENTS)))
        leases = backend.claim(a_claim(limit=len(SETTLEMENTS)))

        answers = backend.settle(
            [settlement(lease) for settlement, lease in zip(SETTLEMENTS.values(), leases, strict=True)]
        )

        assert [(answer.applied, answer.state) for answer in answers] == [
            (True, _TARGETS[name]) for name in SETTLEMENTS
        ]

    @needs("inspection")
    def test_a_turn_of_every_move_does_to_each_job_what_the_move_says(self, backend):
        backend.enqueue(some_envelopes(len(SETTLEMENTS)))
        leases = backend.claim(a_claim(limit=len(SETTLEMENTS)))

        backend.settle([settlement(lease) for settlement, lease in zip(SETTLEMENTS.values(), leases, strict=True)])

        states = [backend.get(lease.envelope.id).state for lease in leases]
        assert states == [_TARGETS[name] for name in SETTLEMENTS]

    def test_lost_gone_and_repeated_settlements_do_not_disturb_the_others(self, backend):
        lost = a_lease(backend)
        backend.release(lost)
        backend.claim(a_claim(owner="other"))
        repeated = a_lease(backend)
        backend.ack(repeated)
        backend.enqueue(some_envelopes(3))
        first, second, third = backend.claim(a_claim(limit=3))
        gone = Settlement.ack(msgspec.structs.replace(lost, envelope=an_envelope()))

        answers = backend.settle(
            [
                Settlement.ack(first),
                Settlement.ack(lost),
                Settlement.nack(second, 60, failure=a_failure()),
                gone,
                Settlement.ack(repeated),
                Settlement.abandon(third, "gave up"),
            ]
        )

        assert [str(answer.answer) for answer in answers] == [
            "applied",
            "lease_lost",
            "applied",
            "gone",
            "already_applied",
            "applied",
        ]

    @needs("inspection")
    def test_jobs_asked_to_cancel_are_turned_in_the_middle_of_a_batch(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))
        backend.cancel([leases[1].envelope.id], "not wanted")

        answers = backend.settle([Settlement.nack(lease, 60) for lease in leases])

        assert [answer.state for answer in answers] == [State.RETRYABLE, State.CANCELLED, State.RETRYABLE]

    def test_a_large_batch_is_settled_and_claimed_in_one_turn(self, backend):
        backend.enqueue(some_envelopes(2 * self.BATCH))
        leases = backend.claim(a_claim(limit=self.BATCH))

        result = backend.turn(a_turn(*map(Settlement.ack, leases), claim=a_claim(limit=self.BATCH)))

        assert sum(answer.applied for answer in result.settled) == self.BATCH
        assert len(result.leases) == self.BATCH

    @needs("inspection")
    def test_each_job_of_a_batch_keeps_its_own_result_delay_and_failure(self, backend, clock):
        backend.enqueue(some_envelopes(4))
        one, two, three, four = backend.claim(a_claim(limit=4))

        backend.settle(
            [
                Settlement.ack(one, b"1"),
                Settlement.nack(two, 2, failure=a_failure("two")),
                Settlement.ack(three, b"3"),
                Settlement.nack(four, 4, failure=a_failure("four")),
            ]
        )

        jobs = [backend.get(lease.envelope.id) for lease in (one, two, three, four)]
        assert [job.result for job in jobs] == [b"1", None, b"3", None]
        assert [job.available_at - clock.micros() for job in (jobs[1], jobs[3])] == [2_000_000, 4_000_000]
        assert [job.runs[0].failure.message for job in (jobs[1], jobs[3])] == ["two", "four"]

    @needs("inspection")
    def test_the_jobs_of_one_batch_may_leave_dead_letters_each(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))

        backend.settle(
            [Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="failed")) for lease in leases]
        )

        assert backend.counts("failed")[State.AVAILABLE] == 3


class TurnsContract:
    def test_an_empty_turn_of_a_living_session_does_nothing(self, backend):
        backend.open_session(a_session())

        result = backend.turn(a_turn())

        assert result.alive
        assert (result.settled, result.leases, result.promoted, result.cancel_requested) == ([], [], 0, ())

    @pytest.mark.parametrize("settled", [0, 3])
    def test_a_dead_turn_answers_every_settlement(self, backend, settled):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))
        backend.reap(owner="worker", started=())

        result = backend.turn(a_turn(*map(Settlement.ack, leases[:settled])))

        assert len(result.settled) == settled

    def test_turns_of_two_workers_do_not_mix(self, backend, open_client):
        other = open_client()
        mine, theirs = a_lease(backend, owner="mine"), a_lease(other, owner="theirs")

        result = backend.turn(a_turn(Settlement.ack(mine), owner="mine"))

        assert result.settled[0].applied
        assert other.ack(theirs).applied
