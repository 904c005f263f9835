"""Evidence: a settlement whose answer was lost is sent again, and the store knows what happened to the first copy.

In this order: the record of the run, then the finished job or its tombstone, then no trace at all.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.backend import TOMBSTONE, Query, Settlement
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_failure,
    a_lease,
    a_turn,
    every_settlement,
    every_settlement_but_a_crash,
)
from onward.testing.contract.capabilities import needs

__all__ = ["EvidenceContract", "NoEvidenceContract", "OtherMovesContract", "TurnedEvidenceContract"]

_KEPT = {
    "ack": State.COMPLETED,
    "skip": State.COMPLETED,
    "nack": State.RETRYABLE,
    "abandon": State.DISCARDED,
    "cancelled": State.CANCELLED,
}
evidence_is_kept = pytest.mark.parametrize(("name", "state"), _KEPT.items(), ids=_KEPT.keys())
turned = pytest.mark.parametrize("name", [name for name in SETTLEMENTS if name != "ack"])

# With a failure the evidence is the record, without one the finished job.
without_a_record = pytest.mark.parametrize(
    ("settlement", "state"),
    [
        (lambda lease: Settlement.abandon(lease, "gave up"), State.DISCARDED),
        (lambda lease: Settlement.cancelled(lease, "stopped", ran=True), State.CANCELLED),
    ],
    ids=["abandon", "cancelled"],
)


@pytest.mark.promise("F02", "F27")
class EvidenceContract:
    @evidence_is_kept
    def test_a_repeated_settlement_was_already_applied(self, backend, name, state):
        settlement = SETTLEMENTS[name](a_lease(backend))
        backend.settle([settlement])

        (answer,) = backend.settle([settlement])

        assert answer.already_applied
        assert answer.state is state

    @without_a_record
    def test_a_repeated_end_without_a_failure_was_already_applied(self, backend, settlement, state):
        lease = a_lease(backend)
        backend.settle([settlement(lease)])

        (answer,) = backend.settle([settlement(lease)])

        assert answer.already_applied
        assert answer.state is state

    @needs("inspection")
    @evidence_is_kept
    def test_a_repeated_settlement_changes_nothing(self, backend, clock, name, state):
        lease = a_lease(backend)
        backend.settle([SETTLEMENTS[name](lease)])
        before = backend.get(lease.envelope.id)
        clock.advance(5)

        backend.settle([SETTLEMENTS[name](lease)])

        assert backend.get(lease.envelope.id) == before

    @evidence_is_kept
    def test_a_repeat_is_recognised_after_the_session_died(self, backend, name, state):
        settlement = SETTLEMENTS[name](a_lease(backend))
        backend.settle([settlement])
        backend.reap(owner="worker", started=())

        (answer,) = backend.settle([settlement])

        assert answer.already_applied
        assert answer.state is state

    @needs("remembers")
    @evidence_is_kept
    def test_a_repeat_is_recognised_by_another_client(self, backend, open_client, name, state):
        settlement = SETTLEMENTS[name](a_lease(backend))
        backend.settle([settlement])

        (answer,) = open_client().settle([settlement])

        assert answer.already_applied
        assert answer.state is state

    def test_a_nack_is_recognised_after_the_next_run_has_begun(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 0)
        backend.claim(a_claim(owner="next"))

        answer = backend.nack(lease, 0)

        assert answer.already_applied
        assert answer.state is State.RETRYABLE

    def test_a_nack_is_recognised_after_the_job_was_finished_by_another(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 0)
        backend.ack(backend.claim(a_claim(owner="next"))[0])

        answer = backend.nack(lease, 0)

        assert answer.already_applied
        assert answer.state is State.RETRYABLE

    def test_a_repeated_nack_leaves_the_next_run_its_lease(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 0)
        (following,) = backend.claim(a_claim(owner="next"))
        backend.nack(lease, 0)

        assert backend.ack(following).applied

    @needs("inspection")
    def test_a_nack_is_recognised_after_its_job_was_replayed(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 0)
        backend.abandon(backend.claim(a_claim())[0], "gave up")
        backend.replay(Query(ids=(lease.envelope.id,)))

        assert backend.nack(lease, 0).already_applied

    def test_an_ack_is_recognised_by_the_tombstone(self, backend):
        ack = Settlement.ack(a_lease(backend), keep=False)
        backend.settle([ack])

        (answer,) = backend.settle([ack])

        assert answer.already_applied
        assert answer.state is State.COMPLETED

    def test_repeats_are_recognised_beside_first_copies_in_one_turn(self, backend):
        first = SETTLEMENTS["nack"](a_lease(backend))
        backend.settle([first])
        fresh = SETTLEMENTS["ack"](a_lease(backend))

        answers = backend.turn(a_turn(first, fresh)).settled

        assert [str(answer.answer) for answer in answers] == ["already_applied", "applied"]


class OtherMovesContract:
    """The evidence of one move is no evidence of another."""

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("nack", "ack"),
            ("nack", "abandon"),
            ("nack", "release"),
            ("abandon", "ack"),
            ("abandon", "nack"),
            ("cancelled", "ack"),
            ("ack", "nack"),
            ("ack", "abandon"),
            ("ack", "cancelled"),
            ("ack", "release"),
            ("ack", "snooze"),
            ("skip", "nack"),
            ("snooze", "ack"),
            ("park", "nack"),
            ("release", "ack"),
        ],
    )
    def test_a_second_move_with_the_same_lease_has_lost_it(self, backend, first, second):
        lease = a_lease(backend)
        backend.settle([SETTLEMENTS[first](lease)])

        (answer,) = backend.settle([SETTLEMENTS[second](lease)])

        assert answer.lease_lost

    @pytest.mark.parametrize("name", ["snooze", "park", "release"])
    def test_no_evidence_is_kept_of_putting_a_job_back_without_a_run(self, backend, name):
        settlement = SETTLEMENTS[name](a_lease(backend))
        backend.settle([settlement])

        (answer,) = backend.settle([settlement])

        assert answer.lease_lost

    @every_settlement_but_a_crash
    def test_a_discard_by_the_reaper_is_not_taken_for_my_own(self, backend, settlement):
        lease = a_lease(backend, max_crashes=1)
        backend.reap(owner="worker", started=[(lease.envelope.id, lease.token)])

        (answer,) = backend.settle([settlement(lease)])

        assert answer.lease_lost

    @needs("inspection")
    @every_settlement_but_a_crash
    def test_a_cancellation_by_the_reaper_after_a_crash_is_not_taken_for_my_own(self, backend, settlement):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")
        backend.reap(owner="worker", started=[(lease.envelope.id, lease.token)])

        (answer,) = backend.settle([settlement(lease)])

        assert answer.lease_lost

    @pytest.mark.parametrize("name", ["ack", "skip", "abandon", "cancelled"])
    def test_the_end_that_another_lease_made_is_not_taken_for_my_own(self, backend, name):
        lease = a_lease(backend)
        backend.release(lease)
        (following,) = backend.claim(a_claim(owner="next"))
        backend.settle([SETTLEMENTS[name](following)])

        (answer,) = backend.settle([SETTLEMENTS[name](lease)])

        assert answer.lease_lost

    @every_settlement_but_a_crash
    def test_a_crash_is_not_taken_for_my_own_settlement(self, backend, settlement):
        lease = a_lease(backend)
        backend.reap(owner="worker", started=[(lease.envelope.id, lease.token)])
        backend.ack(backend.claim(a_claim(owner="next"))[0])

        (answer,) = backend.settle([settlement(lease)])

        assert answer.lease_lost


@needs("inspection")
class TurnedEvidenceContract:
    """A settlement that the store turned into a cancellation was applied all the same."""

    @turned
    def test_a_repeated_settlement_that_was_turned_was_already_applied(self, backend, name):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")
        backend.settle([SETTLEMENTS[name](lease)])

        (answer,) = backend.settle([SETTLEMENTS[name](lease)])

        assert answer.already_applied
        assert answer.state is State.CANCELLED

    @turned
    def test_an_ack_after_a_settlement_that_was_turned_has_lost_the_lease(self, backend, name):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")
        backend.settle([SETTLEMENTS[name](lease)])

        assert backend.ack(lease).lease_lost


@needs("inspection")
class NoEvidenceContract:
    @every_settlement
    def test_of_a_purged_job_no_trace_is_left(self, backend, settlement):
        lease = a_lease(backend)
        backend.settle([Settlement.abandon(lease, "gave up", failure=a_failure())])
        backend.purge(Query(ids=(lease.envelope.id,)))

        (answer,) = backend.settle([settlement(lease)])

        assert answer.gone

    def test_of_a_tombstone_that_was_pruned_no_trace_is_left(self, backend, clock):
        ack = Settlement.ack(a_lease(backend), keep=False)
        backend.settle([ack])
        clock.advance(TOMBSTONE + timedelta(seconds=1))
        backend.prune({})

        (answer,) = backend.settle([ack])

        assert answer.gone
