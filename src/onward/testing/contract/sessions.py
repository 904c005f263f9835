"""Sessions: one row renews all leases of a worker, and only a sweep ends it."""

from __future__ import annotations

import msgspec
import pytest

from onward.backend import Settlement
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

__all__ = ["DeadSessionsContract", "SessionsContract", "SweepsContract"]


class SessionsContract:
    def test_a_session_that_was_never_opened_is_not_alive(self, backend):
        assert not backend.extend("nobody").alive

    def test_an_open_session_is_alive(self, backend):
        backend.open_session(a_session("me"))

        assert backend.extend("me").alive

    def test_a_session_is_not_swept_before_its_time(self, backend, clock):
        a_lease(backend, lease_for=30)

        clock.advance(30 - 0.000001)

        assert backend.reap() == []

    @needs("sessions")
    def test_a_session_is_swept_at_its_very_microsecond(self, backend, clock):
        a_lease(backend, lease_for=30)

        clock.advance(30)

        assert len(backend.reap()) == 1

    def test_an_expired_session_that_nobody_swept_is_alive(self, backend, clock):
        backend.open_session(a_session("me", lease_for=30))

        clock.advance(3600)

        assert backend.extend("me").alive

    def test_an_expired_session_that_nobody_swept_may_claim(self, backend, clock):
        backend.open_session(a_session(lease_for=30))
        backend.enqueue([an_envelope()])
        clock.advance(3600)

        result = backend.turn(a_turn(claim=a_claim()))

        assert result.alive
        assert len(result.leases) == 1

    @pytest.mark.promise("F09")
    def test_a_session_extended_after_it_expired_is_not_swept(self, backend, clock):
        lease = a_lease(backend, lease_for=30)
        clock.advance(31)
        backend.extend("worker")

        assert backend.reap() == []
        assert backend.ack(lease).applied

    @needs("sessions")
    def test_a_session_is_extended_by_its_own_length(self, backend, clock):
        a_lease(backend, lease_for=100)
        clock.advance(90)
        backend.extend("worker")

        clock.advance(99)
        early = backend.reap()
        clock.advance(1)
        late = backend.reap()

        assert (len(early), len(late)) == (0, 1)

    @pytest.mark.promise("F14")
    def test_a_long_run_is_never_swept_while_its_session_is_extended(self, backend, clock):
        lease = a_lease(backend, lease_for=30)

        for _ in range(24):
            clock.advance(29)
            backend.extend("worker")
            assert backend.reap() == []

        assert backend.ack(lease).applied

    def test_opening_a_session_again_renews_it(self, backend, clock):
        lease = a_lease(backend, lease_for=30)
        clock.advance(20)
        backend.open_session(a_session(lease_for=30))
        clock.advance(20)

        assert backend.reap() == []
        assert backend.ack(lease).applied

    @needs("sessions")
    def test_an_extension_renews_no_other_session(self, backend, clock):
        lease = a_lease(backend, owner="other", lease_for=30)
        backend.open_session(a_session("mine", lease_for=30))
        clock.advance(20)

        backend.extend("mine")

        clock.advance(11)
        assert [reaped.id for reaped in backend.reap()] == [lease.envelope.id]
        assert backend.extend("mine").alive

    def test_one_extension_renews_every_lease_of_the_session(self, backend, clock):
        backend.enqueue(some_envelopes(5))
        leases = backend.claim(a_claim(limit=5, lease_for=30))
        clock.advance(20)
        backend.extend("worker")
        clock.advance(20)

        backend.reap()

        assert all(answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in leases]))

    @needs("remote_extend")
    def test_a_session_can_be_extended_through_another_client(self, backend, open_client, clock):
        lease = a_lease(backend, lease_for=30)
        clock.advance(20)
        renewal = open_client().extend("worker")
        clock.advance(20)

        assert renewal.alive
        assert backend.reap() == []
        assert backend.ack(lease).applied


