"""Booking: jobs that are stored with a change of a schedule, and removed before they have begun."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onward.job.envelope import Envelope, Occurrence
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import PATIENCE, a_claim, a_lease, an_envelope, at_once, ids, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.schedules import a_change, a_schedule, the_schedule
from onward.testing.contract.stage import FAR, Stage

__all__ = ["BookingContract", "TakingBackContract", "an_occurrence"]

_LONG = 10 * PATIENCE  # a wait that only ends in time if it is woken
_TICK = Occurrence(name="nightly", tick=1_000_000, expression="@every 1s", overlap="allow")


def an_occurrence(**options: Any) -> Envelope:
    """Return a job of a schedule, like `an_envelope`."""
    return an_envelope(schedule=_TICK, **options)


@needs("schedules", "inspection")
class BookingContract:
    """Jobs that are stored with a change."""

    def test_jobs_are_stored_with_the_change(self, backend, clock):
        due, later = an_occurrence(), an_occurrence(not_before=clock.micros() + 60_000_000)

        assert backend.change_schedule(a_change(0, a_schedule(), envelopes=[due, later]))

        assert [backend.get(each.id).state for each in (due, later)] == [State.AVAILABLE, State.SCHEDULED]
        assert ids(backend.claim(a_claim(limit=9))) == [due.id]

    def test_a_job_is_claimed_when_its_tick_has_come(self, backend, clock):
        later = an_occurrence(not_before=clock.micros() + 60_000_000)
        backend.change_schedule(a_change(0, a_schedule(), envelopes=[later]))
        assert backend.claim(a_claim(limit=9)) == []

        clock.advance(60)

        assert ids(backend.claim(a_claim(limit=9))) == [later.id]

    def test_a_change_that_is_repeated_stores_nothing_twice(self, backend):
        change = a_change(0, a_schedule(), envelopes=some_envelopes(3, schedule=_TICK))
        backend.change_schedule(change)

        assert not backend.change_schedule(change)

        assert backend.counts()[State.AVAILABLE] == 3
        assert the_schedule(backend).version == 1

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE])
    def test_a_live_job_is_not_stored_again(self, backend, clock, state):
        known = Stage(backend, clock, queue="default", schedule=_TICK).bring(state)
        other = an_occurrence(queue="other")

        assert backend.change_schedule(a_change(0, a_schedule(), envelopes=[known.envelope, other]))

        assert known.state() is state
        assert sum(backend.counts().values()) == 2
        assert backend.get(other.id).state is State.AVAILABLE

    @pytest.mark.parametrize("state", sorted(FINISHED))
    def test_a_finished_job_is_not_stored_again(self, backend, clock, state):
        known = Stage(backend, clock, queue="default", schedule=_TICK).bring(state)
        other = an_occurrence(queue="other")

        assert backend.change_schedule(a_change(0, a_schedule(), envelopes=[known.envelope, other]))

        assert known.state() is state
        assert backend.claim(a_claim(limit=9)) == []
        assert backend.get(other.id).state is State.AVAILABLE

    @needs("deduplicates")
    def test_a_unique_key_that_is_held_keeps_a_booked_job_out(self, backend):
        holder, booked, other = an_occurrence(unique_key="k"), an_occurrence(unique_key="k"), an_occurrence()
        backend.enqueue([holder])

        assert backend.change_schedule(a_change(0, a_schedule(), envelopes=[booked, other]))

        assert backend.get(booked.id) is None
        assert sorted(ids(backend.claim(a_claim(limit=9)))) == sorted([holder.id, other.id])

    @needs("deduplicates")
    def test_a_booked_job_takes_the_key_of_one_that_is_taken_back(self, backend):
        old, new = an_occurrence(unique_key="k", delay=FAR), an_occurrence(unique_key="k", delay=FAR)
        backend.change_schedule(a_change(0, a_schedule(), envelopes=[old]))

        backend.change_schedule(a_change(1, a_schedule(), take_back=[old.id], envelopes=[new]))

        (rival,) = backend.enqueue([an_occurrence(unique_key="k")])
        assert rival.existing_id == new.id

    @needs("holds")
    def test_a_booked_job_is_held_up_by_its_key_as_any_other(self, backend):
        running = a_lease(backend, single_instance=True)
        booked = an_occurrence(single_instance=True)
        backend.change_schedule(a_change(0, a_schedule(), envelopes=[booked]))

        (lease,) = backend.claim(a_claim(owner="other"))

        assert (lease.envelope.id, lease.hold, lease.holder) == (booked.id, "busy", running.envelope.id)

    @needs("wakes")
    def test_a_job_that_is_booked_for_now_wakes_a_waiting_worker(self, backend, open_client):
        other = open_client()
        about_to_wait = threading.Event()

        def wait() -> None:
            about_to_wait.set()
            backend.wait(("default",), _LONG)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        assert about_to_wait.wait(PATIENCE)

        other.change_schedule(a_change(0, a_schedule(), envelopes=[an_occurrence()]))

        waiting.join(PATIENCE)
        assert not waiting.is_alive()


@needs("schedules", "inspection")
class TakingBackContract:
    """Removing jobs that have not begun."""

    def test_a_waiting_job_is_removed_without_a_trace(self, backend):
        later, due, kept = an_occurrence(delay=FAR), an_occurrence(), an_occurrence(delay=FAR)
        backend.enqueue([later, due, kept])

        taken = backend.take_back([due.id, later.id, due.id, "unknown"])

        assert sorted(taken) == sorted([later.id, due.id])
        assert [backend.get(each.id) for each in (later, due)] == [None, None]
        counts = backend.counts()
        assert (counts[State.SCHEDULED], sum(counts.values())) == (1, 1)
        assert backend.claim(a_claim(limit=9)) == []

    @needs("notes")
    def test_signals_of_a_job_that_is_taken_back_go_with_it(self, backend):
        booked, again = an_occurrence(delay=FAR), an_occurrence(delay=FAR)
        backend.enqueue([booked, again])
        for each in (booked, again):
            backend.signal(each.id, "go", b"1")

        backend.take_back([booked.id])

        assert (list(backend.notes(booked.id)), len(backend.notes(again.id))) == ([], 1)

    def test_taking_back_none_is_fine(self, backend):
        assert list(backend.take_back([])) == []

    def test_a_job_that_was_taken_back_can_be_stored_again(self, backend):
        first, second = an_occurrence(delay=FAR), an_occurrence(delay=FAR)
        backend.change_schedule(a_change(0, a_schedule(), envelopes=[first]))
        backend.take_back([first.id])

        again = an_occurrence(id=first.id, payload={"changed": True})
        assert backend.change_schedule(a_change(1, a_schedule(), envelopes=[again, second]))

        assert backend.get(first.id).data == again.data
        assert ids(backend.claim(a_claim(limit=9))) == [first.id]

    def test_a_change_takes_back_and_books_the_same_tick_anew(self, backend):
        old = an_occurrence(delay=FAR, payload={"n": 1}, idempotency_key="k", expires_at=4_000_000_000_000_000)
        new = an_occurrence(id=old.id, delay=FAR, payload={"n": 2})
        backend.change_schedule(a_change(0, a_schedule(), envelopes=[old]))

        assert backend.change_schedule(a_change(1, a_schedule(), take_back=[old.id], envelopes=[new]))

        assert backend.get(old.id).data == new.data
        assert sum(backend.counts().values()) == 1

    def test_deleting_a_schedule_takes_back_what_is_booked(self, backend):
        booked = some_envelopes(3, schedule=_TICK, delay=FAR)
        backend.change_schedule(a_change(0, a_schedule(), envelopes=booked))

        assert backend.change_schedule(a_change(1, None, take_back=ids(booked)))

        assert backend.schedules().rows == []
        assert sum(backend.counts().values()) == 0

    @pytest.mark.parametrize("state", [State.EXECUTING, State.RETRYABLE, *sorted(FINISHED)])
    def test_a_job_that_has_begun_stays(self, backend, clock, state):
        known = Stage(backend, clock, queue="default", schedule=_TICK).bring(state)
        backend.change_schedule(a_change(0, a_schedule()))
        before = known.stored()

        assert list(backend.take_back([known.id])) == []
        assert backend.change_schedule(a_change(1, None, take_back=[known.id]))

        assert known.stored() == before

    def test_a_job_that_was_given_back_has_begun(self, backend):
        lease = a_lease(backend)
        backend.release(lease)

        assert list(backend.take_back([lease.envelope.id])) == []

        assert ids(backend.claim(a_claim())) == [lease.envelope.id]

    def test_a_running_job_can_be_settled_after_it_was_asked_back(self, backend):
        lease = a_lease(backend)

        backend.take_back([lease.envelope.id])

        assert backend.ack(lease).applied

    def test_a_job_that_is_claimed_meanwhile_is_claimed_or_removed_and_never_both(self, backend, open_client):
        clients = [backend, *(open_client() for _ in range(3))]
        jobs = some_envelopes(60, schedule=_TICK)
        backend.enqueue(jobs)

        def act(number: int) -> list[str]:
            client = clients[number]
            if number % 2:
                return [job_id for each in jobs[::-1] for job_id in client.take_back([each.id])]
            claims = [client.claim(a_claim(owner=f"w{number}", limit=2)) for _ in range(25)]
            return [lease.envelope.id for leases in claims for lease in leases]

        found = at_once(4, act)

        claimed, removed = found[0] + found[2], found[1] + found[3]
        assert sorted(claimed + removed) == sorted(ids(jobs))
        assert {backend.get(job_id).state for job_id in claimed} <= {State.EXECUTING}
        assert [job_id for job_id in removed if backend.get(job_id) is not None] == []
