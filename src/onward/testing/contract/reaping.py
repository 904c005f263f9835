"""Reaping: leases that had begun come back with a crash, the others with an interruption."""

from __future__ import annotations

import pytest

from onward.backend import Backend, Lease, Settlement
from onward.base.clock import SECOND
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["CrashesContract", "InterruptionsContract", "ReapedContract"]


CAUSE = "killed by signal 9"


class ReapedContract:
    def test_a_taken_back_lease_is_reported_in_full(self, backend):
        lease = a_lease(backend, queue="mail", job="send", owner="dead")

        (reaped,) = backend.reap(owner="dead", cause="killed by signal 9")

        assert (reaped.id, reaped.queue, reaped.job, reaped.token) == (lease.envelope.id, "mail", "send", lease.token)
        assert (reaped.to, reaped.crashed, reaped.crashes) == (State.RETRYABLE, True, 1)
        assert reaped.cause == "killed by signal 9"

    @needs("sessions")
    def test_a_sweep_by_expiry_names_a_cause_too(self, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(31)

        (reaped,) = backend.reap()

        assert reaped.cause

    def test_a_lease_that_had_not_begun_is_reported_as_unharmed(self, backend):
        a_lease(backend)

        (reaped,) = backend.reap(owner="worker", started=())

        assert (reaped.to, reaped.crashed, reaped.crashes) == (State.AVAILABLE, False, 0)

    @needs("sessions")
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


def _by_reaping(backend: Backend, lease: Lease, cause: str) -> State:
    (reaped,) = backend.reap(owner=lease.owner, cause=cause)
    return reaped.to


def _by_settling(backend: Backend, lease: Lease, cause: str) -> State | None:
    (answer,) = backend.settle([Settlement.crashed(lease, cause)])
    assert answer.applied
    return answer.state


# A process died with all it held; or the own process of a single job died, and its worker settles that.
either_way = pytest.mark.parametrize("crash", [_by_reaping, _by_settling], ids=["reaped", "settled"])


@needs("inspection")
@pytest.mark.promise("S8", "F15")
class CrashesContract:
    @pytest.mark.promise("S9", "F04")
    @either_way
    def test_a_crash_leaves_the_attempts_as_they_were(self, backend, crash):
        backend.nack(a_lease(backend), 0)
        (lease,) = backend.claim(a_claim())

        crash(backend, lease, CAUSE)

        stored = backend.get(lease.envelope.id)
        assert (stored.attempts, stored.crashes, stored.interruptions) == (1, 1, 0)

    @either_way
    def test_the_same_attempt_number_can_run_again_after_a_crash(self, backend, crash):
        crash(backend, a_lease(backend), CAUSE)

        (again,) = backend.claim(a_claim())

        assert (again.attempts, again.crashes) == (0, 1)

    @either_way
    def test_a_crash_is_recorded_with_its_cause(self, backend, clock, crash):
        clock.advance(5)
        lease = a_lease(backend)

        crash(backend, lease, CAUSE)

        (run,) = backend.get(lease.envelope.id).runs
        assert (run.move, run.to, run.attempt, run.at) == ("crashed", State.RETRYABLE, 1, clock.micros())
        assert CAUSE in f"{run.failure.kind} {run.failure.message}"
        assert run.owner == lease.owner

    @either_way
    def test_a_first_crash_is_due_at_once(self, backend, clock, crash):
        clock.advance(5)
        lease = a_lease(backend)

        assert crash(backend, lease, CAUSE) is State.RETRYABLE

        stored = backend.get(lease.envelope.id)
        assert (stored.state, stored.available_at) == (State.RETRYABLE, clock.micros())

    @either_way
    def test_from_the_second_crash_on_the_pause_doubles_up_to_ten_minutes(self, backend, clock, crash):
        lease = a_lease(backend, max_crashes=99)
        pauses = []

        for _ in range(10):
            crash(backend, lease, CAUSE)
            due = backend.get(lease.envelope.id).available_at
            pauses.append((due - clock.micros()) / SECOND)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        assert pauses == [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]

    @either_way
    def test_hundreds_of_crashes_do_not_overflow(self, backend, clock, crash):
        lease = a_lease(backend, max_crashes=10_000)

        for _ in range(80):
            crash(backend, lease, CAUSE)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        assert lease.crashes == 80

    @pytest.mark.promise("F05")
    @either_way
    def test_a_job_that_crashes_too_often_is_discarded_and_says_why(self, backend, clock, crash):
        lease = a_lease(backend, max_crashes=3)
        for _ in range(2):
            crash(backend, lease, CAUSE)
            clock.advance(600)
            (lease,) = backend.claim(a_claim())

        to = crash(backend, lease, "killed by the kernel")

        stored = backend.get(lease.envelope.id)
        assert to is State.DISCARDED
        assert (stored.state, stored.crashes, stored.finished_at) == (State.DISCARDED, 3, clock.micros())
        assert stored.reason.startswith("crashed 3 times: ")
        assert "killed by the kernel" in stored.reason
        assert [run.to for run in stored.runs] == [State.RETRYABLE, State.RETRYABLE, State.DISCARDED]

    @pytest.mark.promise("F05")
    @either_way
    def test_the_envelope_says_how_many_crashes_are_too_many(self, backend, crash):
        lease = a_lease(backend, max_crashes=1)

        assert crash(backend, lease, CAUSE) is State.DISCARDED

        stored = backend.get(lease.envelope.id)
        assert stored.state is State.DISCARDED
        assert stored.reason.startswith("crashed 1 time: ")

    @either_way
    def test_a_job_that_was_asked_to_cancel_is_cancelled_by_its_crash(self, backend, crash):
        lease = a_lease(backend, max_crashes=1)
        backend.cancel([lease.envelope.id], "not wanted")

        assert crash(backend, lease, CAUSE) is State.CANCELLED

        stored = backend.get(lease.envelope.id)
        assert (stored.state, stored.reason, stored.crashes) == (State.CANCELLED, "not wanted", 1)
        assert [(run.move, run.to) for run in stored.runs] == [("crashed", State.CANCELLED)]

    def test_a_crash_that_was_settled_leaves_its_neighbours_running(self, backend):
        backend.enqueue(some_envelopes(2))
        culprit, neighbour = backend.claim(a_claim(limit=2))

        _by_settling(backend, culprit, CAUSE)

        assert backend.ack(neighbour).applied

    def test_a_crash_that_was_reaped_and_is_settled_late_counts_once(self, backend):
        lease = a_lease(backend)
        _by_reaping(backend, lease, CAUSE)

        (answer,) = backend.settle([Settlement.crashed(lease, CAUSE)])

        assert (answer.already_applied, answer.state) == (True, State.RETRYABLE)
        assert backend.get(lease.envelope.id).crashes == 1


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
