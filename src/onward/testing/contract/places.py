"""The place of one job: how many stand before it, which jobs hold its keys, and how much of its limits is used."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import JobPlace, KeyHolder, Look, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids, micros, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane
from onward.testing.contract.stage import Stage

__all__ = ["LimitedPlacesContract", "PlacesContract"]


def place_of(backend: Any, job_id: str, at_most: int = 10_000) -> JobPlace:
    place: JobPlace | None = backend.look(Look(place_of=job_id, at_most=at_most)).place
    assert place is not None
    return place


@needs("inspection")
class PlacesContract:
    def test_a_job_that_is_not_there_has_no_place(self, backend, clock):
        seen = backend.look(Look(place_of=an_envelope().id))

        assert (seen.now, seen.overview, seen.place) == (clock.micros(), None, None)

    @pytest.mark.promise("S126")
    @pytest.mark.parametrize("state", State)
    def test_a_job_is_shown_as_get_shows_it(self, backend, clock, state):
        job_id = Stage(backend, clock).bring(state).id

        assert place_of(backend, job_id).job == backend.get(job_id)

    @pytest.mark.parametrize("state", [*sorted(FINISHED), State.EXECUTING])
    def test_a_job_that_does_not_wait_has_none_before_it(self, backend, clock, state):
        job_id = Stage(backend, clock).bring(state).id
        backend.enqueue([an_envelope(queue="stage", priority=9)])

        assert place_of(backend, job_id) == JobPlace(job=backend.get(job_id))

    @needs("priorities")
    def test_those_before_it_are_counted_in_claim_order(self, backend, clock):
        early = some_envelopes(2)
        backend.enqueue(early)
        clock.advance(1)
        envelope = an_envelope()
        backend.enqueue([*some_envelopes(3, priority=2), *some_envelopes(4, priority=-2), envelope])
        backend.enqueue([*some_envelopes(5, queue="other"), *some_envelopes(2, delay=60)])
        clock.advance(1)
        backend.enqueue(some_envelopes(6))

        assert place_of(backend, envelope.id).ahead == 5
        assert [place_of(backend, job.id).ahead for job in early] == [3, 4]

    def test_none_is_counted_beyond_the_limit(self, backend):
        envelopes = some_envelopes(7)
        backend.enqueue(envelopes)

        assert place_of(backend, envelopes[-1].id, at_most=4).ahead == 4
        assert place_of(backend, envelopes[-1].id, at_most=7).ahead == 6

    def test_a_job_that_is_due_and_was_not_made_available_has_its_place(self, backend, clock):
        envelope = an_envelope(delay=60)
        backend.enqueue([*some_envelopes(2), envelope])
        clock.advance(61)
        backend.enqueue(some_envelopes(1))

        assert place_of(backend, envelope.id).ahead == 2

    def test_why_a_running_job_was_asked_to_cancel_is_shown(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "no longer needed")

        job = place_of(backend, lease.envelope.id).job

        assert (job.cancel_reason, job.cancel_requested) == ("no longer needed", True)

    @needs("holds")
    def test_the_jobs_that_hold_its_keys_are_named(self, backend):
        keys: dict[str, Any] = {"idempotency_key": "order:1", "single_instance": True}
        holder = a_lease(backend, **keys)
        waiting = an_envelope(**keys)
        backend.enqueue([waiting])

        assert place_of(backend, holder.envelope.id).holders == ()
        assert sorted(place_of(backend, waiting.id).holders, key=lambda each: each.single_instance) == [
            KeyHolder(key=waiting.idempotency_key or "", single_instance=False, job_id=holder.envelope.id),
            KeyHolder(key=waiting.single_instance or "", single_instance=True, job_id=holder.envelope.id),
        ]

    @needs("holds")
    def test_a_success_is_named_until_it_is_forgotten(self, backend, clock):
        holder = a_lease(backend, idempotency_key="order:1", idempotency_ttl=60)
        backend.ack(holder)
        done_until = clock.micros() + micros(60)
        waiting = an_envelope(idempotency_key="order:1")
        backend.enqueue([waiting])

        (seen,) = place_of(backend, waiting.id).holders
        clock.advance(60)

        assert (seen.job_id, seen.done_until) == (holder.envelope.id, done_until)
        assert place_of(backend, waiting.id).holders == ()

    @needs("holds")
    def test_a_lease_that_was_given_back_holds_nothing(self, backend):
        holder = a_lease(backend, single_instance=True)
        waiting = an_envelope(single_instance=True, queue="other")
        backend.enqueue([waiting])

        backend.nack(holder, 60)

        assert place_of(backend, waiting.id).holders == ()


@needs("lanes")
class LimitedPlacesContract:
    def test_those_before_it_are_counted_in_its_lane(self, backend):
        mine, others = in_lane(3, "acme"), in_lane(4, "other")
        backend.enqueue([*others, *mine, *some_envelopes(5)])

        assert [place_of(backend, job.id).ahead for job in mine] == [0, 1, 2]

    def test_a_job_without_limits_has_none(self, backend):
        declare(backend, a_limit(running=1), a_limit("mail", "queue", running=2))
        envelope = an_envelope(queue="default")
        backend.enqueue([envelope])

        assert place_of(backend, envelope.id).limits == ()

    def test_limits_of_queue_job_and_key_are_shown_with_what_is_used(self, backend):
        declare(
            backend,
            a_limit(running=3),
            a_limit("default", "queue", running=4),
            a_limit(kind="key", running=1),
        )
        envelopes = [*in_lane(2, "acme"), *in_lane(1, "other")]
        backend.enqueue(envelopes)
        leases = claimed(backend)
        (waiting,) = {job.id for job in envelopes} - set(ids(leases))

        limits = place_of(backend, waiting).limits

        assert [(each.row.kind, each.row.bounds.running, each.running) for each in limits] == [
            ("queue", 4, 2),
            ("job", 3, 2),
            ("key", 1, 1),
        ]
        assert [each.lane for each in limits] == [None, None, envelopes[0].lane]

    def test_a_rate_is_shown_with_its_next_token(self, backend, clock):
        declare(backend, a_limit(rate="1/m", burst=1))
        first, second = in_lane(2)
        backend.enqueue([first])
        claimed(backend)
        backend.enqueue([second])

        (limit,) = place_of(backend, second.id).limits

        assert (limit.tokens, limit.opens_at) == (0, clock.micros() + micros(60))

    def test_what_was_shut_is_shown_with_its_end(self, backend, clock):
        declare(backend, a_limit())
        envelope = in_lane(1)[0]
        backend.enqueue([envelope])
        backend.shut("render/")

        (shut,) = place_of(backend, envelope.id).limits
        backend.shut("render/", opened=True)

        assert shut.shut_until is not None
        assert shut.shut_until > clock.micros() + micros(10**6)
        assert place_of(backend, envelope.id).limits == ()

    def test_the_oldest_job_of_a_queue_may_be_in_any_lane(self, backend, clock):
        since = clock.micros()
        backend.enqueue(in_lane(1, "acme", priority=-1))
        clock.advance(1)
        backend.enqueue([*in_lane(1, "acme"), *in_lane(2, "other"), *some_envelopes(2)])

        (queue,) = backend.look(Look(counts=True)).overview.queues

        assert queue.oldest_due == since

    def test_a_job_that_was_booked_for_a_token_and_is_due_counts_as_waiting(self, backend, clock):
        declare(backend, a_limit(kind="key", rate="1/m", burst=1), a_limit())
        backend.enqueue(in_lane(3, "acme"))
        leases = claimed(backend)
        assert len(leases) == 1
        clock.advance(200)

        (queue,) = backend.look(Look(counts=True)).overview.queues

        assert queue.oldest_due is not None
        assert queue.oldest_due < clock.micros()

    def test_a_plain_job_of_a_limited_queue_is_shown_with_its_limit(self, backend):
        declare(backend, a_limit("default", "queue", running=1))
        first, second = some_envelopes(2)
        backend.enqueue([first, second])
        (lease,) = backend.claim(a_claim(limit=5))

        (limit,) = place_of(backend, second.id).limits
        backend.settle([Settlement.ack(lease)])

        assert (limit.row.kind, limit.running) == ("queue", 1)
        assert place_of(backend, second.id).limits[0].running == 0
