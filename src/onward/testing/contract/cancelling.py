"""Cancelling and expiry: at once where nothing runs, by asking where something does; a success that comes first wins."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Envelope, Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import (
    a_claim,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    an_id,
    ids,
    micros,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs
from onward.testing.contract.settling import FATES
from onward.testing.contract.stage import FAR, Stage

__all__ = ["AskedToCancelContract", "CancellingContract", "ExpiryContract"]

every_fate_but_ack = pytest.mark.parametrize(
    "fate", [fate for name, fate in FATES.items() if name != "ack"], ids=[name for name in FATES if name != "ack"]
)


@needs("inspection")
class CancellingContract:
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.AVAILABLE, State.RETRYABLE])
    def test_a_waiting_job_is_cancelled_at_once(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        clock.advance(5)

        answers = list(backend.cancel([stage.id], "not wanted"))

        stored = stage.stored()
        assert answers == [State.CANCELLED]
        assert (stored.state, stored.reason, stored.finished_at) == (State.CANCELLED, "not wanted", clock.micros())

    def test_a_cancelled_job_is_not_claimed(self, backend, clock):
        stage = Stage(backend, clock).bring(State.AVAILABLE)

        backend.cancel([stage.id], "not wanted")

        assert backend.claim(a_claim(queues=("stage",))) == []

    def test_a_running_job_is_asked_to_stop(self, backend, clock):
        stage = Stage(backend, clock).bring(State.EXECUTING)

        answers = list(backend.cancel([stage.id], "not wanted"))

        stored = stage.stored()
        assert answers == [State.EXECUTING]
        assert (stored.state, stored.cancel_requested) == (State.EXECUTING, True)

    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_of_a_finished_job_there_is_nothing_to_cancel(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        assert list(backend.cancel([stage.id], "not wanted")) == [None]

    def test_of_an_unknown_job_there_is_nothing_to_cancel(self, backend):
        assert list(backend.cancel([an_id()], "not wanted")) == [None]

    def test_no_ids_cancel_nothing(self, backend):
        assert list(backend.cancel([], "not wanted")) == []

    def test_many_jobs_asked_to_cancel_are_answered_in_that_order(self, backend, clock):
        waiting = Stage(backend, clock, queue="a").bring(State.AVAILABLE)
        running = Stage(backend, clock, queue="b").bring(State.EXECUTING)
        done = Stage(backend, clock, queue="c").bring(State.COMPLETED)

        answers = backend.cancel([done.id, running.id, an_id(), waiting.id], "not wanted")

        assert list(answers) == [None, State.EXECUTING, None, State.CANCELLED]

    def test_the_renewal_tells_the_worker_which_leases_were_asked_to_stop(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))
        backend.cancel([leases[1].envelope.id], "not wanted")

        renewal = backend.extend("worker")

        assert renewal.cancel_requested == ((leases[1].envelope.id, leases[1].token),)

    def test_the_next_turn_tells_the_worker_which_leases_were_asked_to_stop(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        result = backend.turn(a_turn())

        assert result.cancel_requested == ((lease.envelope.id, lease.token),)

    def test_nobody_else_is_told(self, backend):
        lease = a_lease(backend)
        backend.open_session(a_session("other"))
        backend.cancel([lease.envelope.id], "not wanted")

        assert backend.extend("other").cancel_requested == ()
        assert backend.turn(a_turn(owner="other")).cancel_requested == ()

    def test_a_lease_that_was_settled_is_not_named_any_more(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        result = backend.turn(a_turn(Settlement.release(lease)))

        assert result.cancel_requested == ()


@needs("inspection")
class AskedToCancelContract:
    """A job that was asked to cancel is turned by the store, whatever the worker knows."""

    @every_fate_but_ack
    def test_every_settlement_but_a_success_ends_it_as_cancelled(self, backend, clock, fate):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")
        clock.advance(5)

        (answer,) = backend.settle([fate.settlement(lease)])

        stored = backend.get(lease.envelope.id)
        assert answer.applied
        assert answer.state is State.CANCELLED
        assert (stored.state, stored.finished_at) == (State.CANCELLED, clock.micros())

    @every_fate_but_ack
    def test_its_reason_is_the_one_given_with_the_asking_unless_the_worker_cancelled(self, backend, fate):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        backend.settle([fate.settlement(lease)])

        expected = fate.reason if fate.state is State.CANCELLED else "not wanted"
        assert backend.get(lease.envelope.id).reason == expected

    @every_fate_but_ack
    def test_its_counters_move_all_the_same(self, backend, fate):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        backend.settle([fate.settlement(lease)])

        stored = backend.get(lease.envelope.id)
        assert (stored.attempts, stored.interruptions) == (fate.attempts, fate.interruptions)

    def test_the_record_of_its_run_says_what_the_worker_did_and_where_it_went(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        backend.nack(lease, 60)

        assert [(run.move, run.to) for run in backend.get(lease.envelope.id).runs] == [("nack", State.CANCELLED)]

    @pytest.mark.promise("F87")
    def test_a_success_that_comes_first_wins(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        answer = backend.ack(lease, b'"done"')

        stored = backend.get(lease.envelope.id)
        assert answer.state is State.COMPLETED
        assert (stored.state, stored.result, stored.reason) == (State.COMPLETED, b'"done"', None)

    @pytest.mark.promise("F87")
    def test_after_the_success_there_is_nothing_left_to_cancel(self, backend):
        lease = a_lease(backend)
        backend.ack(lease)

        assert list(backend.cancel([lease.envelope.id], "not wanted")) == [None]
        assert backend.get(lease.envelope.id).state is State.COMPLETED

    @pytest.mark.promise("F86")
    def test_a_job_that_lives_again_is_not_asked_to_cancel_any_more(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")
        backend.nack(lease, 0)
        backend.replay(Query(ids=(lease.envelope.id,)))

        (again,) = backend.claim(a_claim())

        assert not backend.get(again.envelope.id).cancel_requested
        assert backend.extend("worker").cancel_requested == ()
        assert backend.nack(again, 0).state is State.RETRYABLE

    @pytest.mark.promise("F86")
    def test_a_finished_job_is_not_marked_as_asked(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        backend.ack(lease)

        assert not backend.get(lease.envelope.id).cancel_requested


class ExpiryContract:
    def _expiring(self, clock: FakeClock, **options: Any) -> Envelope:
        return an_envelope(expires_at=clock.micros() + micros(60), **options)

    def test_a_job_that_has_not_expired_is_handed_out(self, backend, clock):
        backend.enqueue([self._expiring(clock)])
        clock.advance(60 - 0.000001)

        assert len(backend.claim(a_claim())) == 1

    @needs("inspection")
    def test_an_expired_job_is_cancelled_instead_of_handed_out(self, backend, clock):
        expired, fresh = self._expiring(clock), an_envelope()
        backend.enqueue([expired, fresh])
        clock.advance(60)

        assert ids(backend.claim(a_claim(limit=9))) == [fresh.id]
        stored = backend.get(expired.id)
        assert (stored.state, stored.reason, stored.finished_at) == (State.CANCELLED, "expired", clock.micros())

    @needs("delays")
    def test_a_job_that_expires_before_it_is_due_never_runs(self, backend, clock):
        backend.enqueue([self._expiring(clock, delay=120)])
        clock.advance(120)

        assert backend.claim(a_claim()) == []

    def test_a_retry_that_comes_too_late_never_runs(self, backend, clock):
        backend.enqueue([self._expiring(clock)])
        backend.nack(backend.claim(a_claim())[0], 120)
        clock.advance(120)

        assert backend.claim(a_claim()) == []

    @needs("sessions")
    def test_a_running_job_does_not_expire(self, backend, clock):
        backend.enqueue([self._expiring(clock)])
        (lease,) = backend.claim(a_claim())
        clock.advance(FAR)
        backend.claim(a_claim(owner="other"))

        assert backend.ack(lease).applied

    def test_a_pile_of_expired_jobs_does_not_hide_a_fresh_one_for_ever(self, backend, clock):
        backend.enqueue([self._expiring(clock) for _ in range(10)])
        backend.enqueue([fresh := an_envelope()])
        clock.advance(60)

        claims = [ids(backend.claim(a_claim(limit=2))) for _ in range(6)]

        assert [job_id for claim in claims for job_id in claim] == [fresh.id]
