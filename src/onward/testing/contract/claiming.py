"""Claiming: which session gets which jobs, in which order, and the fields of a lease."""

from __future__ import annotations

from random import Random

import pytest

from onward.backend import Settlement
from onward.base.clock import SECOND
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    at_once,
    ids,
    micros,
    some_envelopes,
)
from onward.testing.contract.capabilities import needs

__all__ = ["ClaimingContract", "LeasesContract", "OrderContract", "PromotionContract"]


class ClaimingContract:
    CLAIMING_THREADS = 16
    CLAIMED_JOBS = 400

    def test_an_empty_queue_gives_nothing(self, backend):
        assert backend.claim(a_claim()) == []

    def test_a_claim_takes_no_more_than_its_limit(self, backend):
        backend.enqueue(some_envelopes(3))

        assert len(backend.claim(a_claim(limit=2))) == 2

    def test_a_claim_takes_only_from_its_queues(self, backend):
        backend.enqueue([an_envelope(queue="a"), an_envelope(queue="b"), an_envelope(queue="c")])

        leases = backend.claim(a_claim(queues=("a", "c"), limit=9))

        assert [lease.envelope.queue for lease in leases] == ["a", "c"]

    def test_a_queue_named_twice_gives_each_job_once(self, backend):
        envelopes = some_envelopes(3)
        backend.enqueue(envelopes)

        leases = backend.claim(a_claim(queues=("default", "default"), limit=9))

        assert ids(leases) == ids(envelopes)

    def test_a_claimed_job_is_given_to_nobody_else(self, backend, open_client):
        backend.enqueue([an_envelope()])
        backend.claim(a_claim(owner="first"))

        assert open_client().claim(a_claim(owner="second")) == []

    @pytest.mark.promise("S5")
    def test_a_claimed_job_is_not_given_to_its_own_worker_again(self, backend):
        backend.enqueue([an_envelope()])
        backend.claim(a_claim())

        assert backend.claim(a_claim()) == []

    def test_two_clients_share_the_jobs_between_them(self, backend, open_client):
        envelopes = some_envelopes(4)
        other = open_client()
        backend.enqueue(envelopes)

        mine = backend.claim(a_claim(owner="mine", limit=2))
        theirs = other.claim(a_claim(owner="theirs", limit=2))

        assert sorted(ids(mine) + ids(theirs)) == sorted(ids(envelopes))

    def test_a_turn_may_claim_without_settling(self, backend):
        backend.open_session(a_session())
        backend.enqueue([an_envelope()])

        assert len(backend.turn(a_turn(claim=a_claim())).leases) == 1

    def test_a_turn_may_settle_without_claiming(self, backend):
        lease = a_lease(backend)
        backend.enqueue([an_envelope()])

        result = backend.turn(a_turn(Settlement.ack(lease)))

        assert result.settled[0].applied
        assert result.leases == []

    def test_a_turn_settles_before_it_claims(self, backend):
        lease = a_lease(backend)
        following = an_envelope()
        backend.enqueue([following])

        result = backend.turn(a_turn(Settlement.ack(lease), claim=a_claim(limit=9)))

        assert result.settled[0].applied
        assert ids(result.leases) == [following.id]

    def test_a_turn_does_not_claim_what_it_released(self, backend):
        lease = a_lease(backend)
        following = an_envelope()
        backend.enqueue([following])

        result = backend.turn(a_turn(Settlement.release(lease), claim=a_claim(limit=9)))

        assert ids(result.leases) == [following.id]

    def test_the_next_turn_may_claim_what_the_last_one_released(self, backend):
        lease = a_lease(backend)
        backend.turn(a_turn(Settlement.release(lease), claim=a_claim(limit=9)))

        again = backend.turn(a_turn(claim=a_claim(limit=9))).leases

        assert ids(again) == [lease.envelope.id]

    @pytest.mark.promise("F48")
    def test_threads_that_claim_at_once_never_get_the_same_job(self, backend, open_client):
        envelopes = some_envelopes(self.CLAIMED_JOBS)
        backend.enqueue(envelopes)
        clients = [backend, open_client()]

        def claim_all(number: int) -> list[str]:
            client, owner, claimed = clients[number % 2], f"worker-{number}", []
            while leases := client.claim(a_claim(owner=owner, limit=7)):
                claimed += ids(leases)
            return claimed

        claimed = [job_id for share in at_once(self.CLAIMING_THREADS, claim_all) for job_id in share]

        assert sorted(claimed) == sorted(ids(envelopes))