class DeadSessionsContract:
    @pytest.fixture
    def dead(self, backend):
        """Return the name of a session that was swept."""
        backend.open_session(a_session("dead"))
        backend.reap(owner="dead", started=())
        return "dead"

    def test_a_swept_session_is_not_alive(self, backend, dead):
        assert not backend.extend(dead).alive

    @needs("sessions")
    def test_a_session_without_leases_is_swept_too(self, backend, clock):
        backend.open_session(a_session("idle", lease_for=30))
        clock.advance(31)

        backend.reap()

        assert not backend.extend("idle").alive

    def test_a_turn_of_a_dead_session_claims_nothing(self, backend, dead):
        backend.enqueue([an_envelope()])

        result = backend.turn(a_turn(owner=dead, claim=a_claim(limit=9)))

        assert not result.alive
        assert result.leases == []

    @needs("delays", "inspection")
    def test_a_turn_of_a_dead_session_promotes_nothing(self, backend, clock, dead):
        envelope = an_envelope(delay=60)
        backend.enqueue([envelope])
        clock.advance(60)

        result = backend.turn(a_turn(owner=dead, claim=a_claim()))

        assert result.promoted == 0
        assert backend.get(envelope.id).state is State.SCHEDULED

    @every_settlement
    def test_a_turn_of_a_dead_session_has_its_settlements_only_classified(self, backend, settlement):
        lease = a_lease(backend, owner="dead")
        backend.reap(owner="dead", started=())

        result = backend.turn(a_turn(settlement(lease), owner="dead", claim=a_claim(limit=9)))

        assert not result.alive
        assert [answer.lease_lost for answer in result.settled] == [True]

    @pytest.mark.promise("F13")
    def test_a_name_opened_again_does_not_revive_its_old_leases(self, backend):
        lease = a_lease(backend, owner="host-42")
        backend.reap(owner="host-42", started=())

        backend.open_session(a_session("host-42"))

        assert backend.ack(lease).lease_lost

    @pytest.mark.promise("F13")
    def test_a_name_opened_again_does_not_keep_its_old_jobs_from_others(self, backend):
        lease = a_lease(backend, owner="host-42")
        backend.reap(owner="host-42", started=())
        backend.open_session(a_session("host-42"))

        assert ids(backend.claim(a_claim(owner="other"))) == [lease.envelope.id]


