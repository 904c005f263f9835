"""Taking jobs by their ids, for a store beside a broker: a claim like any other, but the caller chooses the jobs."""

from __future__ import annotations

import pytest

from onward.backend import Hold, Settlement
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope, ids, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part
from onward.testing.contract.stage import Stage

__all__ = ["TakingContract"]


@needs("companion")
class TakingContract:
    @pytest.fixture
    def take(self, backend):
        backend.open_session(a_session())
        return lambda *wanted: backend.take("worker", [each.id for each in wanted]).leases

    def test_jobs_are_taken_by_their_ids_in_that_order(self, backend, take):
        first, second, _, fourth = envelopes = some_envelopes(4)
        backend.enqueue(envelopes)

        leases = take(fourth, first, second)

        assert ids(leases) == ids([fourth, first, second])
        assert [lease.envelope.data for lease in leases] == [fourth.data, first.data, second.data]
        assert {lease.token for lease in leases} == {1}
        assert backend.counts()[State.AVAILABLE] == 1

    @pytest.mark.parametrize("state", State)
    def test_only_a_job_that_waits_and_is_due_is_taken(self, backend, clock, take, state):
        stage = Stage(backend, clock).bring(state)

        taken = take(stage.envelope)

        assert bool(taken) is (state is State.AVAILABLE)
        assert stage.state() is (State.EXECUTING if taken else state)

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYABLE])
    def test_what_is_due_need_not_have_been_promoted(self, backend, clock, take, state):
        stage = Stage(backend, clock).bring(state)
        clock.advance(3600)

        (lease,) = take(stage.envelope)

        assert backend.ack(lease).applied

    def test_nothing_is_taken_twice(self, backend, take):
        envelope = an_envelope()
        backend.enqueue([envelope])

        assert len(take(envelope, envelope)) == 1
        assert take(envelope) == []

    def test_what_was_taken_is_settled_and_fenced_like_any_lease(self, backend, take):
        envelope = an_envelope()
        backend.enqueue([envelope])
        (lease,) = take(envelope)
        backend.settle([Settlement.release(lease)])
        (again,) = take(envelope)

        assert (again.token, again.interruptions) == (lease.token + 1, 1)
        assert backend.ack(lease).lease_lost
        assert backend.ack(again).applied

    def test_a_session_that_is_gone_takes_nothing(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])

        result = backend.take("nobody", [envelope.id])

        assert (result.alive, result.leases) == (False, [])
        assert backend.get(envelope.id).state is State.AVAILABLE

    def test_no_job_of_a_paused_queue_is_taken(self, backend, take):
        envelope = an_envelope(queue="mail")
        backend.enqueue([envelope])
        backend.pause("mail")

        assert list(backend.paused()) == ["mail"]
        assert take(envelope) == []
        backend.pause("mail", paused=False)
        assert list(backend.paused()) == []
        assert len(take(envelope)) == 1

    def test_what_has_expired_is_not_taken(self, backend, clock, take):
        envelope = an_envelope(expires_at=clock.micros() + 60_000_000)
        backend.enqueue([envelope])
        clock.advance(60)

        assert take(envelope) == []

    def test_a_suspect_is_taken_alone_and_only_if_it_stands_first(self, backend, clock, take):
        suspect = a_lease(backend, owner="crashing").envelope
        backend.reap(owner="crashing")
        clean, other = some_envelopes(2)
        backend.enqueue([clean, other])

        assert ids(take(clean, suspect, other)) == [clean.id]
        assert ids(take(suspect, other)) == [suspect.id]

    def test_its_keys_are_taken_with_it(self, backend, take):
        first, second = some_envelopes(2, single_instance=True)
        backend.enqueue([first, second])

        holds = [lease.hold for lease in take(first, second)]

        assert holds == [Hold.HELD, Hold.BUSY]

    def test_a_turn_says_whom_its_settlements_have_woken(self, backend, take):
        first, second = some_envelopes(2, single_instance=True)
        backend.enqueue([first, second])
        holder, waiter = take(first, second)
        backend.settle([Settlement.snooze(waiter, 60, waits=1)])

        result = backend.turn(a_turn(Settlement.ack(holder)))

        assert list(result.woken) == [second.id]
        assert list(backend.turn(a_turn()).woken) == []

    @needs("flows")
    @pytest.mark.parametrize("claims", [False, True])
    def test_a_turn_says_which_jobs_its_look_at_their_flow_has_opened(self, backend, clock, claims):
        stage = FlowStage(backend, clock, a=Part(), b=Part(2, "a"), c=Part(1, "b"))
        (lease,) = stage.claim("a")
        (late,) = stage.make("b", delay=60)
        backend.grow(lease, [late])

        result = backend.turn(a_turn(Settlement.ack(lease), claim=a_claim(queues=("x",)) if claims else None))

        assert sorted(result.woken) == sorted([*ids(stage.envelopes["b"]), late.id])
