"""Enqueueing: ids make it repeatable, a batch is stored whole or not at all, the store's clock decides what is due."""

from __future__ import annotations

import msgspec
import pytest

from onward.backend import Settlement
from onward.base.clock import SECOND
from onward.errors import BackendRefused
from onward.job.states import FINISHED, LIVE, State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids, micros, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["DueContract", "EnqueueingContract", "RefusedContract", "RetriedEnqueueContract"]

_MANY = 2_000


class EnqueueingContract:
    def test_no_envelopes_store_nothing(self, backend):
        assert backend.enqueue([]) == []

    def test_an_enqueued_job_comes_back_with_the_very_bytes_that_were_sealed(self, backend):
        envelope = an_envelope(payload={"text": "ü\x00", "list": [1, None]})
        backend.enqueue([envelope])

        (lease,) = backend.claim(a_claim())

        sealed = lease.envelope
        assert (sealed.id, sealed.queue, sealed.data) == (envelope.id, envelope.queue, envelope.data)

    def test_the_store_never_reads_the_sealed_bytes(self, backend):
        backend.enqueue([msgspec.structs.replace(an_envelope(), data=bytes(range(256)))])

        (lease,) = backend.claim(a_claim())

        assert lease.envelope.data == bytes(range(256))

    @pytest.mark.promise("S1")
    def test_a_new_job_has_no_attempts_crashes_or_interruptions(self, backend):
        lease = a_lease(backend)

        assert (lease.attempts, lease.crashes, lease.interruptions) == (0, 0, 0)

    def test_the_answers_follow_the_order_of_the_envelopes(self, backend):
        envelopes = some_envelopes(3)

        answers = backend.enqueue([envelopes[2], envelopes[0], envelopes[1]])

        assert [answer.id for answer in answers] == ids([envelopes[2], envelopes[0], envelopes[1]])

    def test_a_job_that_was_created_is_answered_so(self, backend):
        (answer,) = backend.enqueue([an_envelope()])

        assert answer.created
        assert answer.existing_id is None

    def test_thousands_of_envelopes_fit_into_one_call(self, backend):
        envelopes = some_envelopes(_MANY)

        answers = backend.enqueue(envelopes)

        assert sum(answer.created for answer in answers) == _MANY
        assert len(backend.claim(a_claim(limit=_MANY))) == _MANY

    @pytest.mark.parametrize("queue", ["a'b", 'a"b', "a;--", "%", "_", "ünïcode", "a b"])
    def test_a_queue_is_found_by_exactly_its_name(self, backend, queue):
        backend.enqueue([an_envelope(queue=queue), an_envelope(queue="axb")])

        leases = backend.claim(a_claim(queues=(queue,), limit=9))

        assert [lease.envelope.queue for lease in leases] == [queue]

    @needs("inspection")
    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_the_id_of_a_live_job_is_answered_with_that_job(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        (answer,) = backend.enqueue([stage.envelope])

        assert not answer.created
        assert answer.existing_id == stage.id

    @needs("knows_ids")
    def test_an_id_twice_in_one_batch_is_stored_once(self, backend):
        envelope = an_envelope()

        answers = backend.enqueue([envelope, envelope])

        assert [answer.created for answer in answers] == [True, False]
        assert answers[1].existing_id == envelope.id
        assert len(backend.claim(a_claim(limit=9))) == 1

    @needs("knows_ids")
    @pytest.mark.promise("F20")
    def test_the_id_of_a_running_job_enqueued_again_leaves_one_job(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])
        (lease,) = backend.claim(a_claim())

        backend.enqueue([envelope])

        assert backend.claim(a_claim(owner="other")) == []
        assert backend.ack(lease).applied
        assert backend.claim(a_claim(owner="other")) == []