@pytest.mark.promise("S32")
class SweepsContract:
    UNREAPABLE = 200

    @needs("sessions")
    def test_a_job_of_a_dead_worker_is_delivered_again(self, backend, clock):
        lease = a_lease(backend, owner="dead", lease_for=30)
        clock.advance(31)

        backend.reap()

        (again,) = backend.claim(a_claim(owner="other"))
        assert again.envelope.id == lease.envelope.id
        assert again.token > lease.token

    @needs("sessions")
    def test_a_sweep_leaves_living_sessions_alone(self, backend, clock):
        living = a_lease(backend, owner="living", lease_for=300)
        dead = a_lease(backend, owner="dead", lease_for=30)
        clock.advance(31)

        reaped = backend.reap()

        assert [each.id for each in reaped] == [dead.envelope.id]
        assert backend.ack(living).applied

    def test_one_owners_leases_can_be_taken_back_before_they_expire(self, backend):
        dead = a_lease(backend, owner="dead")
        living = a_lease(backend, owner="living")

        reaped = backend.reap(owner="dead")

        assert [each.id for each in reaped] == [dead.envelope.id]
        assert backend.ack(living).applied

    def test_an_unknown_owner_has_nothing_to_take_back(self, backend):
        a_lease(backend)

        assert backend.reap(owner="nobody") == []

    def test_what_was_taken_back_is_not_taken_back_again(self, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(31)
        backend.reap()

        assert backend.reap() == []

    @needs("sessions")
    def test_a_sweep_of_one_queue_gives_back_only_its_jobs(self, backend, clock):
        mail = a_lease(backend, owner="dead", queue="mail", lease_for=30)
        news = a_lease(backend, owner="dead", queue="news", lease_for=30)
        clock.advance(31)

        assert [each.id for each in backend.reap(queue="mail")] == [mail.envelope.id]
        assert [each.id for each in backend.reap(queue="mail")] == []
        assert [each.id for each in backend.reap()] == [news.envelope.id]

    @needs("sessions")
    def test_a_sweep_of_one_queue_ends_the_session_that_held_its_jobs(self, backend, clock):
        late = [a_lease(backend, owner="late", queue=queue, lease_for=30) for queue in ("mail", "news")]
        clock.advance(31)
        backend.reap(queue="mail")

        assert not backend.extend("late").alive
        assert [backend.ack(lease).applied for lease in late] == [False, False]

    @needs("sessions")
    def test_a_sweep_of_one_queue_leaves_sessions_alone_that_hold_none_of_its_jobs(self, backend, clock):
        late = a_lease(backend, owner="late", queue="news", lease_for=30)
        clock.advance(31)

        assert backend.reap(queue="mail") == []
        assert backend.extend("late").alive
        assert backend.ack(late).applied

    @needs("sessions")
    def test_orphans_of_another_queue_wait_for_a_sweep_of_theirs(self, backend, clock):
        a_lease(backend, owner="dead", queue="mail", lease_for=30)
        news = a_lease(backend, owner="dead", queue="news", lease_for=30)
        clock.advance(31)
        backend.reap(queue="mail")

        assert [each.id for each in backend.reap(queue="news")] == [news.envelope.id]

    @needs("inspection")
    @pytest.mark.promise("F09")
    def test_a_job_that_was_settled_before_the_sweep_is_left_as_it_is(self, backend, clock):
        lease = a_lease(backend, lease_for=30)
        clock.advance(31)
        backend.ack(lease)

        assert backend.reap() == []
        assert backend.get(lease.envelope.id).state is State.COMPLETED

    @pytest.mark.promise("F09")
    def test_a_job_that_another_worker_holds_by_now_is_left_to_it(self, backend, clock):
        backend.release(a_lease(backend, owner="first", lease_for=30))
        (held,) = backend.claim(a_claim(owner="second", lease_for=300))
        clock.advance(31)

        assert backend.reap() == []
        assert backend.ack(held).applied

    @needs("sessions")
    @pytest.mark.promise("F10")
    def test_a_sweep_needs_to_know_nothing_of_the_job(self, backend, clock):
        strange = msgspec.structs.replace(an_envelope(job="nobody.knows"), data=b"\x00 not a job at all")
        backend.enqueue([strange])
        backend.claim(a_claim(lease_for=30))
        clock.advance(31)

        (reaped,) = backend.reap()

        assert (reaped.id, reaped.to) == (strange.id, State.RETRYABLE)

    @needs("sessions")
    @pytest.mark.promise("F11")
    def test_many_leases_that_may_not_be_taken_back_do_not_hide_one_that_must_be(self, backend, clock):
        backend.enqueue(some_envelopes(self.UNREAPABLE))
        backend.claim(a_claim(owner="living", limit=self.UNREAPABLE, lease_for=300))
        dead = a_lease(backend, owner="dead", lease_for=30)
        clock.advance(31)

        assert [each.id for each in backend.reap()] == [dead.envelope.id]

    @needs("sessions")
    def test_all_leases_of_all_dead_sessions_come_back_in_one_sweep(self, backend, clock):
        envelopes = some_envelopes(30)
        backend.enqueue(envelopes)
        for number in range(3):
            backend.claim(a_claim(owner=f"dead-{number}", limit=10, lease_for=30))
        clock.advance(31)

        assert sorted(each.id for each in backend.reap()) == sorted(ids(envelopes))

    @needs("sessions")
    @pytest.mark.promise("F09")
    def test_of_many_sweeps_at_once_each_lease_is_taken_back_by_one(self, backend, open_client, clock):
        envelopes = some_envelopes(40, max_crashes=9)
        backend.enqueue(envelopes)
        for number in range(8):
            backend.claim(a_claim(owner=f"dead-{number}", limit=5, lease_for=30))
        clients = [backend, open_client()]
        clock.advance(31)

        sweeps = at_once(4, lambda number: [each.id for each in clients[number % 2].reap()])

        assert sorted(job_id for sweep in sweeps for job_id in sweep) == sorted(ids(envelopes))

    @pytest.mark.promise("F12")
    def test_an_executing_job_without_a_session_comes_back_in_the_same_sweep(self, backend, lose_session):
        lease = a_lease(backend, owner="lost")
        lose_session("lost")

        (reaped,) = backend.reap()

        assert reaped.id == lease.envelope.id
        assert ids(backend.claim(a_claim(owner="other"))) == [lease.envelope.id]

    @pytest.mark.promise("F12")
    def test_a_worker_whose_session_is_lost_applies_nothing(self, backend, lose_session):
        lease = a_lease(backend, owner="lost")
        lose_session("lost")

        result = backend.turn(a_turn(Settlement.ack(lease), owner="lost"))

        assert not result.alive
        assert result.settled[0].lease_lost
