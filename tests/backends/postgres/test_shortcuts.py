"""What most callers bring takes a shorter way through the server.  It leads to the same place."""

import pytest

from onward.backend import Settlement
from onward.errors import BackendRefused
from onward.job.ran_by import RanBy
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, a_turn, an_envelope, an_id, ids, some_envelopes

MANY = 100
SHAPES = [
    {},
    {"queue": "mail", "job": "send", "max_crashes": 7, "priority": 5, "payload": {"to": "ünïcode"}},
    {"delay": 60},
    {"not_before": 1},
    {"not_before": 4_000_000_000_000_000},
    {"expires_at": 4_000_000_000_000_000},
    {"idempotency_key": "once", "idempotency_ttl": 3},
    {"single_instance": True},
]


@pytest.fixture
def stored(sql):
    """The rows of these jobs, but for what tells one job from the next."""
    columns = (
        "queue, state, rank, available_at, expires_at, delivery, max_crashes, enqueued_at, started_at, parked_since, "
        "idempotency_ttl, attempts, crashes, interruptions, waits, job, owner, cancel_reason, unique_key, key_held, "
        "idempotency_key, single_instance, spent, progress"
    )

    def rows(envelopes):
        found = {}
        for each in envelopes:
            ((sealed, *row),) = sql(f"SELECT sealed, {columns} FROM onward_jobs WHERE id = %s", each.id)
            assert sealed == each.data
            found[each.id] = row
        return [found[each.id] for each in envelopes]

    return rows