@pytest.mark.promise("F28")
class RetriedEnqueueContract:
    @needs("knows_ids")
    def test_a_retried_enqueue_that_had_arrived_stores_nothing_more(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])

        (answer,) = backend.enqueue([envelope], retried=True)

        assert (answer.created, answer.existing_id) == (False, envelope.id)
        assert len(backend.claim(a_claim(limit=9))) == 1

    def test_a_retried_enqueue_that_had_not_arrived_is_stored(self, backend):
        envelope = an_envelope()

        (answer,) = backend.enqueue([envelope], retried=True)

        assert answer.created
        assert ids(backend.claim(a_claim(limit=9))) == [envelope.id]

    @needs("inspection")
    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_a_retried_enqueue_finds_its_job_among_the_finished(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        (answer,) = backend.enqueue([stage.envelope], retried=True)

        assert (answer.created, answer.existing_id) == (False, stage.id)
        assert backend.claim(a_claim(queues=("stage",))) == []

    @needs("knows_ids")
    def test_a_retried_enqueue_finds_the_tombstone_of_its_job(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])
        (lease,) = backend.claim(a_claim())
        backend.settle([Settlement.ack(lease, keep=False)])

        (answer,) = backend.enqueue([envelope], retried=True)

        assert (answer.created, answer.existing_id) == (False, envelope.id)
        assert backend.claim(a_claim()) == []

    @needs("knows_ids")
    def test_a_retried_batch_is_answered_job_by_job(self, backend):
        done, live, new = some_envelopes(3)
        backend.enqueue([done])
        backend.ack(backend.claim(a_claim())[0])
        backend.enqueue([live])

        answers = backend.enqueue([new, done, live], retried=True)

        assert [answer.created for answer in answers] == [True, False, False]
        assert set(ids(backend.claim(a_claim(limit=9)))) == {live.id, new.id}

    @needs("deduplicates", "inspection")
    def test_a_retried_enqueue_does_not_replace_the_job_it_had_made(self, backend):
        envelope = an_envelope(unique_key="k", unique_strategy="cancel_existing")
        backend.enqueue([envelope])

        backend.enqueue([envelope], retried=True)

        assert backend.get(envelope.id).state is State.AVAILABLE

    @needs("deduplicates", "inspection")
    def test_a_retried_enqueue_does_not_stop_its_own_running_job(self, backend):
        envelope = an_envelope(unique_key="k", unique_strategy="cancel_existing")
        backend.enqueue([envelope])
        backend.claim(a_claim())

        backend.enqueue([envelope], retried=True)

        assert not backend.get(envelope.id).cancel_requested

    @needs("deduplicates", "inspection")
    def test_a_retried_enqueue_of_a_finished_job_replaces_nobody(self, backend):
        finished = an_envelope(unique_key="k", unique_strategy="cancel_existing")
        backend.enqueue([finished])
        backend.ack(backend.claim(a_claim())[0])
        follower = an_envelope(unique_key="k")
        backend.enqueue([follower])

        backend.enqueue([finished], retried=True)

        assert backend.get(follower.id).state is State.AVAILABLE


@needs("delays", "inspection")
class DueContract:
    def test_a_job_without_a_delay_is_available_now(self, backend, clock):
        envelope = an_envelope()

        backend.enqueue([envelope])

        stored = backend.get(envelope.id)
        assert (stored.state, stored.available_at) == (State.AVAILABLE, clock.micros())

    def test_a_delay_is_counted_from_the_stores_now(self, backend, clock):
        clock.advance(1000)
        envelope = an_envelope(delay=60)

        backend.enqueue([envelope])

        stored = backend.get(envelope.id)
        assert (stored.state, stored.available_at) == (State.SCHEDULED, clock.micros() + 60 * SECOND)

    @pytest.mark.parametrize(("delay", "not_before", "due"), [(60, 10, 60), (10, 60, 60), (0, 60, 60)])
    def test_the_later_of_delay_and_not_before_counts(self, backend, clock, delay, not_before, due):
        now = clock.micros()
        envelope = an_envelope(delay=delay, not_before=now + micros(not_before))

        backend.enqueue([envelope])

        assert backend.get(envelope.id).available_at == now + micros(due)

    @pytest.mark.parametrize("seconds", [0, -60])
    def test_a_not_before_that_is_over_is_due(self, backend, clock, seconds):
        envelope = an_envelope(not_before=clock.micros() + micros(seconds))

        backend.enqueue([envelope])

        assert backend.get(envelope.id).state is State.AVAILABLE


# What some stores cannot keep: text that is not Unicode, numbers no column holds.
_STRANGE = {
    "a lone surrogate in the queue": {"queue": "\ud800"},
    "a lone surrogate in the job's name": {"job": "\ud800"},
    "a number beyond 64 bits": {"priority": 2**70},
    "an instant beyond 64 bits": {"not_before": 2**70},
}


class RefusedContract:
    @needs("inspection")
    @pytest.mark.parametrize("strange", _STRANGE.values(), ids=_STRANGE.keys())
    def test_a_batch_with_a_refused_envelope_is_stored_whole_or_not_at_all(self, backend, strange):
        batch = some_envelopes(3)
        batch[1] = msgspec.structs.replace(batch[1], **strange)

        try:
            backend.enqueue(batch)
        except BackendRefused:
            expected = 0
        else:
            expected = len(batch)

        assert sum(backend.counts().values()) == expected

    @needs("deduplicates")
    @pytest.mark.promise("F71")
    def test_a_refused_batch_leaves_no_unique_key_behind(self, backend):
        strange = msgspec.structs.replace(an_envelope(), queue="\ud800")
        try:
            backend.enqueue([an_envelope(unique_key="k"), strange])
        except BackendRefused:
            pass
        else:
            pytest.skip("this backend refuses no envelope")

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert answer.created

    @needs("inspection")
    def test_a_turn_with_a_refused_settlement_is_applied_whole_or_not_at_all(self, backend):
        backend.enqueue(some_envelopes(2))
        first, second = backend.claim(a_claim(limit=2))

        try:
            backend.settle([Settlement.ack(first), Settlement.abandon(second, "\ud800")])
        except BackendRefused:
            expected = 2
        else:
            expected = 0

        assert backend.counts()[State.EXECUTING] == expected
