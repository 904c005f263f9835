"""Lost replies: a successor session adopts what the old one held, known or not, and the old one can do nothing more."""

from __future__ import annotations

import pytest

from onward.backend import Hold, Settlement
from onward.job.states import State
from onward.testing.contract.builders import (
    a_claim,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    at_once,
    every_settlement,
    ids,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs

__all__ = ["AdoptionContract", "LostRepliesContract"]


class AdoptionContract:
    def test_a_successor_gets_the_leases_of_the_old_session_with_their_tokens(self, backend):
        backend.enqueue(some_envelopes(3))
        old = backend.claim(a_claim(owner="old", limit=3))

        adopted = backend.open_session(a_session("new"), adopts="old")

        assert {(lease.envelope.id, lease.token) for lease in adopted} == {
            (lease.envelope.id, lease.token) for lease in old
        }
        assert {lease.owner for lease in adopted} == {"new"}

    def test_an_adopted_lease_carries_the_envelope_and_the_counters(self, backend):
        backend.nack(a_lease(backend, owner="old"), 0)
        (old,) = backend.claim(a_claim(owner="old"))

        (adopted,) = backend.open_session(a_session("new"), adopts="old")

        assert (adopted.envelope.data, adopted.attempts) == (old.envelope.data, 1)

    @every_settlement
    def test_an_adopted_lease_can_be_settled_by_its_new_owner(self, backend, settlement):
        a_lease(backend, owner="old")
        (adopted,) = backend.open_session(a_session("new"), adopts="old")

        (answer,) = backend.settle([settlement(adopted)])

        assert answer.applied

    def test_the_old_session_is_dead_after_the_adoption(self, backend):
        a_lease(backend, owner="old")
        backend.open_session(a_session("new"), adopts="old")

        assert not backend.extend("old").alive

    def test_a_session_that_has_expired_is_adopted_until_it_is_swept(self, backend, clock):
        lease = a_lease(backend, owner="old", lease_for=30)
        clock.advance(31)

        adopted = backend.open_session(a_session("new"), adopts="old")

        assert ids(adopted) == [lease.envelope.id]
        assert backend.reap() == []

    def test_an_adoption_of_nobody_by_nobody_opens_no_session(self, backend):
        assert backend.open_session(a_session("new"), adopts="old") is None

        assert not backend.extend("new").alive

    def test_an_adoption_that_is_sent_again_finds_its_successor_and_says_what_it_holds(self, backend):
        lease = a_lease(backend, owner="old")
        backend.open_session(a_session("new"), adopts="old")

        again = backend.open_session(a_session("new"), adopts="old")

        assert ids(again) == [lease.envelope.id]

    def test_a_session_that_is_there_may_adopt_nobody(self, backend):
        lease = a_lease(backend, owner="new")

        assert ids(backend.open_session(a_session("new"), adopts="old")) == [lease.envelope.id]

    @needs("sessions")
    def test_a_copy_of_an_adoption_that_comes_after_both_sessions_died_revives_neither(self, backend, clock):
        lease = a_lease(backend, owner="old", lease_for=30)
        backend.open_session(a_session("new", lease_for=30), adopts="old")
        clock.advance(31)
        backend.reap()
        (again,) = backend.claim(a_claim(owner="other"))

        assert backend.open_session(a_session("new"), adopts="old") is None

        assert not backend.extend("new").alive
        assert (again.envelope.id, again.token) == (lease.envelope.id, lease.token + 1)
        assert backend.ack(again).applied

    def test_the_successor_is_alive(self, backend):
        backend.open_session(a_session("old"))

        backend.open_session(a_session("new"), adopts="old")

        assert backend.extend("new").alive

    def test_an_adopted_lease_lives_as_long_as_the_new_session(self, backend, clock):
        a_lease(backend, owner="old", lease_for=30)
        clock.advance(20)
        (adopted,) = backend.open_session(a_session("new", lease_for=30), adopts="old")
        clock.advance(20)

        assert backend.reap() == []
        assert backend.ack(adopted).applied

    def test_an_adoption_counts_neither_a_crash_nor_an_interruption(self, backend):
        a_lease(backend, owner="old")

        (adopted,) = backend.open_session(a_session("new"), adopts="old")

        assert (adopted.crashes, adopted.interruptions, adopted.attempts) == (0, 0, 0)

    @needs("sessions")
    def test_an_adoption_returns_all_that_the_new_owner_holds(self, backend):
        mine = a_lease(backend, owner="new")
        theirs = a_lease(backend, owner="old")

        held = backend.open_session(a_session("new"), adopts="old")

        assert sorted(ids(held)) == sorted([mine.envelope.id, theirs.envelope.id])

    def test_a_session_that_was_swept_has_nothing_left_to_adopt(self, backend):
        a_lease(backend, owner="old")
        backend.reap(owner="old", started=())

        assert backend.open_session(a_session("new"), adopts="old") is None

    def test_a_session_that_never_was_has_nothing_to_adopt(self, backend):
        a_lease(backend, owner="other")

        assert backend.open_session(a_session("new"), adopts="nobody") is None

    def test_only_one_of_two_successors_adopts(self, backend):
        a_lease(backend, owner="old")

        first = backend.open_session(a_session("first"), adopts="old")
        second = backend.open_session(a_session("second"), adopts="old")

        assert (len(first), second) == (1, None)

    @needs("holds")
    @pytest.mark.parametrize("key", [{"idempotency_key": "k"}, {"single_instance": True}], ids=["once", "single"])
    def test_an_adopted_lease_still_holds_its_key(self, backend, key):
        a_lease(backend, owner="old", **key)

        (adopted,) = backend.open_session(a_session("new"), adopts="old")
        follower = a_lease(backend, owner="other", **key)

        assert adopted.hold is Hold.HELD
        assert (follower.hold, follower.holder) == (Hold.BUSY, adopted.envelope.id)

    @needs("holds")
    def test_an_adopted_lease_that_met_a_busy_key_still_says_so(self, backend):
        holder = a_lease(backend, owner="holder", idempotency_key="k")
        a_lease(backend, owner="old", idempotency_key="k")

        (adopted,) = backend.open_session(a_session("new"), adopts="old")

        assert (adopted.hold, adopted.holder) == (Hold.BUSY, holder.envelope.id)

    @needs("inspection")
    def test_an_adopted_lease_that_was_asked_to_cancel_still_is(self, backend):
        lease = a_lease(backend, owner="old")
        backend.cancel([lease.envelope.id], "not wanted")
        backend.open_session(a_session("new"), adopts="old")

        assert backend.extend("new").cancel_requested == ((lease.envelope.id, lease.token),)


@pytest.mark.promise("F26", "F27")
class LostRepliesContract:
    def test_leases_whose_claim_got_no_answer_come_to_light_by_adoption(self, backend):
        envelopes = some_envelopes(3)
        backend.enqueue(envelopes)
        backend.claim(a_claim(owner="old", limit=3))  # the reply is lost: the worker does not know of these leases

        taken_up = backend.open_session(a_session("new"), adopts="old")

        assert sorted(ids(taken_up)) == sorted(ids(envelopes))
        assert all(answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in taken_up]))

    def test_a_late_copy_of_the_lost_turn_claims_nothing(self, backend):
        backend.open_session(a_session("old"))
        lost = a_turn(owner="old", claim=a_claim(limit=9))
        backend.turn(lost)
        backend.open_session(a_session("new"), adopts="old")
        backend.enqueue(some_envelopes(3))

        late = backend.turn(lost)

        assert not late.alive
        assert late.leases == []

    @needs("inspection")
    @every_settlement
    def test_a_late_copy_of_the_lost_turn_applies_nothing(self, backend, settlement):
        lease = a_lease(backend, owner="old")
        backend.open_session(a_session("new"), adopts="old")
        before = backend.get(lease.envelope.id)

        late = backend.turn(a_turn(settlement(lease), owner="old"))

        assert [answer.lease_lost for answer in late.settled] == [True]
        assert backend.get(lease.envelope.id) == before

    def test_what_the_lost_turn_had_settled_is_recognised_under_the_new_owner(self, backend):
        lease = a_lease(backend, owner="old")
        backend.ack(lease)  # applied, but the reply is lost

        held = backend.open_session(a_session("new"), adopts="old")
        (answer,) = backend.turn(a_turn(Settlement.ack(lease), owner="new")).settled

        assert held == []
        assert answer.already_applied
        assert answer.state is State.COMPLETED

    def test_what_the_lost_turn_had_not_settled_is_settled_under_the_new_owner(self, backend):
        a_lease(backend, owner="old")  # its ack never arrived

        (held,) = backend.open_session(a_session("new"), adopts="old")

        assert backend.ack(held).applied

    def test_a_settlement_that_was_applied_before_the_adoption_is_not_adopted(self, backend):
        settled, held = a_lease(backend, owner="old"), a_lease(backend, owner="old")
        backend.ack(settled)

        assert ids(backend.open_session(a_session("new"), adopts="old")) == [held.envelope.id]

    @needs("sessions")
    def test_a_turn_racing_its_adoption_is_seen_or_does_nothing(self, backend, open_client):
        other = open_client()
        for number in range(20):
            old, new = f"old-{number}", f"new-{number}"
            backend.open_session(a_session(old))
            backend.enqueue([an_envelope()])

            def race(side: int, old: str = old, new: str = new) -> list[str]:
                if side == 0:
                    return ids(backend.turn(a_turn(owner=old, claim=a_claim())).leases)
                return ids(other.open_session(a_session(new), adopts=old))

            claimed, adopted = at_once(2, race)

            assert claimed == adopted