class OrderContract:
    @needs("promotes")
    def test_jobs_of_one_microsecond_come_out_in_the_order_of_their_ids(self, backend):
        envelopes = some_envelopes(50)
        backend.enqueue(Random(7).sample(envelopes, k=50))

        assert ids(backend.claim(a_claim(limit=50))) == ids(envelopes)

    def test_jobs_enqueued_one_by_one_come_out_in_that_order(self, backend):
        envelopes = some_envelopes(5)
        for envelope in envelopes:
            backend.enqueue([envelope])

        claimed = [backend.claim(a_claim())[0].envelope.id for _ in envelopes]

        assert claimed == ids(envelopes)

    @needs("priorities")
    def test_a_higher_priority_comes_first(self, backend):
        low, high, middle = (an_envelope(priority=priority) for priority in (-5, 7, 0))
        backend.enqueue([low, high, middle])

        assert ids(backend.claim(a_claim(limit=3))) == ids([high, middle, low])

    @needs("delays", "promotes")
    def test_the_earlier_due_comes_first_whenever_it_was_enqueued(self, backend, clock):
        late, early = an_envelope(delay=20), an_envelope(delay=10)
        backend.enqueue([late, early])

        clock.advance(30)

        assert ids(backend.claim(a_claim(limit=2))) == ids([early, late])

    @needs("priorities", "delays", "promotes")
    def test_priority_comes_before_due_time_and_due_time_before_id(self, backend, clock):
        plain_late, plain_early = an_envelope(delay=20), an_envelope(delay=10)
        urgent_late, urgent_twin = an_envelope(delay=20, priority=1), an_envelope(delay=20, priority=1)
        backend.enqueue([plain_late, plain_early, urgent_twin, urgent_late])

        clock.advance(30)

        assert ids(backend.claim(a_claim(limit=4))) == ids([urgent_late, urgent_twin, plain_early, plain_late])

    def test_queues_are_served_in_the_order_given(self, backend):
        in_a, in_b = some_envelopes(2, queue="a"), some_envelopes(2, queue="b")
        backend.enqueue(in_a + in_b)

        assert ids(backend.claim(a_claim(queues=("b", "a"), limit=3))) == ids([*in_b, in_a[0]])

    @needs("priorities")
    def test_priority_orders_within_a_queue_only(self, backend):
        urgent, first = an_envelope(queue="b", priority=9), an_envelope(queue="a")
        backend.enqueue([urgent, first])

        assert ids(backend.claim(a_claim(queues=("a", "b"), limit=2))) == ids([first, urgent])

    @needs("keeps_place")
    def test_a_released_job_keeps_its_place(self, backend, clock):
        lease = a_lease(backend)
        clock.advance(10)
        backend.enqueue([an_envelope()])

        backend.release(lease)

        assert ids(backend.claim(a_claim())) == [lease.envelope.id]

    @needs("keeps_place")
    def test_a_job_given_back_unstarted_keeps_its_place(self, backend, clock):
        lease = a_lease(backend)
        clock.advance(10)
        backend.enqueue([an_envelope()])

        backend.reap(owner="worker", started=())

        assert ids(backend.claim(a_claim(owner="other"))) == [lease.envelope.id]


