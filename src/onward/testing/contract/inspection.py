"""Looking: one job, pages of jobs, counts, queues; and asking a waiting job to run now."""

from __future__ import annotations

import pytest

from onward.backend import Query, QueueState, Settlement
from onward.job.states import FINISHED, LIVE, State
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_envelope, an_id, ids, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["CountsContract", "GettingContract", "ListingContract", "RunNowContract"]

every_state = pytest.mark.parametrize("state", list(State))


def _one_of_each(backend, clock) -> dict[State, str]:
    """Bring a job into every state, each in a queue of its own so that none is claimed by accident."""
    return {state: Stage(backend, clock, queue=f"q-{state}").bring(state).id for state in State}


@needs("inspection")
class GettingContract:
    def test_an_unknown_id_is_none(self, backend):
        assert backend.get(an_id()) is None

    @every_state
    def test_a_job_is_found_in_every_state(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        assert stage.stored().state is state

    def test_a_job_is_shown_as_it_was_enqueued(self, backend, clock):
        envelope = an_envelope(queue="mail", job="send", priority=7, payload={"to": "you"}, enqueued_at=12_345)
        backend.enqueue([envelope])

        stored = backend.get(envelope.id)

        assert (stored.id, stored.queue, stored.job, stored.data) == (envelope.id, "mail", "send", envelope.data)
        assert (stored.priority, stored.enqueued_at) == (7, 12_345)

    def test_a_new_job_has_no_history(self, backend):
        backend.enqueue([envelope := an_envelope()])

        stored = backend.get(envelope.id)

        assert (stored.attempts, stored.delivery, stored.crashes, stored.interruptions, stored.waits) == (0, 0, 0, 0, 0)
        assert (stored.started_at, stored.finished_at, stored.owner, stored.parked_since) == (None, None, None, None)
        assert (stored.result, stored.reason, stored.progress, stored.runs) == (None, None, None, ())
        assert not stored.cancel_requested
        assert not stored.tombstone

    def test_a_tombstone_can_be_got(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.ack(lease, keep=False)])

        assert backend.get(lease.envelope.id).tombstone

    def test_many_are_got_at_once_as_each_is_shown_alone(self, backend, clock):
        everything = [*_one_of_each(backend, clock).values()]
        lease = a_lease(backend)
        backend.settle([Settlement.ack(lease, keep=False)])  # a tombstone among them
        asked = [lease.envelope.id, *everything, an_id(), everything[0]]

        found = backend.get_many(asked)

        assert len(found) == len(everything) + 1
        assert {job.id: job for job in found} == {job_id: backend.get(job_id) for job_id in set(asked) - {asked[-2]}}

    def test_more_than_a_page_is_got_at_once(self, backend):
        envelopes = some_envelopes(700)
        backend.enqueue(envelopes)

        assert {job.id for job in backend.get_many(ids(envelopes))} == set(ids(envelopes))

    def test_none_of_no_ids(self, backend):
        backend.enqueue([an_envelope()])

        assert list(backend.get_many([])) == []

    def test_another_client_sees_the_same(self, backend, open_client, clock):
        stage = Stage(backend, clock).bring(State.RETRYABLE)

        assert open_client().get(stage.id) == stage.stored()


@needs("inspection")
class ListingContract:
    def test_jobs_of_all_states_are_listed_in_the_order_of_their_ids(self, backend, clock):
        everything = _one_of_each(backend, clock)

        listed = backend.list(Query())

        assert [job.id for job in listed] == sorted(everything.values())
        assert {job.id: job.state for job in listed} == {job_id: state for state, job_id in everything.items()}

    def test_a_listed_job_is_shown_as_fully_as_a_single_one(self, backend, clock):
        everything = _one_of_each(backend, clock)

        assert list(backend.list(Query())) == [backend.get(job_id) for job_id in sorted(everything.values())]

    @every_state
    def test_a_state_can_be_asked_for(self, backend, clock, state):
        everything = _one_of_each(backend, clock)

        assert ids(backend.list(Query(states=frozenset({state})))) == [everything[state]]

    @pytest.mark.parametrize("states", [LIVE, FINISHED, {State.EXECUTING, State.DISCARDED}, set()])
    def test_several_states_can_be_asked_for(self, backend, clock, states):
        everything = _one_of_each(backend, clock)

        listed = backend.list(Query(states=frozenset(states)))

        assert ids(listed) == sorted(everything[state] for state in states)

    def test_a_queue_or_a_job_can_be_asked_for(self, backend):
        mail, news = an_envelope(queue="mail", job="send"), an_envelope(queue="news", job="send")
        other = an_envelope(queue="mail", job="sort")
        backend.enqueue([mail, news, other])

        assert ids(backend.list(Query(queue="mail"))) == ids([mail, other])
        assert ids(backend.list(Query(job="send"))) == ids([mail, news])
        assert ids(backend.list(Query(queue="mail", job="send"))) == [mail.id]

    def test_ids_can_be_asked_for_and_unknown_ones_are_left_out(self, backend, clock):
        everything = _one_of_each(backend, clock)
        wanted = (everything[State.COMPLETED], an_id(), everything[State.AVAILABLE])

        assert ids(backend.list(Query(ids=wanted))) == sorted([wanted[0], wanted[2]])

    def test_no_ids_list_nothing(self, backend):
        backend.enqueue([an_envelope()])

        assert list(backend.list(Query(ids=()))) == []

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
    def test_pages_show_every_job_once(self, backend, clock, newest_first, size):
        everything = sorted(_one_of_each(backend, clock).values(), reverse=newest_first)
        seen: list[str] = []

        while page := backend.list(Query(after=seen[-1] if seen else None, limit=size, newest_first=newest_first)):
            assert len(page) <= size
            seen += ids(page)

        assert seen == everything

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_of_filtered_jobs_leave_no_gap(self, backend, newest_first):
        wanted = some_envelopes(7, queue="mail")
        for envelope in wanted:
            backend.enqueue([envelope, an_envelope(queue="noise")])
        backend.settle([Settlement.ack(lease) for lease in backend.claim(a_claim(queues=("mail",), limit=3))])
        seen: list[str] = []

        while page := backend.list(
            Query(queue="mail", after=seen[-1] if seen else None, limit=2, newest_first=newest_first)
        ):
            seen += ids(page)

        assert seen == sorted(ids(wanted), reverse=newest_first)

    def test_tombstones_are_not_listed(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.ack(lease, keep=False)])

        assert list(backend.list(Query())) == []
        assert list(backend.list(Query(ids=(lease.envelope.id,)))) == []