class TestEnqueueing:
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_a_job_is_stored_alike_alone_among_few_and_among_many(self, backend, stored, shape):
        alone, few, many = an_envelope(**shape), some_envelopes(2, **shape), some_envelopes(MANY, **shape)
        mixed = [an_envelope(**shape), an_envelope(queue="another")]

        for batch in ([alone], few, many, mixed):
            assert all(answer.created for answer in backend.enqueue(batch))

        (row,) = stored([alone])
        assert stored([*few, many[0], many[-1], mixed[0]]) == [row] * 5

    def test_jobs_of_every_kind_go_together(self, backend, stored):
        kinds = [an_envelope(**shape) for shape in SHAPES]
        others = [an_envelope(**shape) for shape in SHAPES]

        backend.enqueue(kinds + some_envelopes(MANY))
        for each in others:
            backend.enqueue([each])

        assert stored(kinds) == stored(others)

    @pytest.mark.parametrize("count", [1, 2, MANY])
    def test_a_job_that_is_there_already_keeps_no_other_from_being_stored(self, backend, count):
        batch = some_envelopes(count)
        there = batch[count // 2]
        backend.enqueue([there])

        answers = backend.enqueue(batch)

        assert {answer.id for answer in answers if not answer.created} == {there.id}
        assert backend.counts()[State.AVAILABLE] == count

    @pytest.mark.parametrize("count", [1, 2, MANY])
    def test_what_cannot_be_stored_is_refused_and_nothing_is_left_of_it(self, backend, count):
        with pytest.raises(BackendRefused):
            backend.enqueue([*some_envelopes(count - 1), an_envelope(priority=2**70)])

        assert backend.counts()[State.AVAILABLE] == 0
        assert backend.enqueue([an_envelope()])[0].created

    def test_many_jobs_keep_their_order(self, backend):
        batch = some_envelopes(MANY)
        backend.enqueue(batch)

        assert ids(backend.claim(a_claim(limit=MANY))) == ids(batch)


def a_lease_of(backend):
    (lease,) = backend.claim(a_claim())
    return lease


class TestSettling:
    def test_successes_and_failures_of_one_turn_are_answered_in_their_order(self, backend):
        backend.enqueue(some_envelopes(6))
        a, b, c, d, e, f = backend.claim(a_claim(limit=6))
        settlements = [
            Settlement.ack(a),
            Settlement.nack(b, 60, failure=a_failure()),
            Settlement.ack(c, b'"told"'),
            Settlement.ack(d),
            Settlement.abandon(e, "no use"),
            Settlement.ack(f, keep=False),
        ]

        settled = backend.turn(a_turn(*settlements)).settled

        assert all(answer.applied for answer in settled)
        states = [State.COMPLETED, State.RETRYABLE, *[State.COMPLETED] * 2, State.DISCARDED, State.COMPLETED]
        assert [answer.state for answer in settled] == states
        assert [backend.get(lease.envelope.id).state for lease in (a, b, c, d, e, f)] == states

    def test_of_many_successes_the_one_whose_lease_was_lost_is_told_apart(self, backend):
        backend.enqueue(some_envelopes(3))
        a, b, c = backend.claim(a_claim(limit=3))
        backend.turn(a_turn(Settlement.release(b)))

        result = backend.turn(a_turn(*map(Settlement.ack, (a, b, c)), claim=a_claim(limit=9)))

        assert [answer.applied for answer in result.settled] == [True, False, True]
        assert ids(result.leases) == [b.envelope.id]

    def test_a_job_can_succeed_whose_id_succeeded_before(self, backend):
        again = an_id()
        for expected in (1, 2):
            backend.enqueue([an_envelope(id=again), an_envelope()])
            leases = backend.claim(a_claim(limit=2))

            settled = backend.turn(a_turn(*map(Settlement.ack, leases))).settled

            assert [answer.applied for answer in settled] == [True, True]
            assert backend.counts()[State.COMPLETED] == 2 * expected - (expected == 2)

    def test_what_is_tried_again_at_once_can_be_claimed_by_the_same_turn(self, backend):
        backend.enqueue([an_envelope(), an_envelope(queue="mail")])
        leases = backend.claim(a_claim(limit=2, queues=("default", "mail")))
        nacks = [Settlement.nack(lease, failure=a_failure()) for lease in leases]

        result = backend.turn(a_turn(*nacks, claim=a_claim(limit=9)))

        assert [answer.state for answer in result.settled] == [State.RETRYABLE] * 2
        assert (result.promoted, ids(result.leases)) == (1, [leases[0].envelope.id])
        assert result.leases[0].attempts == 1
        assert backend.get(leases[1].envelope.id).state is State.RETRYABLE

    def test_of_many_failures_the_one_whose_lease_was_lost_is_told_apart(self, backend):
        backend.enqueue(some_envelopes(3))
        a, b, c = backend.claim(a_claim(limit=3))
        backend.turn(a_turn(Settlement.release(b)))

        result = backend.turn(a_turn(*(Settlement.nack(each, 60, failure=a_failure()) for each in (a, b, c))))

        assert [answer.applied for answer in result.settled] == [True, False, True]
        assert [len(backend.get(each.envelope.id).runs) for each in (a, b, c)] == [1, 0, 1]
        assert backend.counts()[State.RETRYABLE] == 2

    def test_of_many_failures_the_one_that_was_asked_to_cancel_is_cancelled(self, backend):
        backend.enqueue(some_envelopes(3))
        a, b, c = backend.claim(a_claim(limit=3))
        backend.cancel([b.envelope.id], "not wanted")

        settled = backend.turn(a_turn(*(Settlement.nack(each, 60, failure=a_failure()) for each in (a, b, c)))).settled

        assert [answer.state for answer in settled] == [State.RETRYABLE, State.CANCELLED, State.RETRYABLE]
        assert backend.get(b.envelope.id).reason == "not wanted"

    def test_a_failure_that_is_settled_again_is_recognised_and_counted_once(self, backend):
        backend.enqueue(some_envelopes(2))
        nacks = [Settlement.nack(each, 60, failure=a_failure()) for each in backend.claim(a_claim(limit=2))]

        first, again = backend.turn(a_turn(*nacks)).settled, backend.turn(a_turn(*nacks)).settled

        assert all(answer.applied for answer in first)
        assert all(answer.already_applied for answer in again)
        assert [backend.get(each.lease.envelope.id).attempts for each in nacks] == [1, 1]

    def test_a_job_can_fail_whose_id_failed_and_finished_before(self, backend):
        again = an_id()
        for _ in range(2):
            backend.enqueue([an_envelope(id=again)])
            lease = a_lease_of(backend)
            assert backend.turn(a_turn(Settlement.nack(lease, failure=a_failure()))).settled[0].applied
            assert backend.turn(a_turn(Settlement.ack(a_lease_of(backend)))).settled[0].applied

    @pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside another outcome"])
    def test_a_plain_failure_leaves_what_any_failure_leaves(self, backend, sql, alone):
        """A failure that is marked as spent goes the long way: but for the mark their rows are the same."""
        backend.enqueue(some_envelopes(3))
        short, long, other = backend.claim(a_claim(limit=3))
        details = {"failure": a_failure(), "duration_ms": 7, "by": RanBy("host", 4711, "2026.11")}
        beside = () if alone else (Settlement.snooze(other, 5),)

        backend.turn(a_turn(Settlement.nack(short, 60, **details), *beside))
        backend.turn(a_turn(Settlement.nack(long, 60, spent="given up", **details)))

        jobs = (
            "SELECT queue, state, rank, delivery, attempts, crashes, interruptions, waits, parked_since, owner, awaits"
        )
        runs = "SELECT token, attempt, move, state, duration_ms, owner, kind, message, traceback, fingerprint, ran_by"
        first, second = short.envelope.id, long.envelope.id
        for rows in (f"{jobs} FROM onward_jobs WHERE id = %s", f"{runs} FROM onward_attempts WHERE job_id = %s"):
            assert sql(rows, first) == sql(rows, second)
        due = "SELECT available_at - at FROM onward_jobs JOIN onward_attempts ON job_id = id WHERE id = %s"
        assert sql(due, first) == sql(due, second) == [(60_000_000,)]

    def test_in_a_paused_queue_it_is_left_where_it_is(self, backend):
        backend.enqueue([an_envelope()])
        (lease,) = backend.claim(a_claim())
        backend.pause("default")

        result = backend.turn(a_turn(Settlement.nack(lease, failure=a_failure()), claim=a_claim()))

        assert (result.promoted, result.leases) == (0, [])
        assert backend.get(lease.envelope.id).state is State.RETRYABLE
