"""Replay: a discarded or cancelled job is available again, with its counters reset and its history kept."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Query, Settlement, StoredJob
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_claim, a_failure, a_lease, an_envelope, an_id, ids, micros
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["ReplayContract", "SkippedReplayContract"]


@needs("inspection")
class ReplayContract:
    @pytest.mark.parametrize("state", [State.DISCARDED, State.CANCELLED])
    def test_a_job_that_was_given_up_lives_again(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        replayed = backend.replay(Query(ids=(stage.id,)))

        assert (replayed.ids, replayed.skipped) == ([stage.id], {})
        assert ids(backend.claim(a_claim(queues=("stage",)))) == [stage.id]

    @pytest.mark.parametrize(
        "state", [State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE, State.COMPLETED]
    )
    def test_other_jobs_are_passed_over(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        before = stage.stored()

        replayed = backend.replay(Query(ids=(stage.id,)))

        assert (replayed.ids, replayed.skipped) == ([], {})
        assert stage.stored() == before

    def _worn(self, backend: Any, clock: FakeClock) -> StoredJob:
        """Discard a job that has a value in every counter and mark."""
        lease = a_lease(backend, payload={"n": 1})
        backend.progress(lease, b"0.5")
        backend.settle([Settlement.nack(lease, 0, failure=a_failure("first"), spent="spent")])
        backend.release(backend.claim(a_claim())[0])
        backend.claim(a_claim(owner="dead"))
        backend.reap(owner="dead")
        backend.park(backend.claim(a_claim())[0], 1, "unknown")
        clock.advance(1)
        backend.abandon(backend.claim(a_claim())[0], "gave up")
        worn: StoredJob = backend.get(lease.envelope.id)
        return worn

    def test_the_slate_of_a_replayed_job_is_clean(self, backend, clock):
        worn = self._worn(backend, clock)
        clock.advance(5)

        backend.replay(Query(ids=(worn.id,)))

        clean = backend.get(worn.id)
        assert (clean.state, clean.available_at) == (State.AVAILABLE, clock.micros())
        assert (clean.attempts, clean.crashes, clean.interruptions, clean.waits) == (0, 0, 0, 0)
        assert (clean.reason, clean.progress, clean.finished_at, clean.parked_since) == (None, None, None, None)
        assert not clean.cancel_requested

    def test_the_lease_of_a_replayed_job_is_clean(self, backend, clock):
        worn = self._worn(backend, clock)
        backend.replay(Query(ids=(worn.id,)))

        (lease,) = backend.claim(a_claim())

        assert (lease.attempts, lease.crashes, lease.interruptions, lease.waits) == (0, 0, 0, 0)
        assert (lease.parked_since, lease.spent) == (None, None)

    def test_a_replayed_job_keeps_its_bytes_its_place_and_the_records_of_its_runs(self, backend, clock):
        worn = self._worn(backend, clock)

        backend.replay(Query(ids=(worn.id,)))

        kept = backend.get(worn.id)
        assert (kept.data, kept.queue, kept.job, kept.priority) == (worn.data, worn.queue, worn.job, worn.priority)
        assert kept.enqueued_at == worn.enqueued_at
        assert kept.runs == worn.runs
        assert [run.move for run in kept.runs] == ["nack", "crashed"]

    def test_the_tokens_of_a_replayed_job_go_on_rising(self, backend):
        lease = a_lease(backend)
        backend.abandon(lease, "gave up")
        backend.replay(Query(ids=(lease.envelope.id,)))

        (again,) = backend.claim(a_claim())

        assert again.token == lease.token + 1

    def test_an_old_lease_cannot_touch_the_replayed_job(self, backend):
        lease = a_lease(backend)
        backend.abandon(lease, "gave up")
        backend.replay(Query(ids=(lease.envelope.id,)))
        (again,) = backend.claim(a_claim())

        assert backend.ack(lease).lease_lost
        assert backend.ack(again).applied

    def test_a_replayed_job_may_fail_crash_and_be_replayed_anew(self, backend):
        lease = a_lease(backend, max_crashes=1)
        backend.reap(owner="worker")
        backend.replay(Query(ids=(lease.envelope.id,)))
        backend.claim(a_claim())
        backend.reap(owner="worker")

        stored = backend.get(lease.envelope.id)

        assert (stored.state, stored.crashes, len(stored.runs)) == (State.DISCARDED, 1, 2)

    def test_a_query_chooses_what_is_replayed(self, backend):
        for queue, job in (("mail", "send"), ("mail", "sort"), ("news", "send")):
            backend.abandon(a_lease(backend, queue=queue, job=job), "gave up")

        backend.replay(Query(queue="mail", job="send"))

        assert backend.counts("mail")[State.AVAILABLE] == 1
        assert backend.counts("news")[State.AVAILABLE] == 0

    @pytest.mark.parametrize("state", [State.DISCARDED, State.CANCELLED])
    def test_a_state_chooses_what_is_replayed(self, backend, clock, state):
        stages = [Stage(backend, clock, queue=name).bring(State(name)) for name in ("discarded", "cancelled")]

        replayed = backend.replay(Query(states=frozenset({state})))

        assert replayed.ids == [stage.id for stage in stages if stage.options["queue"] == state]

    @pytest.mark.promise("F75")
    def test_a_second_replay_finds_nothing_left_to_do(self, backend, clock):
        stage = Stage(backend, clock).bring(State.DISCARDED)
        backend.replay(Query(ids=(stage.id,)))

        assert backend.replay(Query(ids=(stage.id,))).ids == []


@needs("inspection")
class SkippedReplayContract:
    def test_an_unknown_job_is_neither_replayed_nor_skipped(self, backend):
        replayed = backend.replay(Query(ids=(an_id(),)))

        assert (replayed.ids, replayed.skipped) == ([], {})

    def test_an_expired_job_is_skipped(self, backend, clock):
        stage = Stage(backend, clock, expires_at=clock.micros() + micros(60)).bring(State.DISCARDED)
        clock.advance(60)

        replayed = backend.replay(Query(ids=(stage.id,)))

        assert (replayed.ids, replayed.skipped) == ([], {stage.id: "expired"})
        assert stage.state() is State.DISCARDED

    def test_a_tombstone_is_skipped(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.ack(lease, keep=False)])

        replayed = backend.replay(Query(ids=(lease.envelope.id,)))

        assert (replayed.ids, replayed.skipped) == ([], {lease.envelope.id: "tombstone"})

    @needs("deduplicates")
    @pytest.mark.promise("F74")
    def test_a_job_whose_key_is_taken_is_skipped_and_named(self, backend, clock):
        stage = Stage(backend, clock, unique_key="k").bring(State.DISCARDED)
        backend.enqueue([holder := an_envelope(unique_key="k")])

        replayed = backend.replay(Query(ids=(stage.id,)))

        assert (replayed.ids, replayed.skipped) == ([], {stage.id: f"key held by {holder.id}"})
        assert stage.state() is State.DISCARDED

    @needs("deduplicates")
    def test_a_replayed_job_takes_its_key_again(self, backend, clock):
        stage = Stage(backend, clock, unique_key="k").bring(State.DISCARDED)
        backend.replay(Query(ids=(stage.id,)))

        (answer,) = backend.enqueue([an_envelope(unique_key="k")])

        assert (answer.created, answer.existing_id) == (False, stage.id)

    @needs("deduplicates")
    @pytest.mark.promise("F74")
    def test_of_two_jobs_with_one_key_the_first_is_replayed(self, backend, clock):
        first = Stage(backend, clock, unique_key="k").bring(State.DISCARDED)
        second = Stage(backend, clock, unique_key="k").bring(State.DISCARDED)

        replayed = backend.replay(Query(ids=(first.id, second.id)))

        assert (replayed.ids, replayed.skipped) == ([first.id], {second.id: f"key held by {first.id}"})

    @needs("deduplicates")
    @pytest.mark.promise("F74")
    def test_a_skipped_job_does_not_keep_the_others_from_living_again(self, backend, clock):
        blocked = Stage(backend, clock, unique_key="k").bring(State.DISCARDED)
        free = Stage(backend, clock).bring(State.DISCARDED)
        backend.enqueue([an_envelope(unique_key="k")])

        replayed = backend.replay(Query(states=frozenset({State.DISCARDED})))

        assert replayed.ids == [free.id]
        assert list(replayed.skipped) == [blocked.id]
