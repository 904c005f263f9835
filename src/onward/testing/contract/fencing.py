"""Fencing: a worker that lost its lease can change nothing, whatever it tries and however it lost it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onward.backend import Lease, Query
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import (
    a_claim,
    a_lease,
    a_session,
    an_envelope,
    every_settlement,
    every_settlement_but_a_crash,
)
from onward.testing.contract.capabilities import needs

__all__ = ["FencingContract", "GenerationsContract"]


class LostLease:
    """The ways to lose a lease, or never to have had it; each returns the lease that is worth nothing."""

    def __init__(self, backend: Any, clock: FakeClock) -> None:
        self._backend = backend
        self._clock = clock

    def expired_and_reaped(self) -> Lease:
        lease = a_lease(self._backend, owner="slow", lease_for=30)
        self._clock.advance(31)
        self._backend.reap()
        return lease

    def given_back_unstarted(self) -> Lease:
        lease = a_lease(self._backend, owner="slow")
        self._backend.reap(owner="slow", started=())
        return lease

    def claimed_by_another(self) -> Lease:
        lease = self.given_back_unstarted()
        self._backend.claim(a_claim(owner="fresh"))
        return lease

    def claimed_again_under_the_same_name(self) -> Lease:
        lease = self.given_back_unstarted()
        self._backend.claim(a_claim(owner="slow"))
        return lease

    def released_and_claimed_again_by_the_same_session(self) -> Lease:
        lease = a_lease(self._backend)
        self._backend.release(lease)
        self._backend.claim(a_claim())
        return lease

    def adopted(self) -> Lease:
        lease = a_lease(self._backend, owner="old")
        self._backend.open_session(a_session("new"), adopts="old")
        return lease

    def adopted_while_its_old_name_lives_on(self) -> Lease:
        lease = self.adopted()
        self._backend.open_session(a_session("old"))
        return lease

    def of_another_owner(self) -> Lease:
        self._backend.open_session(a_session("other"))
        return _changed(a_lease(self._backend), owner="other")

    def of_a_session_that_never_was(self) -> Lease:
        return _changed(a_lease(self._backend), owner="nobody")

    def of_a_past_delivery(self) -> Lease:
        lease = a_lease(self._backend)
        return _changed(lease, token=lease.token - 1)

    def of_a_future_delivery(self) -> Lease:
        lease = a_lease(self._backend)
        return _changed(lease, token=lease.token + 1)


def _changed(lease: Lease, **fields: Any) -> Lease:
    return msgspec.structs.replace(lease, **fields)


however_it_was_lost = pytest.mark.parametrize("how", [name for name in vars(LostLease) if not name.startswith("_")])


@needs("inspection", "fences_expired")
class FencingContract:
    @pytest.mark.promise("F07", "F17")
    @however_it_was_lost
    @every_settlement_but_a_crash
    def test_a_settlement_without_the_lease_is_told_so_and_changes_nothing(self, backend, clock, how, settlement):
        lease: Lease = getattr(LostLease(backend, clock), how)()
        before = backend.get(lease.envelope.id), backend.counts()

        (answer,) = backend.settle([settlement(lease)])

        assert answer.lease_lost
        assert (backend.get(lease.envelope.id), backend.counts()) == before

    @however_it_was_lost
    def test_progress_without_the_lease_is_refused_and_changes_nothing(self, backend, clock, how):
        lease: Lease = getattr(LostLease(backend, clock), how)()
        before = backend.get(lease.envelope.id)

        assert backend.progress(lease, b"0.5") is False
        assert backend.get(lease.envelope.id) == before


class GenerationsContract:
    @needs("sessions")
    @pytest.mark.promise("F07")
    def test_a_late_ack_cannot_undo_the_new_holder(self, backend, clock):
        slow = a_lease(backend, owner="slow", lease_for=30)
        clock.advance(31)
        backend.reap()
        (fresh,) = backend.claim(a_claim(owner="fresh"))

        assert backend.ack(slow).lease_lost
        assert backend.ack(fresh).applied

    @needs("sessions")
    @pytest.mark.promise("F07")
    def test_of_two_clients_that_both_finish_one_is_heard(self, backend, open_client):
        other = open_client()
        slow = a_lease(backend, owner="slow")
        other.reap(owner="slow", started=())
        (fresh,) = other.claim(a_claim(owner="fresh"))

        answers = [other.ack(fresh, b'"fresh"'), backend.ack(slow, b'"slow"')]

        assert [answer.applied for answer in answers] == [True, False]

    @needs("sessions")
    def test_an_expired_lease_that_nobody_took_back_still_counts(self, backend, clock):
        lease = a_lease(backend, lease_for=30)

        clock.advance(3600)

        assert backend.ack(lease).applied

    @every_settlement
    def test_a_settlement_of_a_job_that_never_was_is_answered_gone(self, backend, settlement):
        lease = a_lease(backend)
        stranger = _changed(lease, envelope=an_envelope())

        (answer,) = backend.settle([settlement(stranger)])

        assert answer.gone

    @needs("inspection")
    @pytest.mark.promise("F20")
    def test_a_late_ack_does_not_touch_a_new_job_under_the_same_id(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])
        (old,) = backend.claim(a_claim(owner="old"))
        backend.ack(old)
        backend.purge(Query(ids=(envelope.id,)))
        backend.enqueue([envelope])
        backend.claim(a_claim(owner="new"))

        answer = backend.ack(old)

        assert not answer.applied
        assert backend.get(envelope.id).state is State.EXECUTING

    @needs("inspection")
    def test_progress_is_noted_while_the_lease_lives(self, backend):
        lease = a_lease(backend)

        assert backend.progress(lease, b"0.5") is True
        assert backend.get(lease.envelope.id).progress == b"0.5"

    @needs("inspection")
    def test_progress_after_the_settlement_is_refused(self, backend):
        lease = a_lease(backend)
        backend.ack(lease)

        assert backend.progress(lease, b"0.5") is False

    @needs("inspection")
    def test_progress_of_an_unknown_job_is_refused(self, backend):
        lease = _changed(a_lease(backend), envelope=an_envelope())

        assert backend.progress(lease, b"0.5") is False
