"""Settling: the fate table of the contract, line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from onward.backend import Backend, Lease, Settlement, StoredJob
from onward.job.states import FINISHED, State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import SETTLEMENTS, a_claim, a_lease, micros
from onward.testing.contract.capabilities import needs

__all__ = ["FATES", "CountersContract", "FatesContract", "MarksContract"]


class ExpectedFate(NamedTuple):
    """One line of the table."""

    settlement: Callable[[Lease], Settlement]
    state: State
    attempts: int = 0
    interruptions: int = 0
    delay: float | None = None
    reason: str | None = None


FATES = {
    "ack": ExpectedFate(lambda lease: Settlement.ack(lease, b"1"), State.COMPLETED, attempts=1),
    "skip": ExpectedFate(lambda lease: Settlement.skip(lease, "why"), State.COMPLETED, reason="why"),
    "nack": ExpectedFate(lambda lease: Settlement.nack(lease, 2.5), State.RETRYABLE, attempts=1, delay=2.5),
    "nack at once": ExpectedFate(lambda lease: Settlement.nack(lease, 0), State.RETRYABLE, attempts=1, delay=0),
    "nack without a run": ExpectedFate(lambda lease: Settlement.nack(lease, 60, ran=False), State.RETRYABLE, delay=60),
    "abandon": ExpectedFate(lambda lease: Settlement.abandon(lease, "why"), State.DISCARDED, attempts=1, reason="why"),
    "abandon without a run": ExpectedFate(
        lambda lease: Settlement.abandon(lease, "why", ran=False), State.DISCARDED, reason="why"
    ),
    "snooze": ExpectedFate(lambda lease: Settlement.snooze(lease, 2.5), State.SCHEDULED, delay=2.5),
    "park": ExpectedFate(lambda lease: Settlement.park(lease, 60, "unknown"), State.SCHEDULED, delay=60),
    "cancelled": ExpectedFate(lambda lease: Settlement.cancelled(lease, "why"), State.CANCELLED, reason="why"),
    "cancelled after a run": ExpectedFate(
        lambda lease: Settlement.cancelled(lease, "why", ran=True), State.CANCELLED, attempts=1, reason="why"
    ),
    "release": ExpectedFate(Settlement.release, State.AVAILABLE, interruptions=1),
}

every_fate = pytest.mark.parametrize("fate", FATES.values(), ids=FATES.keys())
finishing = pytest.mark.parametrize(
    "fate", [fate for fate in FATES.values() if fate.state in FINISHED], ids=lambda fate: f"{fate.state}"
)
delaying = pytest.mark.parametrize(
    "fate", [fate for fate in FATES.values() if fate.delay is not None], ids=lambda fate: f"{fate.state}-{fate.delay}"
)


def _settled(backend, lease: Lease, fate: ExpectedFate) -> StoredJob:
    (answer,) = backend.settle([fate.settlement(lease)])
    assert answer.applied
    stored: StoredJob = backend.get(lease.envelope.id)
    return stored


@needs("inspection")
class FatesContract:
    @every_fate
    def test_a_settlement_is_applied_and_says_where_the_job_went(self, backend, fate):
        lease = a_lease(backend)

        (answer,) = backend.settle([fate.settlement(lease)])

        assert answer.applied
        assert answer.state is fate.state
        assert backend.get(lease.envelope.id).state is fate.state

    @pytest.mark.promise("S6", "S7", "S9", "F69", "F70")
    @every_fate
    def test_a_settlement_moves_the_counters_of_its_line_and_no_others(self, backend, fate):
        lease = a_lease(backend)

        stored = _settled(backend, lease, fate)

        assert (stored.attempts, stored.interruptions) == (fate.attempts, fate.interruptions)
        assert (stored.crashes, stored.delivery) == (0, lease.token)

    @pytest.mark.promise("S6", "S20")
    @every_fate
    def test_a_settlement_keeps_the_id_the_queue_and_the_sealed_bytes(self, backend, fate):
        lease = a_lease(backend, payload={"n": 1})

        stored = _settled(backend, lease, fate)

        assert (stored.id, stored.queue, stored.data) == (lease.envelope.id, lease.envelope.queue, lease.envelope.data)

    @delaying
    def test_a_job_put_back_is_due_after_its_delay(self, backend, clock, fate):
        lease = a_lease(backend)
        clock.advance(5)

        stored = _settled(backend, lease, fate)

        assert stored.available_at == clock.micros() + micros(fate.delay)

    def test_a_released_job_keeps_its_due_time(self, backend, clock):
        due = clock.micros()
        lease = a_lease(backend)
        clock.advance(5)

        backend.release(lease)

        assert backend.get(lease.envelope.id).available_at == due

    @finishing
    def test_a_finished_job_says_when_and_why(self, backend, clock, fate):
        lease = a_lease(backend)
        clock.advance(5)

        stored = _settled(backend, lease, fate)

        assert (stored.finished_at, stored.reason) == (clock.micros(), fate.reason)

    @pytest.mark.promise("S19")
    @finishing
    def test_a_finished_job_never_runs_again_by_itself(self, backend, clock, fate):
        lease = a_lease(backend)
        backend.settle([fate.settlement(lease)])

        clock.advance(86_400)
        backend.reap()

        assert backend.claim(a_claim(limit=9)) == []

    def test_an_ack_stores_the_result(self, backend):
        lease = a_lease(backend)

        backend.ack(lease, b'{"sent": true}')

        assert backend.get(lease.envelope.id).result == b'{"sent": true}'

    def test_an_ack_may_carry_a_reason(self, backend):
        lease = a_lease(backend)

        backend.settle([Settlement.ack(lease, reason="its result could not be stored")])

        assert backend.get(lease.envelope.id).reason == "its result could not be stored"


class CountersContract:
    @needs("inspection")
    @pytest.mark.promise("S7")
    def test_a_job_that_failed_once_and_then_succeeded_has_two_attempts(self, backend):
        lease = a_lease(backend)
        backend.nack(lease, 0)

        backend.ack(backend.claim(a_claim())[0])

        assert backend.get(lease.envelope.id).attempts == 2

    @pytest.mark.promise("S5", "S6")
    def test_each_failure_counts_one_attempt(self, backend):
        seen = [a_lease(backend)]
        for _ in range(3):
            backend.nack(seen[-1], 0)
            seen += backend.claim(a_claim())

        assert [lease.attempts for lease in seen] == [0, 1, 2, 3]

    @pytest.mark.promise("F69", "F70")
    def test_snoozes_parkings_and_releases_burn_no_attempt(self, backend, clock):
        lease = a_lease(backend)

        for name in ("snooze", "park", "release"):
            backend.settle([SETTLEMENTS[name](lease)])
            clock.advance(60)
            (lease,) = backend.claim(a_claim())

        assert lease.attempts == 0


class MarksContract:
    """Waits, parking and spent budgets: what a lease must know of the puttings-back before it."""

    def _next(self, backend: Backend, clock: FakeClock) -> Lease:
        clock.advance(100)
        (lease,) = backend.claim(a_claim())
        return lease

    def test_a_snooze_sets_the_waits(self, backend, clock):
        backend.settle([Settlement.snooze(a_lease(backend), 1, waits=4)])

        assert self._next(backend, clock).waits == 4

    def test_a_plain_snooze_forgets_the_waits(self, backend, clock):
        backend.settle([Settlement.snooze(a_lease(backend), 1, waits=4)])

        backend.settle([Settlement.snooze(self._next(backend, clock), 1)])

        assert self._next(backend, clock).waits == 0

    def test_a_snooze_forgets_the_parking(self, backend, clock):
        backend.park(a_lease(backend), 1, "unknown")

        backend.snooze(self._next(backend, clock), 1)

        assert self._next(backend, clock).parked_since is None

    def test_a_second_parking_counts_on_and_keeps_the_instant_of_the_first(self, backend, clock):
        first = clock.micros()
        backend.park(a_lease(backend), 1, "unknown")

        backend.park(self._next(backend, clock), 1, "unknown")

        again = self._next(backend, clock)
        assert (again.waits, again.parked_since) == (2, first)

    def test_a_nack_forgets_waits_and_parking(self, backend, clock):
        backend.park(a_lease(backend), 1, "unknown")

        backend.nack(self._next(backend, clock), 1)

        again = self._next(backend, clock)
        assert (again.waits, again.parked_since) == (0, None)

    def test_a_release_keeps_waits_and_parking(self, backend, clock):
        parked_at = clock.micros()
        backend.park(a_lease(backend), 1, "unknown")

        backend.release(self._next(backend, clock))

        again = self._next(backend, clock)
        assert (again.waits, again.parked_since) == (1, parked_at)

    @needs("inspection")
    def test_the_marks_can_be_seen_on_the_job(self, backend, clock):
        lease = a_lease(backend)

        backend.park(lease, 60, "unknown")

        stored = backend.get(lease.envelope.id)
        assert (stored.waits, stored.parked_since) == (1, clock.micros())

    @pytest.mark.promise("S22")
    def test_a_nack_keeps_why_the_budget_is_spent(self, backend, clock):
        backend.settle([Settlement.nack(a_lease(backend), 60, spent="gave up after 3 attempts")])

        assert self._next(backend, clock).spent == "gave up after 3 attempts"

    def test_a_job_is_not_spent_unless_it_was_said(self, backend, clock):
        backend.nack(a_lease(backend), 1)

        assert self._next(backend, clock).spent is None

    @pytest.mark.promise("S22")
    @pytest.mark.parametrize("move", ["nack", "snooze", "park", "release", "crashed"])
    def test_a_spent_job_stays_spent_however_it_is_put_back(self, backend, clock, move):
        backend.settle([Settlement.nack(a_lease(backend), 60, spent="gave up")])

        backend.settle([SETTLEMENTS[move](self._next(backend, clock))])

        assert self._next(backend, clock).spent == "gave up"

    def test_a_reaped_job_stays_spent(self, backend, clock):
        backend.settle([Settlement.nack(a_lease(backend), 60, spent="gave up")])

        backend.reap(owner=self._next(backend, clock).owner)

        assert self._next(backend, clock).spent == "gave up"

    def test_a_second_reason_for_being_spent_replaces_the_first(self, backend, clock):
        backend.settle([Settlement.nack(a_lease(backend), 60, spent="gave up")])

        backend.settle([Settlement.nack(self._next(backend, clock), 60, spent="given up again")])

        assert self._next(backend, clock).spent == "given up again"
