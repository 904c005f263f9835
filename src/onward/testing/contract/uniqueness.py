"""Unique keys: one live job per key, and what happens to the second."""

from __future__ import annotations

import pytest

from onward.backend import Envelope, Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, at_once, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["ReplacingContract", "UniquenessContract"]


@needs("deduplicates")
@pytest.mark.promise("S34")
class UniquenessContract:
    RIVALS = 50

    @pytest.mark.promise("F72")
    def test_a_second_job_with_the_key_is_answered_with_the_first(self, backend):
        first, second = an_envelope(unique_key="k"), an_envelope(unique_key="k")
        backend.enqueue([first])

        (answer,) = backend.enqueue([second])

        assert (answer.id, answer.created, answer.existing_id) == (second.id, False, first.id)
        assert ids(backend.claim(a_claim(limit=9))) == [first.id]

    @needs("inspection")
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE])
    def test_a_job_holds_its_key_in_every_live_state(self, backend, clock, state):
        holder = Stage(backend, clock, unique_key="k").bring(state)

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert (answer.created, answer.existing_id) == (False, holder.id)

    @needs("inspection")
    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_a_finished_job_has_freed_its_key(self, backend, clock, state):
        Stage(backend, clock, unique_key="k").bring(state)

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert answer.created

    def test_a_tombstone_has_freed_its_key(self, backend):
        backend.settle([Settlement.ack(a_lease(backend, unique_key="k"), keep=False)])

        assert backend.enqueue([an_envelope(unique_key="k")])[0].created

    @pytest.mark.promise("F73")
    def test_a_dead_worker_does_not_keep_the_key_when_its_job_is_given_up(self, backend):
        a_lease(backend, owner="dead", unique_key="k", max_crashes=1)
        backend.reap(owner="dead")

        assert backend.enqueue([an_envelope(unique_key="k")])[0].created

    def test_an_expired_job_frees_its_key_when_it_is_met(self, backend, clock):
        backend.enqueue([an_envelope(unique_key="k", expires_at=clock.micros() + 1)])
        clock.advance(1)
        backend.claim(a_claim())

        assert backend.enqueue([an_envelope(unique_key="k")])[0].created

    def test_other_jobs_unique_keys_are_other_keys(self, backend):
        backend.enqueue([an_envelope(job="send", unique_key="k")])

        assert backend.enqueue([an_envelope(job="receive", unique_key="k")])[0].created

    def test_a_global_unique_key_is_one_key_for_all_jobs(self, backend):
        backend.enqueue([first := an_envelope(job="send", unique_key="k", key_scope="global")])

        (answer,) = backend.enqueue([an_envelope(job="receive", unique_key="k", key_scope="global")])

        assert answer.existing_id == first.id

    def test_a_key_is_one_key_for_all_queues(self, backend):
        backend.enqueue([first := an_envelope(queue="a", unique_key="k")])

        (answer,) = backend.enqueue([an_envelope(queue="b", unique_key="k")])

        assert answer.existing_id == first.id

    def test_an_empty_key_is_a_key(self, backend):
        backend.enqueue([first := an_envelope(unique_key="")])

        (answer,) = backend.enqueue([an_envelope(unique_key="")])

        assert answer.existing_id == first.id

    @pytest.mark.promise("F72")
    def test_equal_keys_in_one_batch_leave_the_first(self, backend):
        first, free, second = an_envelope(unique_key="k"), an_envelope(), an_envelope(unique_key="k")

        answers = backend.enqueue([first, free, second])

        assert [(answer.created, answer.existing_id) for answer in answers] == [
            (True, None),
            (True, None),
            (False, first.id),
        ]

    @pytest.mark.promise("F71", "F72")
    def test_many_enqueues_at_once_leave_one_job(self, backend, open_client):
        clients = [backend, open_client()]
        rivals = [an_envelope(unique_key="k") for _ in range(self.RIVALS)]

        answers = at_once(self.RIVALS, lambda number: clients[number % 2].enqueue([rivals[number]])[0])

        (winner,) = [answer.id for answer in answers if answer.created]
        assert {answer.existing_id for answer in answers if not answer.created} == {winner}
        assert ids(backend.claim(a_claim(limit=9))) == [winner]

    @pytest.mark.promise("F74")
    def test_a_job_that_comes_back_from_a_dead_worker_still_holds_its_key(self, backend):
        lease = a_lease(backend, owner="dead", unique_key="k")
        backend.reap(owner="dead", started=())

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert answer.existing_id == lease.envelope.id