@needs("delays")
class PromotionContract:
    @pytest.mark.promise("S18", "F22")
    def test_a_job_is_not_claimed_before_its_time(self, backend, clock):
        backend.enqueue([an_envelope(delay=60)])

        clock.advance(60 - 0.000001)

        assert backend.claim(a_claim()) == []

    def test_a_job_is_due_at_its_very_microsecond(self, backend, clock):
        backend.enqueue([an_envelope(delay=60)])

        clock.advance(60)

        assert len(backend.claim(a_claim())) == 1

    @pytest.mark.promise("S18", "F22")
    def test_a_failed_job_is_not_claimed_before_its_delay_is_over(self, backend, clock):
        backend.nack(a_lease(backend), 60)

        clock.advance(60 - 0.000001)
        early = backend.claim(a_claim())
        clock.advance(0.000001)
        due = backend.claim(a_claim())

        assert (len(early), len(due)) == (0, 1)

    def test_a_failed_job_without_a_delay_can_be_claimed_at_once(self, backend):
        lease = a_lease(backend)

        backend.nack(lease, 0)

        assert ids(backend.claim(a_claim())) == [lease.envelope.id]

    @needs("promotes")
    def test_a_turn_says_how_many_jobs_fell_due(self, backend, clock):
        backend.open_session(a_session())
        backend.enqueue(some_envelopes(3, delay=60))
        backend.enqueue([an_envelope()])
        clock.advance(60)

        first = backend.turn(a_turn(claim=a_claim(limit=9)))
        second = backend.turn(a_turn(claim=a_claim(limit=9)))

        assert (first.promoted, second.promoted) == (3, 0)

    @needs("inspection")
    def test_a_turn_promotes_up_to_its_limit_in_each_queue(self, backend, clock):
        backend.open_session(a_session())
        backend.enqueue(some_envelopes(3, queue="a", delay=60) + some_envelopes(3, queue="b", delay=60))
        clock.advance(60)

        result = backend.turn(a_turn(claim=a_claim(queues=("a", "b"), limit=2)))

        assert result.promoted == 4
        assert (backend.counts("a")[State.SCHEDULED], backend.counts("b")[State.SCHEDULED]) == (1, 1)

    @needs("inspection")
    def test_a_turn_promotes_nothing_in_queues_it_does_not_claim(self, backend, clock):
        elsewhere = an_envelope(queue="elsewhere", delay=60)
        backend.enqueue([elsewhere])
        clock.advance(60)

        backend.claim(a_claim(limit=9))

        assert backend.get(elsewhere.id).state is State.SCHEDULED

    def test_due_jobs_elsewhere_do_not_use_up_the_limit(self, backend, clock):
        backend.enqueue(some_envelopes(5, queue="elsewhere", delay=10))
        wanted = an_envelope(delay=60)
        backend.enqueue([wanted])
        clock.advance(60)

        assert ids(backend.claim(a_claim(limit=1))) == [wanted.id]

    def test_every_due_job_is_reached_by_small_claims(self, backend, clock):
        envelopes = some_envelopes(5, delay=60)
        backend.enqueue(envelopes)
        clock.advance(60)

        claimed = [backend.claim(a_claim())[0].envelope.id for _ in envelopes]

        assert claimed == ids(envelopes)


class LeasesContract:
    def test_a_lease_names_its_owner_and_the_instant_of_the_claim(self, backend, clock):
        clock.advance(5)
        lease = a_lease(backend, owner="me")

        assert (lease.owner, lease.claimed_at) == ("me", clock.micros())

    @needs("sessions")
    def test_a_lease_carries_its_sessions_expiry(self, backend, clock):
        lease = a_lease(backend, lease_for=45)

        assert lease.expires_at == clock.micros() + 45 * SECOND

    @pytest.mark.parametrize("move", ["nack", "snooze", "park", "release", "crashed"])
    def test_every_claim_takes_a_higher_token(self, backend, clock, move):
        lease = a_lease(backend)
        tokens = [lease.token]

        for _ in range(2):
            backend.settle([SETTLEMENTS[move](lease)])
            clock.advance(1_000)
            (lease,) = backend.claim(a_claim())
            tokens.append(lease.token)

        assert tokens == sorted(set(tokens))

    @needs("inspection")
    def test_the_token_is_the_number_of_the_delivery(self, backend):
        lease = a_lease(backend)
        backend.release(lease)
        (again,) = backend.claim(a_claim())

        assert again.token == backend.get(again.envelope.id).delivery == lease.token + 1

    @needs("inspection")
    def test_a_claim_stamps_owner_and_start(self, backend, clock):
        clock.advance(5)

        lease = a_lease(backend, owner="me")

        stored = backend.get(lease.envelope.id)
        assert (stored.owner, stored.started_at) == ("me", clock.micros())

    def test_a_lease_counts_the_runs_before_it(self, backend):
        backend.nack(a_lease(backend), 0)
        backend.nack(backend.claim(a_claim())[0], 0)

        (third,) = backend.claim(a_claim())

        assert third.attempts == 2

    def test_a_lease_counts_interruptions_and_crashes(self, backend):
        backend.release(a_lease(backend))
        (lease,) = backend.claim(a_claim(owner="doomed"))
        backend.reap(owner="doomed", started=[(lease.envelope.id, lease.token)])

        (again,) = backend.claim(a_claim())

        assert (again.interruptions, again.crashes) == (1, 1)

    def test_a_lease_shows_how_long_its_job_has_waited_and_been_parked(self, backend, clock):
        parked_at = clock.micros()
        backend.park(a_lease(backend), 10, "unknown here")
        clock.advance(10)

        (again,) = backend.claim(a_claim())

        assert (again.waits, again.parked_since) == (1, parked_at)
        assert again.claimed_at == parked_at + micros(10)
