"""Removing: purge and prune take finished jobs, and never a live one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from onward.backend import TOMBSTONE, Hold, Inspection, Query, Settlement
from onward.job.states import FINISHED, LIVE, State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["EmptyContract", "PruneContract", "PurgeContract", "TombstonePruneContract"]


@needs("inspection")
class PurgeContract:
    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_a_finished_job_is_removed_for_good(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        assert backend.purge(Query(ids=(stage.id,))) == 1
        assert stage.stored() is None

    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_a_live_job_is_left(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        before = stage.stored()

        assert backend.purge(Query(ids=(stage.id,))) == 0
        assert stage.stored() == before

    def test_a_query_chooses_what_is_purged(self, backend):
        for queue in ("mail", "news"):
            backend.abandon(a_lease(backend, queue=queue), "gave up")

        assert backend.purge(Query(queue="mail")) == 1
        assert (backend.counts("mail")[State.DISCARDED], backend.counts("news")[State.DISCARDED]) == (0, 1)

    def test_a_purged_id_may_be_enqueued_as_if_it_had_never_been(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])
        backend.nack(backend.claim(a_claim())[0], 0)
        backend.abandon(backend.claim(a_claim())[0], "gave up")
        backend.purge(Query(ids=(envelope.id,)))

        (answer,) = backend.enqueue([envelope], retried=True)

        assert answer.created
        assert backend.get(envelope.id).runs == ()

    def test_nothing_is_purged_from_an_empty_store(self, backend):
        assert backend.purge(Query()) == 0


@needs("emptying", "inspection")
class EmptyContract:
    @pytest.mark.parametrize("state", sorted(State))
    def test_an_emptied_store_knows_no_job(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        backend.empty()

        assert stage.stored() is None
        assert (set(backend.counts().values()), list(backend.queues()), list(backend.sessions())) == ({0}, [], [])
        assert backend.claim(a_claim()) == []

    def test_it_is_as_good_as_new(self, backend):
        confirmed = a_lease(backend, idempotency_key="k")
        backend.ack(confirmed)
        backend.enqueue([an_envelope(unique_key="u")])
        backend.pause("default")

        backend.empty()

        envelopes = [an_envelope(unique_key="u"), an_envelope(idempotency_key="k")]
        assert [answer.created for answer in backend.enqueue(envelopes)] == [True, True]
        assert [lease.hold for lease in backend.claim(a_claim(limit=5))] == [Hold.FREE, Hold.HELD]

    def test_a_lease_of_before_changes_nothing(self, backend):
        lease = a_lease(backend)
        backend.empty()

        assert not backend.ack(lease).applied
        assert set(backend.counts().values()) == {0}

    def test_an_empty_one_may_be_emptied(self, backend):
        backend.empty()
        backend.empty()

        assert backend.enqueue([an_envelope()])[0].created


def _walk(backend: Inspection, cutoffs: Mapping[State, int], limit: int) -> dict[State, int]:
    """Prune batch by batch to the end; the sum of what was removed."""
    removed = dict.fromkeys(State, 0)
    after = ""
    for _ in range(100):
        batch = backend.prune(cutoffs, after=after, limit=limit)
        for (_, state), count in batch.removed.items():
            removed[state] += count
        if batch.next is None:
            return {state: count for state, count in removed.items() if count}
        assert batch.next > after, "a walk goes forward"
        after = batch.next
    raise AssertionError("the walk does not end")


@needs("inspection")
@pytest.mark.promise("S24", "F62")
class PruneContract:
    @pytest.fixture
    def aged(self, backend, clock):
        """Store three old and two young jobs of every finished state, and one of every live state."""
        for number in range(5):
            if number == 3:
                clock.advance(100)
            for state in sorted(FINISHED):
                Stage(backend, clock, queue=f"{state}-{number}").bring(state)
        for state in sorted(LIVE):
            Stage(backend, clock, queue=f"{state}").bring(state)
        return clock.micros()  # the young finished now

    def test_without_cutoffs_nothing_is_removed(self, backend, clock, aged):
        before = backend.counts()
        clock.advance(timedelta(days=365))

        assert _walk(backend, {}, 500) == {}
        assert backend.counts() == before

    @pytest.mark.parametrize("state", sorted(FINISHED))
    @pytest.mark.parametrize("limit", [1, 4, 500])
    def test_what_finished_before_the_cutoff_of_its_state_is_removed(self, backend, aged, state, limit):
        before = backend.counts()

        assert _walk(backend, {state: aged}, limit) == {state: 3}
        assert backend.counts() == before | {state: 2}

    def test_every_state_has_its_own_cutoff(self, backend, aged):
        cutoffs = {State.COMPLETED: aged + 1, State.CANCELLED: aged, State.DISCARDED: 0}

        assert _walk(backend, cutoffs, 2) == {State.COMPLETED: 5, State.CANCELLED: 3}

    def test_live_jobs_are_never_removed(self, backend, clock, aged):
        _walk(backend, dict.fromkeys(State, clock.micros() + 1), 500)

        assert {state: count for state, count in backend.counts().items() if count} == dict.fromkeys(LIVE, 1)

    def test_one_batch_removes_no_more_than_its_limit(self, backend, aged):
        batch = backend.prune({State.COMPLETED: aged}, limit=2)

        assert sum(batch.removed.values()) <= 2
        assert batch.next is not None

    def test_the_walk_over_an_empty_store_is_over_at_once(self, backend):
        batch = backend.prune({State.COMPLETED: 1})

        assert (batch.removed, batch.next) == ({}, None)

    def test_only_one_queue_can_be_pruned(self, backend, aged):
        before = backend.counts()

        batch = backend.prune(dict.fromkeys(FINISHED, aged), queue="discarded-1")

        assert batch.removed == {("discarded-1", State.DISCARDED): 1}
        assert backend.counts() == before | {State.DISCARDED: 4}

    def test_a_dry_run_says_what_would_go_and_removes_nothing(self, backend, clock, aged):
        everything = backend.list(Query())
        cutoffs = {State.COMPLETED: aged, State.CANCELLED: aged + 1}

        told = backend.prune(cutoffs, dry_run=True)
        kept = backend.list(Query())
        removed = backend.prune(cutoffs)

        assert kept == everything
        assert told == removed
        assert told.removed == {
            **{(f"completed-{number}", State.COMPLETED): 1 for number in range(3)},
            **{(f"cancelled-{number}", State.CANCELLED): 1 for number in range(5)},
        }

    def test_a_dry_run_of_one_queue_walks_in_batches(self, backend, aged):
        after, told = "", 0
        while after is not None:
            batch = backend.prune({State.DISCARDED: aged}, queue="discarded-0", dry_run=True, after=after, limit=2)
            told += sum(batch.removed.values())
            after = batch.next

        assert told == 1

    def test_the_records_of_a_pruned_job_go_with_it(self, backend, clock):
        envelope = an_envelope()
        backend.enqueue([envelope])
        lease = backend.claim(a_claim())[0]
        backend.nack(lease, 0)
        backend.ack(backend.claim(a_claim())[0])
        clock.advance(1)

        _walk(backend, {State.COMPLETED: clock.micros()}, 500)

        assert backend.nack(lease, 0).gone


@needs("inspection")
class TombstonePruneContract:
    @pytest.fixture
    def tombstones(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))
        backend.settle([Settlement.ack(lease, keep=False) for lease in leases])
        return [lease.envelope.id for lease in leases]

    def test_tombstones_stay_for_their_ten_minutes(self, backend, clock, tombstones):
        clock.advance(TOMBSTONE - timedelta(seconds=1))

        _walk(backend, {State.COMPLETED: clock.micros()}, 500)

        assert [backend.get(job_id) is not None for job_id in tombstones] == [True] * 3

    def test_tombstones_go_after_their_ten_minutes_whatever_the_cutoffs(self, backend, clock, tombstones):
        clock.advance(TOMBSTONE + timedelta(seconds=1))

        _walk(backend, {}, 2)

        assert [backend.get(job_id) for job_id in tombstones] == [None] * 3