@needs("deduplicates", "inspection")
@pytest.mark.promise("S34")
class ReplacingContract:
    """``cancel_existing``: the newer job takes the key."""

    def _newer(self) -> Envelope:
        return an_envelope(unique_key="k", unique_strategy="cancel_existing")

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.AVAILABLE, State.RETRYABLE])
    def test_a_waiting_holder_is_cancelled_and_says_by_whom(self, backend, clock, state):
        holder = Stage(backend, clock, unique_key="k").bring(state)
        newer = self._newer()

        (answer,) = backend.enqueue([newer])

        stored = holder.stored()
        assert answer.created
        assert (stored.state, stored.reason) == (State.CANCELLED, f"replaced by {newer.id}")
        assert stored.finished_at == clock.micros()

    def test_a_running_holder_is_asked_to_cancel(self, backend):
        lease = a_lease(backend, unique_key="k")
        newer = self._newer()

        (answer,) = backend.enqueue([newer])

        stored = backend.get(lease.envelope.id)
        assert answer.created
        assert (stored.state, stored.cancel_requested) == (State.EXECUTING, True)
        assert backend.extend("worker").cancel_requested == ((lease.envelope.id, lease.token),)

    def test_a_running_holder_that_stops_says_by_whom_it_was_replaced(self, backend):
        lease = a_lease(backend, unique_key="k")
        newer = self._newer()
        backend.enqueue([newer])

        answer = backend.nack(lease, 60)

        stored = backend.get(lease.envelope.id)
        assert answer.state is State.CANCELLED
        assert stored.reason == f"replaced by {newer.id}"

    def test_a_running_holder_that_succeeds_is_completed(self, backend):
        lease = a_lease(backend, unique_key="k")
        backend.enqueue([self._newer()])

        assert backend.ack(lease).state is State.COMPLETED

    def test_the_newer_job_holds_the_key_while_the_old_one_still_runs(self, backend):
        a_lease(backend, unique_key="k")
        newer = self._newer()
        backend.enqueue([newer])

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert answer.existing_id == newer.id

    @pytest.mark.promise("F74")
    def test_the_end_of_the_old_one_does_not_free_the_key_of_the_newer(self, backend):
        lease = a_lease(backend, unique_key="k")
        newer = self._newer()
        backend.enqueue([newer])
        backend.nack(lease, 0)

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert answer.existing_id == newer.id

    @pytest.mark.promise("F74")
    def test_a_replaced_job_of_a_dead_worker_is_cancelled_and_blocks_no_sweep(self, backend, clock):
        replaced = a_lease(backend, owner="dead", unique_key="k")
        innocent = a_lease(backend, owner="dead")
        newer = self._newer()
        backend.enqueue([newer])

        reaped = backend.reap(owner="dead", started=())

        assert {each.id: each.to for each in reaped} == {
            replaced.envelope.id: State.CANCELLED,
            innocent.envelope.id: State.AVAILABLE,
        }
        assert backend.get(newer.id).state is State.AVAILABLE

    @pytest.mark.promise("F74")
    def test_replaying_a_replaced_job_does_not_put_two_live_jobs_under_one_key(self, backend, clock):
        holder = Stage(backend, clock, unique_key="k").bring(State.AVAILABLE)
        newer = self._newer()
        backend.enqueue([newer])

        replayed = backend.replay(Query(ids=(holder.id,)))

        assert (replayed.ids, replayed.skipped) == ([], {holder.id: f"key held by {newer.id}"})

    def test_in_one_batch_the_last_one_stands(self, backend):
        first, second = self._newer(), self._newer()

        answers = backend.enqueue([first, second])

        assert [answer.created for answer in answers] == [True, True]
        assert (backend.get(first.id).state, backend.get(second.id).state) == (State.CANCELLED, State.AVAILABLE)

    def test_a_free_key_is_simply_taken(self, backend):
        newer = self._newer()

        (answer,) = backend.enqueue([newer])

        assert answer.created
        assert ids(backend.claim(a_claim())) == [newer.id]

    def test_many_replacements_at_once_leave_one_live_job(self, backend, open_client):
        clients = [backend, open_client()]
        rivals = [self._newer() for _ in range(12)]

        at_once(12, lambda number: clients[number % 2].enqueue([rivals[number]]))

        counts = backend.counts()
        assert (counts[State.AVAILABLE], counts[State.CANCELLED]) == (1, 11)
