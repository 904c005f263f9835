"""Holds: idempotency keys and single instances, valid exactly while the lease is, or confirmed by a success."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Hold, Query, Settlement
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_lease,
    a_session,
    an_envelope,
    at_once,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs

__all__ = ["ONCE", "SINGLE", "ConfirmedContract", "HoldsContract", "TwoHoldsContract", "either_kind"]

ONCE: dict[str, Any] = {"idempotency_key": "k"}
SINGLE: dict[str, Any] = {"single_instance": True}

either_kind = pytest.mark.parametrize("key", [ONCE, SINGLE], ids=["once", "single"])


@needs("holds")
@pytest.mark.promise("S33", "S35")
class HoldsContract:
    SINGLES = 40

    def test_a_job_without_a_key_holds_nothing(self, backend):
        lease = a_lease(backend)

        assert (lease.hold, lease.holder) == (Hold.FREE, None)

    @either_kind
    def test_the_first_to_be_claimed_holds_the_key(self, backend, key):
        assert a_lease(backend, **key).hold is Hold.HELD

    @either_kind
    def test_the_second_finds_the_key_busy_and_who_holds_it(self, backend, key):
        holder = a_lease(backend, **key)

        second = a_lease(backend, **key)

        assert (second.hold, second.holder) == (Hold.BUSY, holder.envelope.id)

    @either_kind
    def test_of_two_jobs_in_one_claim_the_first_holds_the_key(self, backend, key):
        backend.enqueue(some_envelopes(3, **key))

        leases = backend.claim(a_claim(limit=3))

        assert [lease.hold for lease in leases] == [Hold.HELD, Hold.BUSY, Hold.BUSY]
        assert {lease.holder for lease in leases[1:]} == {leases[0].envelope.id}

    @either_kind
    def test_a_key_is_held_across_queues(self, backend, key):
        a_lease(backend, queue="a", **key)

        assert a_lease(backend, queue="b", **key).hold is Hold.BUSY

    @either_kind
    def test_a_key_is_held_for_other_clients_too(self, backend, open_client, key):
        a_lease(backend, owner="mine", **key)

        assert a_lease(open_client(), owner="theirs", **key).hold is Hold.BUSY

    @either_kind
    def test_other_jobs_keys_are_other_keys(self, backend, key):
        a_lease(backend, job="send", **key)

        assert a_lease(backend, job="receive", **key).hold is Hold.HELD

    def test_a_global_key_is_one_key_for_all_jobs(self, backend):
        a_lease(backend, job="send", key_scope="global", **ONCE)

        assert a_lease(backend, job="receive", key_scope="global", **ONCE).hold is Hold.BUSY

    def test_a_global_key_is_another_than_a_jobs_own(self, backend):
        a_lease(backend, job="send", **ONCE)

        assert a_lease(backend, job="send", key_scope="global", **ONCE).hold is Hold.HELD

    def test_a_single_instance_and_an_idempotency_key_of_the_same_text_are_apart(self, backend):
        a_lease(backend, job="/k", **SINGLE)

        assert a_lease(backend, key_scope="global", **ONCE).hold is Hold.HELD

    @either_kind
    @pytest.mark.parametrize("name", [name for name in SETTLEMENTS if name != "ack"])
    def test_a_hold_ends_with_its_lease_by_every_settlement(self, backend, key, name):
        lease = a_lease(backend, **key)

        backend.settle([SETTLEMENTS[name](lease)])

        assert a_lease(backend, queue="other", **key).hold is Hold.HELD

    @either_kind
    @pytest.mark.parametrize("started", [True, False])
    @pytest.mark.promise("F73")
    def test_a_hold_ends_with_its_session(self, backend, key, started):
        lease = a_lease(backend, owner="dead", **key)

        backend.reap(owner="dead", started=[(lease.envelope.id, lease.token)] if started else ())

        assert a_lease(backend, queue="other", **key).hold is Hold.HELD

    @either_kind
    def test_a_hold_does_not_come_back_when_its_name_is_opened_again(self, backend, key):
        a_lease(backend, owner="dead", **key)
        backend.reap(owner="dead")
        backend.open_session(a_session("dead"))

        assert a_lease(backend, queue="other", **key).hold is Hold.HELD

    def test_a_single_instance_is_free_after_a_success(self, backend):
        backend.ack(a_lease(backend, **SINGLE))

        assert a_lease(backend, **SINGLE).hold is Hold.HELD

    def test_a_single_instance_never_has_two_valid_leases(self, backend, open_client):
        backend.enqueue(some_envelopes(self.SINGLES, **SINGLE))
        clients = [backend, open_client()]

        def claim_some(number: int) -> list[Hold]:
            owner = f"worker-{number}"
            return [lease.hold for _ in range(5) for lease in clients[number % 2].claim(a_claim(owner=owner, limit=2))]

        holds = [hold for share in at_once(4, claim_some) for hold in share]

        assert len(holds) == self.SINGLES
        assert holds.count(Hold.HELD) == 1


@needs("holds")
@pytest.mark.promise("S33")
class ConfirmedContract:
    def test_a_success_makes_the_key_done(self, backend):
        first = a_lease(backend, **ONCE)
        backend.ack(first)

        second = a_lease(backend, **ONCE)

        assert (second.hold, second.holder) == (Hold.DONE, first.envelope.id)

    def test_a_job_that_was_skipped_leaves_the_key_done(self, backend):
        first = a_lease(backend, **ONCE)
        backend.ack(first)
        backend.skip(a_lease(backend, **ONCE), "done before")

        third = a_lease(backend, **ONCE)

        assert (third.hold, third.holder) == (Hold.DONE, first.envelope.id)

    def test_a_job_that_failed_leaves_a_done_key_done(self, backend):
        backend.ack(a_lease(backend, **ONCE))
        backend.abandon(a_lease(backend, **ONCE), "gave up")

        assert a_lease(backend, **ONCE).hold is Hold.DONE

    def test_a_done_key_is_done_until_its_time_is_over(self, backend, clock):
        backend.ack(a_lease(backend, idempotency_ttl=60, **ONCE))

        clock.advance(59)
        before = a_lease(backend, **ONCE)
        clock.advance(2)
        after = a_lease(backend, **ONCE)

        assert (before.hold, after.hold) == (Hold.DONE, Hold.HELD)

    def test_the_time_of_a_key_begins_with_its_success(self, backend, clock):
        lease = a_lease(backend, idempotency_ttl=60, **ONCE)
        clock.advance(100)
        backend.ack(lease)
        clock.advance(59)

        assert a_lease(backend, **ONCE).hold is Hold.DONE

    def test_a_key_is_done_even_if_the_job_leaves_only_a_tombstone(self, backend):
        lease = a_lease(backend, **ONCE)
        backend.settle([Settlement.ack(lease, keep=False)])

        assert a_lease(backend, **ONCE).hold is Hold.DONE

    def test_a_key_that_fails_twice_and_then_succeeds_runs_three_times(self, backend):
        holds = []
        lease = a_lease(backend, **ONCE)
        for _ in range(2):
            holds.append(lease.hold)
            backend.nack(lease, 0)
            (lease,) = backend.claim(a_claim())
        holds.append(lease.hold)

        backend.ack(lease)

        assert holds == [Hold.HELD] * 3
        assert a_lease(backend, **ONCE).hold is Hold.DONE

    @needs("inspection")
    def test_a_key_stays_done_when_the_job_that_did_it_is_purged(self, backend):
        first = a_lease(backend, **ONCE)
        backend.ack(first)
        backend.purge(Query(ids=(first.envelope.id,)))

        assert a_lease(backend, **ONCE).hold is Hold.DONE

    def test_the_success_of_a_job_that_met_the_key_busy_confirms_nothing(self, backend):
        holder = a_lease(backend, **ONCE)
        backend.ack(a_lease(backend, **ONCE))
        backend.abandon(holder, "gave up")

        assert a_lease(backend, **ONCE).hold is Hold.HELD

    def test_a_late_ack_confirms_no_key(self, backend):
        lost = a_lease(backend, owner="lost", **ONCE)
        backend.reap(owner="lost", started=())
        backend.claim(a_claim(owner="other"))
        backend.ack(lost)

        assert a_lease(backend, **ONCE).hold is Hold.BUSY


@needs("holds")
class TwoHoldsContract:
    """A job with an idempotency key that is also a single instance: done beats busy beats held."""

    def test_both_free_are_held(self, backend):
        assert a_lease(backend, **ONCE, **SINGLE).hold is Hold.HELD

    def test_a_done_key_beats_a_busy_instance(self, backend):
        done = a_lease(backend, **ONCE)
        backend.ack(done)
        a_lease(backend, **SINGLE)

        lease = a_lease(backend, **ONCE, **SINGLE)

        assert (lease.hold, lease.holder) == (Hold.DONE, done.envelope.id)

    def test_a_busy_instance_beats_a_free_key(self, backend):
        running = a_lease(backend, **SINGLE)

        lease = a_lease(backend, **ONCE, **SINGLE)

        assert (lease.hold, lease.holder) == (Hold.BUSY, running.envelope.id)

    def test_a_busy_key_beats_a_free_instance(self, backend):
        running = a_lease(backend, **ONCE)

        lease = a_lease(backend, **ONCE, **SINGLE)

        assert (lease.hold, lease.holder) == (Hold.BUSY, running.envelope.id)

    def test_a_job_that_waits_for_one_key_does_not_keep_others_from_the_other(self, backend):
        a_lease(backend, **SINGLE)
        a_lease(backend, **ONCE, **SINGLE)

        assert a_lease(backend, **ONCE).hold is Hold.HELD

    def test_a_job_whose_key_is_done_does_not_take_the_instance(self, backend):
        backend.ack(a_lease(backend, **ONCE))
        a_lease(backend, **ONCE, **SINGLE)

        assert a_lease(backend, **SINGLE).hold is Hold.HELD

    def test_in_one_claim_a_job_that_must_wait_keeps_nobody_from_its_other_key(self, backend):
        a_lease(backend, job="work", **SINGLE)
        backend.enqueue([an_envelope(**ONCE, **SINGLE), an_envelope(**ONCE)])

        waiting, free = backend.claim(a_claim(limit=2))

        assert (waiting.hold, free.hold) == (Hold.BUSY, Hold.HELD)
