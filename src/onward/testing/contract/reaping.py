"""What becomes of leases that are taken back: a crash for what had begun, nothing worse than an interruption else."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import Backend
from onward.clock import SECOND
from onward.states import State
from onward.testing.contract.builders import a_claim, a_lease, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["CrashesContract", "InterruptionsContract", "ReapedContract"]


def _crash(backend: Backend, **options: Any) -> str:
    """A job that crashed once."""
    lease = a_lease(backend, owner="crashing", **options)
    backend.reap(owner="crashing", cause="killed by signal 9")
    return lease.envelope.id


class ReapedContract:
    def test_a_taken_back_lease_is_reported_in_full(self, backend):
        lease = a_lease(backend, queue="mail", job="send", owner="dead")

        (reaped,) = backend.reap(owner="dead", cause="killed by signal 9")

        assert (reaped.id, reaped.queue, reaped.job, reaped.token) == (lease.envelope.id, "mail", "send", lease.token)
        assert (reaped.to, reaped.crashed, reaped.crashes) == (State.RETRYABLE, True, 1)
        assert reaped.cause == "killed by signal 9"

    def test_a_sweep_by_expiry_names_a_cause_too(self, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(31)

        (reaped,) = backend.reap()

        assert reaped.cause

    def test_a_lease_that_had_not_begun_is_reported_as_unharmed(self, backend):
        a_lease(backend)

        (reaped,) = backend.reap(owner="worker", started=())

        assert (reaped.to, reaped.crashed, reaped.crashes) == (State.AVAILABLE, False, 0)

    def test_by_expiry_every_lease_counts_as_begun(self, backend, clock):
        backend.enqueue(some_envelopes(3))
        backend.claim(a_claim(limit=3, lease_for=30))
        clock.advance(31)

        assert [each.crashed for each in backend.reap()] == [True] * 3

    def test_when_nobody_says_what_had_begun_all_had(self, backend):
        backend.enqueue(some_envelopes(3))
        backend.claim(a_claim(limit=3))

        assert [each.crashed for each in backend.reap(owner="worker")] == [True] * 3

    def test_only_the_leases_named_as_begun_get_a_crash(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))

        reaped = backend.reap(owner="worker", started=[(leases[1].envelope.id, leases[1].token)])

        assert {each.id: each.crashed for each in reaped} == {
            leases[0].envelope.id: False,
            leases[1].envelope.id: True,
            leases[2].envelope.id: False,
        }

    def test_an_earlier_lease_that_had_begun_says_nothing_of_this_one(self, backend):
        first = a_lease(backend)
        backend.release(first)
        backend.claim(a_claim())

        (reaped,) = backend.reap(owner="worker", started=[(first.envelope.id, first.token)])

        assert not reaped.crashed


@needs("inspection")
@pytest.mark.promise("S8", "F15")
class CrashesContract:
    @pytest.mark.promise("S9", "F04")
    def test_a_crash_leaves_the_attempts_as_they_were(self, backend):
        backend.nack(a_lease(backend), 0)
        (lease,) = backend.claim(a_claim())

        backend.reap(owner="worker")

        stored = backend.get(lease.envelope.id)
        assert (stored.attempts, stored.crashes, stored.interruptions) == (1, 1, 0)

    def test_the_same_attempt_number_can_run_again_after_a_crash(self, backend):
        _crash(backend)

        (again,) = backend.claim(a_claim())

        assert again.attempts == 0

    def test_a_crash_is_recorded_with_its_cause(self, backend, clock):
        clock.advance(5)

        job_id = _crash(backend)

        (run,) = backend.get(job_id).runs
        assert (run.move, run.to, run.attempt, run.at) == ("crashed", State.RETRYABLE, 1, clock.micros())
        assert "killed by signal 9" in f"{run.failure.kind} {run.failure.message}"

    def test_a_first_crash_is_due_at_once(self, backend, clock):
        clock.advance(5)

        job_id = _crash(backend)

        stored = backend.get(job_id)
        assert (stored.state, stored.available_at) == (State.RETRYABLE, clock.micros())

    def test_from_the_second_crash_on_the_pause_doubles_up_to_ten_minutes(self, backend, clock):
        lease = a_lease(backend, max_crashes=99)
        pauses = []

        for _ in range(10):
            backend.reap(owner=lease.owner)
            due = backend.get(lease.envelope.id).available_at
            pauses.append((due - clock.micros()) / SECOND)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        assert pauses == [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]

    def test_hundreds_of_crashes_do_not_overflow(self, backend, clock):
        lease = a_lease(backend, max_crashes=10_000)

        for _ in range(80):
            backend.reap(owner=lease.owner)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        assert lease.crashes == 80

    @pytest.mark.promise("F05")
    def test_a_job_that_crashes_too_often_is_discarded_and_says_why(self, backend, clock):
        lease = a_lease(backend, max_crashes=3)
        for _ in range(2):
            backend.reap(owner=lease.owner)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        (reaped,) = backend.reap(owner=lease.owner, cause="killed by the kernel")

        stored = backend.get(lease.envelope.id)
        assert (reaped.to, reaped.crashes) == (State.DISCARDED, 3)
        assert (stored.state, stored.crashes, stored.finished_at) == (State.DISCARDED, 3, clock.micros())
        assert stored.reason.startswith("crashed")
        assert "killed by the kernel" in stored.reason
        assert [run.to for run in stored.runs] == [State.RETRYABLE, State.RETRYABLE, State.DISCARDED]

    @pytest.mark.promise("F05")
    def test_the_envelope_says_how_many_crashes_are_too_many(self, backend):
        job_id = _crash(backend, max_crashes=1)

        assert backend.get(job_id).state is State.DISCARDED

    def test_a_job_that_was_asked_to_cancel_is_cancelled_by_its_crash(self, backend):
        lease = a_lease(backend, max_crashes=1)
        backend.cancel([lease.envelope.id], "not wanted")

        (reaped,) = backend.reap(owner="worker")

        stored = backend.get(lease.envelope.id)
        assert reaped.to is State.CANCELLED
        assert (stored.state, stored.reason, stored.crashes) == (State.CANCELLED, "not wanted", 1)
        assert [(run.move, run.to) for run in stored.runs] == [("crashed", State.CANCELLED)]


@needs("inspection")
class InterruptionsContract:
    @pytest.mark.promise("S9", "F69")
    def test_a_lease_given_back_unstarted_burns_nothing(self, backend):
        lease = a_lease(backend)

        backend.reap(owner="worker", started=())

        stored = backend.get(lease.envelope.id)
        assert (stored.attempts, stored.crashes, stored.interruptions) == (0, 0, 1)
        assert stored.runs == ()

    def test_a_lease_given_back_unstarted_keeps_its_due_time(self, backend, clock):
        due = clock.micros()
        lease = a_lease(backend)
        clock.advance(5)

        backend.reap(owner="worker", started=())

        stored = backend.get(lease.envelope.id)
        assert (stored.state, stored.available_at) == (State.AVAILABLE, due)

    def test_a_job_that_was_asked_to_cancel_is_cancelled_when_it_is_given_back(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        (reaped,) = backend.reap(owner="worker", started=())

        stored = backend.get(lease.envelope.id)
        assert (reaped.to, reaped.crashed) == (State.CANCELLED, False)
        assert (stored.state, stored.reason, stored.interruptions) == (State.CANCELLED, "not wanted", 1)

    def test_many_interruptions_never_discard_a_job(self, backend):
        lease = a_lease(backend, max_crashes=1)

        for _ in range(9):
            backend.reap(owner="worker", started=())
            (lease,) = backend.claim(a_claim())

        assert lease.interruptions == 9
