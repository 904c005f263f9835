"""Records of runs, tombstones and dead letters, which a settlement writes besides the job itself."""

from __future__ import annotations

import pytest

from onward.backend import Settlement
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, a_lease, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.settling import FATES

__all__ = ["DeadLetterContract", "RunRecordsContract", "TombstoneContract"]


@needs("inspection")
class RunRecordsContract:
    @pytest.mark.parametrize(
        "settlement",
        [
            lambda lease: Settlement.nack(lease, 1, failure=a_failure("told"), duration_ms=7),
            lambda lease: Settlement.abandon(lease, "why", failure=a_failure("told"), duration_ms=7),
            lambda lease: Settlement.cancelled(lease, "why", ran=True, failure=a_failure("told"), duration_ms=7),
            lambda lease: Settlement.ack(lease, b"1", failure=a_failure("told"), duration_ms=7),
        ],
        ids=["nack", "abandon", "cancelled", "ack"],
    )
    @pytest.mark.promise("S21")
    def test_a_failure_is_recorded_with_the_run_it_ended(self, backend, clock, settlement):
        lease = a_lease(backend)
        clock.advance(5)

        backend.settle([settlement(lease)])

        (run,) = backend.get(lease.envelope.id).runs
        assert run.failure == a_failure("told")
        assert (run.token, run.attempt, run.at, run.duration_ms) == (lease.token, 1, clock.micros(), 7)
        assert (run.move, run.owner) == (settlement(lease).move, lease.owner)

    def test_each_run_tells_which_session_ran_it(self, backend):
        first = a_lease(backend, owner="one")
        backend.settle([Settlement.nack(first, 0, failure=a_failure())])
        (second,) = backend.claim(a_claim(owner="two"))

        backend.settle([Settlement.abandon(second, "gave up", failure=a_failure())])

        assert [run.owner for run in backend.get(first.envelope.id).runs] == ["one", "two"]

    def test_a_success_with_a_failure_on_record_is_a_success(self, backend):
        told, plain = a_lease(backend), a_lease(backend)

        ack = Settlement.ack(told, b"1", failure=a_failure("late"), duration_ms=7)
        answers = backend.settle([ack, Settlement.ack(plain, b"2")])

        assert [answer.state for answer in answers] == [State.COMPLETED, State.COMPLETED]
        stored = [backend.get(lease.envelope.id) for lease in (told, plain)]
        assert [(job.result, job.attempts, len(job.runs)) for job in stored] == [(b"1", 1, 1), (b"2", 1, 0)]
        assert backend.settle([ack])[0].already_applied

    def test_a_nack_is_recorded_even_without_a_failure(self, backend):
        lease = a_lease(backend)

        backend.nack(lease, 1)

        assert [(run.move, run.attempt) for run in backend.get(lease.envelope.id).runs] == [("nack", 1)]

    @pytest.mark.parametrize(
        "name", ["ack", "skip", "abandon", "abandon without a run", "snooze", "park", "cancelled", "release"]
    )
    def test_a_settlement_without_a_failure_leaves_no_record(self, backend, name):
        lease = a_lease(backend)

        backend.settle([FATES[name].settlement(lease)])

        assert backend.get(lease.envelope.id).runs == ()

    @pytest.mark.promise("S21")
    def test_a_discarded_job_keeps_the_record_of_every_failed_run(self, backend):
        first = a_lease(backend)
        backend.settle([Settlement.nack(first, 0, failure=a_failure("one"))])
        (second,) = backend.claim(a_claim())
        backend.settle([Settlement.nack(second, 0, failure=a_failure("two"))])
        (third,) = backend.claim(a_claim())

        backend.settle([Settlement.abandon(third, "gave up", failure=a_failure("three"))])

        stored = backend.get(first.envelope.id)
        assert [run.failure.message for run in stored.runs] == ["one", "two", "three"]
        assert [run.attempt for run in stored.runs] == [1, 2, 3]
        assert stored.reason == "gave up"

    def test_a_run_that_was_snoozed_in_between_does_not_change_the_attempt_number(self, backend, clock):
        backend.snooze(a_lease(backend), 1)
        clock.advance(1)
        (lease,) = backend.claim(a_claim())

        backend.nack(lease, 1)

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.token, run.attempt) == (lease.token, 1)


@needs("inspection")
class TombstoneContract:
    def test_an_ack_that_keeps_nothing_leaves_a_tombstone_without_payload_and_result(self, backend):
        lease = a_lease(backend, payload={"secret": "xyzzy"})

        backend.settle([Settlement.ack(lease, b'"xyzzy"', keep=False)])

        stored = backend.get(lease.envelope.id)
        assert stored.tombstone
        assert stored.state is State.COMPLETED
        assert stored.result is None
        assert b"xyzzy" not in stored.data

    def test_an_ack_that_keeps_its_job_leaves_no_tombstone(self, backend):
        lease = a_lease(backend)

        backend.ack(lease)

        assert not backend.get(lease.envelope.id).tombstone


@pytest.mark.promise("S22", "S23")
class DeadLetterContract:
    def test_an_abandoned_job_stores_its_dead_letter_in_the_same_write(self, backend):
        lease = a_lease(backend)
        letter = an_envelope(queue="failed")

        result = backend.settle([Settlement.abandon(lease, "gave up", dead_letter=letter)])

        assert result[0].applied
        assert ids(backend.claim(a_claim(queues=("failed",)))) == [letter.id]

    def test_a_settlement_of_a_lost_lease_stores_no_dead_letter(self, backend):
        lease = a_lease(backend)
        backend.reap(owner="worker", started=())
        backend.claim(a_claim(owner="other"))

        backend.settle([Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="failed"))])

        assert backend.claim(a_claim(queues=("failed",))) == []

    def test_a_repeated_abandon_stores_its_dead_letter_once(self, backend):
        lease = a_lease(backend)
        abandon = Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="failed"))
        backend.settle([abandon])
        (letter,) = backend.claim(a_claim(queues=("failed",)))
        backend.ack(letter)

        backend.settle([abandon])

        assert backend.claim(a_claim(queues=("failed",))) == []

    @needs("knows_ids")
    def test_a_dead_letter_that_is_there_already_does_not_hurt(self, backend):
        lease = a_lease(backend)
        letter = an_envelope(queue="failed")
        backend.enqueue([letter])

        (answer,) = backend.settle([Settlement.abandon(lease, "gave up", dead_letter=letter)])

        assert answer.applied
        assert len(backend.claim(a_claim(queues=("failed",), limit=9))) == 1

    @needs("inspection")
    def test_a_job_that_was_asked_to_cancel_leaves_no_dead_letter(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        backend.settle([Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="failed"))])

        assert backend.claim(a_claim(queues=("failed",))) == []

    @needs("delays")
    def test_a_dead_letter_may_be_due_later(self, backend, clock):
        backend.settle([Settlement.abandon(a_lease(backend), "x", dead_letter=an_envelope(queue="failed", delay=60))])

        early = backend.claim(a_claim(queues=("failed",)))
        clock.advance(60)
        due = backend.claim(a_claim(queues=("failed",)))

        assert (len(early), len(due)) == (0, 1)
