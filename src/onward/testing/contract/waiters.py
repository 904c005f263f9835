"""Waiters: the write that ends a hold makes the next job due that waits for the key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onward.backend import Backend, Hold, Lease, Settlement
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
from onward.testing.contract.holds import ONCE, SINGLE, either_kind
from onward.testing.contract.stage import FAR

__all__ = ["WaitersContract", "WakingContract"]


def _waiter(backend: Backend, **options: Any) -> Lease:
    """Return a job that found a busy key and was put back to wait for it."""
    lease = a_lease(backend, owner="waiting", **options)
    assert lease.hold is Hold.BUSY
    backend.settle([Settlement.snooze(lease, FAR, waits=1)])
    return lease


@needs("holds", "inspection")
@pytest.mark.promise("S35")
class WakingContract:
    @either_kind
    @pytest.mark.parametrize("name", SETTLEMENTS)
    def test_every_settlement_of_the_holder_makes_the_waiter_due(self, backend, clock, key, name):
        holder = a_lease(backend, **key)
        waiter = _waiter(backend, **key)
        clock.advance(5)

        backend.settle([SETTLEMENTS[name](holder)])

        stored = backend.get(waiter.envelope.id)
        assert (stored.state, stored.available_at) == (State.AVAILABLE, clock.micros())

    @either_kind
    @pytest.mark.parametrize("started", [True, False])
    def test_a_dead_holders_sweep_makes_the_waiter_due(self, backend, clock, key, started):
        holder = a_lease(backend, owner="dead", **key)
        waiter = _waiter(backend, **key)
        clock.advance(5)

        backend.reap(owner="dead", started=[(holder.envelope.id, holder.token)] if started else ())

        stored = backend.get(waiter.envelope.id)
        assert (stored.state, stored.available_at) == (State.AVAILABLE, clock.micros())

    def test_a_holder_discarded_by_the_sweep_makes_the_waiter_due(self, backend):
        a_lease(backend, owner="dead", max_crashes=1, **SINGLE)
        waiter = _waiter(backend, **SINGLE)

        backend.reap(owner="dead")

        assert backend.get(waiter.envelope.id).state is State.AVAILABLE

    def test_a_holder_that_was_asked_to_cancel_makes_the_waiter_due(self, backend):
        holder = a_lease(backend, **SINGLE)
        waiter = _waiter(backend, **SINGLE)
        backend.cancel([holder.envelope.id], "not wanted")

        backend.nack(holder, 60)

        assert backend.get(waiter.envelope.id).state is State.AVAILABLE

    @either_kind
    def test_a_waiter_in_another_queue_is_made_due_too(self, backend, key):
        holder = a_lease(backend, queue="a", **key)
        waiter = _waiter(backend, queue="b", **key)

        backend.nack(holder, 60)

        assert backend.get(waiter.envelope.id).state is State.AVAILABLE

    def test_an_adoption_ends_no_hold_and_wakes_nobody(self, backend):
        a_lease(backend, owner="old", **SINGLE)
        waiter = _waiter(backend, **SINGLE)

        backend.open_session(a_session("new"), adopts="old")

        assert backend.get(waiter.envelope.id).state is State.SCHEDULED

    def test_a_settlement_that_lost_its_lease_wakes_nobody(self, backend):
        stale = a_lease(backend, owner="stale", **SINGLE)
        backend.release(stale)
        backend.claim(a_claim(owner="holder"))
        waiter = _waiter(backend, **SINGLE)

        backend.ack(stale)

        assert backend.get(waiter.envelope.id).state is State.SCHEDULED

    def test_a_job_that_did_not_hold_the_key_wakes_nobody(self, backend):
        a_lease(backend, **SINGLE)
        waiter = _waiter(backend, **SINGLE)
        busy = a_lease(backend, owner="busy", **SINGLE)

        backend.settle([Settlement.snooze(busy, FAR, waits=1)])

        assert backend.get(waiter.envelope.id).state is State.SCHEDULED

    @either_kind
    @pytest.mark.parametrize("holder_first", [True, False])
    def test_a_waiter_snoozed_in_the_turn_that_ends_the_hold_is_woken_too(self, backend, key, holder_first):
        envelopes = [an_envelope(**key), an_envelope(**key)]
        backend.enqueue(envelopes)
        holder, waiter = backend.claim(a_claim(limit=2))
        settlements = [Settlement.ack(holder), Settlement.snooze(waiter, FAR, waits=1)]

        backend.settle(settlements if holder_first else settlements[::-1])

        assert backend.get(waiter.envelope.id).state is State.AVAILABLE

    def test_a_settlement_and_a_claim_in_one_turn_take_the_waiter_up(self, backend):
        holder = a_lease(backend, **SINGLE)
        waiter = _waiter(backend, **SINGLE)

        (taken,) = backend.turn(a_turn(Settlement.ack(holder), claim=a_claim())).leases

        assert (taken.envelope.id, taken.hold) == (waiter.envelope.id, Hold.HELD)


@needs("holds", "inspection")
@pytest.mark.promise("S33", "S35")
class WaitersContract:
    def _waiters(self, backend: Backend, count: int, **options: Any) -> list[str]:
        return [_waiter(backend, **options).envelope.id for _ in range(count)]

    def _awake(self, backend: Any, waiters: Sequence[str]) -> list[str]:
        return [job_id for job_id in waiters if backend.get(job_id).state is State.AVAILABLE]

    @either_kind
    def test_one_end_of_a_hold_wakes_only_the_first_waiter(self, backend, key):
        holder = a_lease(backend, **key)
        waiters = self._waiters(backend, 3, **key)

        backend.nack(holder, FAR)

        assert self._awake(backend, waiters) == waiters[:1]

    @needs("priorities")
    def test_the_first_waiter_is_the_first_in_claim_order(self, backend):
        holder = a_lease(backend, **SINGLE)
        low, high, middle = (_waiter(backend, priority=priority, **SINGLE).envelope.id for priority in (-1, 5, 0))

        backend.ack(holder)

        assert self._awake(backend, [low, high, middle]) == [high]

    def test_the_first_waiter_is_the_first_to_be_due(self, backend):
        holder = a_lease(backend, **SINGLE)
        backend.enqueue(some_envelopes(2, **SINGLE))
        longest, soonest = backend.claim(a_claim(owner="waiting", limit=2))
        backend.settle([Settlement.snooze(longest, 2 * FAR, waits=1), Settlement.snooze(soonest, FAR, waits=1)])

        backend.ack(holder)

        assert self._awake(backend, ids([longest, soonest])) == [soonest.envelope.id]

    def test_a_single_instance_hands_on_from_one_to_the_next(self, backend):
        holder = a_lease(backend, **SINGLE)
        waiters = self._waiters(backend, 3, **SINGLE)
        order = []

        lease = holder
        for _ in waiters:
            backend.ack(lease)
            (lease,) = backend.claim(a_claim(limit=9))
            assert lease.hold is Hold.HELD
            order.append(lease.envelope.id)

        assert order == waiters

    def test_a_confirmed_key_wakes_all_its_waiters(self, backend):
        holder = a_lease(backend, **ONCE)
        waiters = self._waiters(backend, 3, **ONCE)

        backend.ack(holder)

        assert self._awake(backend, waiters) == waiters
        assert [lease.hold for lease in backend.claim(a_claim(limit=9))] == [Hold.DONE] * 3

    def test_waiters_for_another_key_sleep_on(self, backend):
        holder = a_lease(backend, idempotency_key="k")
        a_lease(backend, idempotency_key="other")
        waiter = _waiter(backend, idempotency_key="other")

        backend.ack(holder)

        assert backend.get(waiter.envelope.id).state is State.SCHEDULED

    @either_kind
    def test_a_parked_job_is_not_woken(self, backend, key):
        holder = a_lease(backend, **key)
        parked = a_lease(backend, **key)
        backend.park(parked, FAR, "unknown here")

        backend.ack(holder)

        assert backend.get(parked.envelope.id).state is State.SCHEDULED

    @either_kind
    def test_a_job_that_is_merely_scheduled_is_not_woken(self, backend, key):
        holder = a_lease(backend, **key)
        scheduled = an_envelope(delay=FAR, **key)
        backend.enqueue([scheduled])

        backend.ack(holder)

        assert backend.get(scheduled.id).state is State.SCHEDULED

    @either_kind
    def test_a_job_that_snoozed_by_itself_is_not_woken(self, backend, key):
        snoozed = a_lease(backend, **key)
        backend.snooze(snoozed, FAR)
        holder = a_lease(backend, **key)

        backend.ack(holder)

        assert backend.get(snoozed.envelope.id).state is State.SCHEDULED

    @either_kind
    def test_a_job_that_waits_for_its_retry_is_not_woken(self, backend, key):
        failed = a_lease(backend, **key)
        backend.nack(failed, FAR)
        holder = a_lease(backend, **key)

        backend.ack(holder)

        assert backend.get(failed.envelope.id).state is State.RETRYABLE

    @either_kind
    def test_a_waiter_that_is_put_back_while_it_holds_does_not_wake_itself(self, backend, key):
        holder = a_lease(backend, **key)

        backend.settle([Settlement.snooze(holder, FAR, waits=1)])

        assert backend.get(holder.envelope.id).state is State.SCHEDULED

    @needs("priorities")
    def test_a_woken_waiter_that_finds_the_key_taken_again_can_wait_again(self, backend):
        holder = a_lease(backend, **SINGLE)
        _waiter(backend, **SINGLE)
        backend.ack(holder)
        backend.enqueue([an_envelope(priority=9, **SINGLE)])
        thief, waiter = backend.claim(a_claim(limit=2))
        backend.settle([Settlement.snooze(waiter, FAR, waits=2)])

        backend.ack(thief)

        assert (thief.hold, waiter.hold) == (Hold.HELD, Hold.BUSY)
        assert backend.get(waiter.envelope.id).state is State.AVAILABLE