@needs("inspection")
@pytest.mark.promise("S25")
class CountsContract:
    def test_an_empty_store_counts_nothing_in_every_state(self, backend):
        assert backend.counts() == dict.fromkeys(State, 0)

    def test_every_state_is_counted(self, backend, clock):
        _one_of_each(backend, clock)

        assert backend.counts() == dict.fromkeys(State, 1)

    @every_state
    def test_a_queue_is_counted_by_itself(self, backend, clock, state):
        _one_of_each(backend, clock)

        assert backend.counts(f"q-{state}") == dict.fromkeys(State, 0) | {state: 1}

    def test_an_unknown_queue_counts_nothing_in_every_state(self, backend):
        assert backend.counts("nowhere") == dict.fromkeys(State, 0)

    def test_tombstones_are_not_counted(self, backend):
        backend.settle([Settlement.ack(a_lease(backend), keep=False)])

        assert backend.counts() == dict.fromkeys(State, 0)

    def test_queues_with_live_jobs_are_named_in_order(self, backend):
        backend.enqueue([*some_envelopes(2, queue="b"), an_envelope(queue="a"), an_envelope(queue="c", delay=60)])
        backend.ack(backend.claim(a_claim(queues=("a",)))[0])
        backend.claim(a_claim(queues=("b",)))

        assert list(backend.queues()) == [
            QueueState(name="b", paused=False, live=2),
            QueueState(name="c", paused=False, live=1),
        ]

    def test_a_store_without_live_jobs_names_no_queues(self, backend):
        backend.ack(a_lease(backend))

        assert list(backend.queues()) == []


@needs("inspection")
@pytest.mark.promise("F75")
class RunNowContract:
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYABLE])
    def test_a_job_that_waits_for_its_time_can_be_run_now(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        clock.advance(5)

        answers = list(backend.retry([stage.id]))

        stored = stage.stored()
        assert answers == [True]
        assert (stored.state, stored.available_at) == (State.AVAILABLE, clock.micros())
        assert ids(backend.claim(a_claim(queues=("stage",)))) == [stage.id]

    @pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED, State.RETRYABLE}))
    def test_a_job_that_does_not_wait_is_left_as_it_is(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        before = stage.stored()

        assert list(backend.retry([stage.id])) == [False]
        assert stage.stored() == before

    def test_a_retry_that_comes_after_the_claim_takes_nothing_from_the_worker(self, backend, clock):
        backend.nack(a_lease(backend), 60)
        clock.advance(60)
        (lease,) = backend.claim(a_claim())

        assert list(backend.retry([lease.envelope.id])) == [False]
        assert backend.ack(lease).applied

    def test_a_retry_that_comes_before_the_worker_settles_again_is_told_apart(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 60)
        backend.retry([lease.envelope.id])

        (answer,) = backend.turn(a_turn(Settlement.nack(lease, 60))).settled

        assert answer.already_applied
        assert backend.get(lease.envelope.id).state is State.AVAILABLE

    @pytest.mark.promise("S9")
    def test_running_a_job_now_counts_no_attempt(self, backend, clock):
        stage = Stage(backend, clock).bring(State.RETRYABLE)
        before = stage.stored()

        backend.retry([stage.id])

        after = stage.stored()
        assert (after.attempts, after.crashes, after.interruptions) == (before.attempts, 0, 0)

    def test_many_jobs_asked_to_run_now_are_answered_in_that_order(self, backend, clock):
        waiting = Stage(backend, clock, queue="a").bring(State.SCHEDULED)
        running = Stage(backend, clock, queue="b").bring(State.EXECUTING)

        assert list(backend.retry([running.id, an_id(), waiting.id])) == [False, False, True]
