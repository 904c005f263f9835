"""Signals: the first value stays, and the job that waits for it is woken, whichever comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onward.backend import Lease, Note, Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_id, at_once, ids, micros
from onward.testing.contract.capabilities import needs
from onward.testing.contract.fencing import LostLease, however_it_was_lost
from onward.testing.contract.stage import FAR, Stage

__all__ = ["SignalsContract", "WaitingForSignalsContract"]

RACES = 20

every_finished_state = pytest.mark.parametrize("state", sorted(FINISHED))


def _written(backend: Any, job_id: str) -> dict[str, bytes]:
    return {note.name: note.value for note in backend.notes(job_id)}


def _waiting(backend: Any, name: str = "go", delay: float = FAR, **envelope: Any) -> Lease:
    """Return a job that waits for a signal, by the lease that it had."""
    lease = a_lease(backend, **envelope)
    (answer,) = backend.settle([Settlement.snooze(lease, delay, awaits=name)])
    assert (answer.applied, answer.state) == (True, State.SCHEDULED)
    return lease


def _at_once(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    return at_once(2, lambda number: (first, second)[number]())


def _race_of_two_signals(backend: Any, other: Any) -> None:
    lease = a_lease(backend)
    job_id = lease.envelope.id

    answers = _at_once(lambda: backend.signal(job_id, "go", b"0"), lambda: other.signal(job_id, "go", b"1"))

    (winner,) = [number for number, answer in enumerate(answers) if answer.stored]
    assert _written(backend, job_id) == {"!go": b"%d" % winner}
    backend.ack(lease)


def _race_of_signal_and_snooze(backend: Any, other: Any) -> None:
    lease = a_lease(backend)
    job_id = lease.envelope.id

    _at_once(
        lambda: backend.settle([Settlement.snooze(lease, FAR, awaits="go")]),
        lambda: other.signal(job_id, "go", b"1"),
    )

    assert backend.get(job_id).state is State.AVAILABLE
    backend.ack(backend.claim(a_claim())[0])


@needs("inspection", "notes")
class SignalsContract:
    @pytest.mark.parametrize("state", [State.AVAILABLE, State.EXECUTING, State.RETRYABLE, State.SCHEDULED])
    def test_a_job_that_does_not_wait_for_it_keeps_the_signal(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)
        before = stage.stored()
        clock.advance(1)

        answer = backend.signal(stage.id, "go", b"1")

        assert (answer.state, answer.stored, answer.woken, answer.full) == (state, True, False, False)
        assert list(backend.notes(stage.id)) == [Note(name="!go", value=b"1", at=clock.micros())]
        assert stage.stored() == before

    @every_finished_state
    def test_a_finished_job_is_told_nothing(self, backend, clock, state):
        stage = Stage(backend, clock).bring(state)

        answer = backend.signal(stage.id, "go", b"1")

        assert (answer.state, answer.stored, answer.woken) == (state, False, False)
        assert list(backend.notes(stage.id)) == []

    def test_a_tombstone_is_told_nothing(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.ack(lease, keep=False)])

        answer = backend.signal(lease.envelope.id, "go", b"1")

        assert (answer.state, answer.stored) == (State.COMPLETED, False)

    def test_an_unknown_job_has_no_state(self, backend):
        job_id = an_id()

        answer = backend.signal(job_id, "go", b"1")

        assert (answer.state, answer.stored) == (None, False)
        assert list(backend.notes(job_id)) == []

    @pytest.mark.promise("S67")
    def test_the_first_value_stays(self, backend, clock):
        lease = a_lease(backend)
        backend.signal(lease.envelope.id, "go", b"first")
        before = list(backend.notes(lease.envelope.id))
        clock.advance(1)

        answer = backend.signal(lease.envelope.id, "go", b"second")

        assert (answer.state, answer.stored) == (State.EXECUTING, False)
        assert list(backend.notes(lease.envelope.id)) == before

    def test_again_overwrites_the_value_and_keeps_its_time(self, backend, clock):
        lease = a_lease(backend)
        backend.signal(lease.envelope.id, "go", b"first")
        first = clock.micros()
        clock.advance(1)

        answer = backend.signal(lease.envelope.id, "go", b"second", again=True)

        assert answer.stored
        assert list(backend.notes(lease.envelope.id)) == [Note(name="!go", value=b"second", at=first)]

    @pytest.mark.promise("S67")
    def test_of_two_signals_at_once_one_is_stored(self, backend, open_client):
        other = open_client()
        for _ in range(RACES):
            _race_of_two_signals(backend, other)

    def test_a_job_with_as_many_notes_as_it_may_have_is_full(self, backend):
        lease = a_lease(backend)
        backend.note(lease, "=a", b"1")
        backend.signal(lease.envelope.id, "go", b"1")

        answer = backend.signal(lease.envelope.id, "stop", b"1", at_most=(2, 100))

        assert (answer.state, answer.stored, answer.full) == (State.EXECUTING, False, True)
        assert _written(backend, lease.envelope.id) == {"=a": b"1", "!go": b"1"}

    def test_a_job_with_as_many_bytes_as_it_may_have_is_full(self, backend):
        lease = a_lease(backend)
        backend.note(lease, "=a", b"x" * 60)

        assert backend.signal(lease.envelope.id, "go", b"y" * 41, at_most=(10, 100)).full
        assert backend.signal(lease.envelope.id, "go", b"y" * 40, at_most=(10, 100)).stored

    def test_a_value_that_is_overwritten_does_not_count(self, backend):
        lease = a_lease(backend)
        backend.signal(lease.envelope.id, "go", b"x" * 60)

        assert backend.signal(lease.envelope.id, "go", b"y" * 100, again=True, at_most=(1, 100)).stored
        assert backend.signal(lease.envelope.id, "go", b"y" * 101, again=True, at_most=(1, 100)).full
        assert _written(backend, lease.envelope.id) == {"!go": b"y" * 100}

    def test_a_name_that_is_there_is_not_told_that_the_job_is_full(self, backend):
        lease = a_lease(backend)
        backend.signal(lease.envelope.id, "go", b"1")

        answer = backend.signal(lease.envelope.id, "go", b"2", at_most=(1, 1))

        assert (answer.stored, answer.full) == (False, False)


@needs("inspection", "notes")
class WaitingForSignalsContract:
    def test_a_job_that_waits_says_for_what_while_it_is_scheduled(self, backend, clock):
        job_id = _waiting(backend, "go", 60).envelope.id

        stored = backend.get(job_id)
        assert (stored.state, stored.awaits, stored.available_at) == (
            State.SCHEDULED,
            "go",
            clock.micros() + micros(60),
        )
        assert [each.awaits for each in backend.list(Query(ids=(job_id,)))] == ["go"]

        backend.retry([job_id])
        assert backend.get(job_id).awaits is None
        (lease,) = backend.claim(a_claim())
        assert backend.get(job_id).awaits is None
        backend.nack(lease, FAR)
        assert backend.get(job_id).awaits is None

    @pytest.mark.promise("S67")
    def test_its_signal_makes_it_due_now(self, backend, clock):
        job_id = _waiting(backend, "go").envelope.id
        clock.advance(5)

        answer = backend.signal(job_id, "go", b"1")

        assert (answer.state, answer.stored, answer.woken) == (State.SCHEDULED, True, True)
        stored = backend.get(job_id)
        assert (stored.state, stored.available_at, stored.awaits) == (State.AVAILABLE, clock.micros(), None)
        assert ids(backend.claim(a_claim())) == [job_id]

    def test_another_signal_does_not_wake_it(self, backend):
        job_id = _waiting(backend, "go").envelope.id
        before = backend.get(job_id)

        for name in ("stop", "GO", "go ", ""):
            answer = backend.signal(job_id, name, b"1")
            assert (answer.stored, answer.woken) == (True, False)

        assert backend.get(job_id) == before

    def test_a_signal_wakes_only_its_job(self, backend):
        job_id, other = _waiting(backend, "go").envelope.id, _waiting(backend, "go").envelope.id

        backend.signal(job_id, "go", b"1")

        assert backend.get(other).state is State.SCHEDULED

    @pytest.mark.promise("S67")
    def test_a_signal_that_came_before_the_wait_makes_it_due_at_once(self, backend, clock):
        lease = a_lease(backend)
        backend.signal(lease.envelope.id, "go", b"1")
        clock.advance(5)

        (answer,) = backend.settle([Settlement.snooze(lease, FAR, awaits="go")])

        assert answer.applied
        stored = backend.get(lease.envelope.id)
        assert (stored.state, stored.available_at) == (State.AVAILABLE, clock.micros())

    @pytest.mark.promise("S67")
    def test_a_signal_against_the_snooze_that_waits_for_it(self, backend, open_client):
        other = open_client()
        for _ in range(RACES):
            _race_of_signal_and_snooze(backend, other)

    def test_it_is_due_when_its_time_is_over_without_a_signal(self, backend, clock):
        job_id = _waiting(backend, "go", 60).envelope.id

        clock.advance(59)
        assert backend.claim(a_claim()) == []
        clock.advance(1)
        assert ids(backend.claim(a_claim())) == [job_id]

    @pytest.mark.parametrize("move", ["snooze", "park"])
    def test_a_wait_is_over_with_the_next_snooze(self, backend, move):
        job_id = _waiting(backend, "go").envelope.id
        backend.retry([job_id])
        (lease,) = backend.claim(a_claim())
        moves = {"snooze": Settlement.snooze(lease, FAR), "park": Settlement.park(lease, FAR, "unknown")}
        backend.settle([moves[move]])

        assert backend.get(job_id).awaits is None
        assert not backend.signal(job_id, "go", b"1").woken
        assert backend.get(job_id).state is State.SCHEDULED

    def test_the_notes_of_a_snooze_are_written_with_it(self, backend, clock):
        lease = a_lease(backend)
        clock.advance(5)

        backend.settle([Settlement.snooze(lease, 60, notes=(("~nap", b"60"), ("~other", b"7")))])

        now = clock.micros()
        assert list(backend.notes(lease.envelope.id)) == [
            Note(name="~nap", value=b"60", at=now),
            Note(name="~other", value=b"7", at=now),
        ]

    def test_a_note_of_a_snooze_whose_name_is_there_stays_as_it_is(self, backend, clock):
        lease = a_lease(backend)
        backend.note(lease, "~nap", b"60")
        before = list(backend.notes(lease.envelope.id))
        clock.advance(5)

        (answer,) = backend.settle([Settlement.snooze(lease, 60, notes=(("~nap", b"7"),))])

        assert answer.applied
        assert list(backend.notes(lease.envelope.id)) == before

    @needs("fences_expired")
    @pytest.mark.promise("S64")
    @however_it_was_lost
    def test_a_snooze_without_the_lease_writes_no_notes(self, backend, clock, how):
        lease: Lease = getattr(LostLease(backend, clock), how)()
        before = backend.get(lease.envelope.id)

        (answer,) = backend.settle([Settlement.snooze(lease, 60, awaits="go", notes=(("~nap", b"60"),))])

        assert answer.lease_lost
        assert backend.get(lease.envelope.id) == before
        assert list(backend.notes(lease.envelope.id)) == []

    def test_a_snooze_that_is_turned_into_cancelled_writes_no_notes(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "not wanted")

        (answer,) = backend.settle([Settlement.snooze(lease, 60, awaits="go", notes=(("~nap", b"60"),))])

        assert (answer.applied, answer.state) == (True, State.CANCELLED)
        assert list(backend.notes(lease.envelope.id)) == []

    def test_waits_beside_other_moves_of_one_turn(self, backend, clock):
        """A lost lease among them, and signals that were there before."""
        leases = [a_lease(backend) for _ in range(4)]
        heard, unheard, failed, lost = leases
        backend.signal(heard.envelope.id, "go", b"1")
        backend.ack(lost)

        moves = [
            Settlement.snooze(heard, FAR, awaits="go", notes=(("~!go", b"1"),)),
            Settlement.snooze(unheard, FAR, awaits="go", notes=(("~!go", b"2"),)),
            Settlement.nack(failed, FAR),
            Settlement.snooze(lost, FAR, awaits="go", notes=(("~!go", b"3"),)),
        ]
        answers = backend.turn(a_turn(*moves)).settled

        assert [answer.applied for answer in answers] == [True, True, True, False]
        states = [backend.get(lease.envelope.id).state for lease in leases]
        assert states == [State.AVAILABLE, State.SCHEDULED, State.RETRYABLE, State.COMPLETED]
        assert _written(backend, heard.envelope.id) == {"!go": b"1", "~!go": b"1"}
        assert _written(backend, unheard.envelope.id) == {"~!go": b"2"}
        assert _written(backend, lost.envelope.id) == {}

    @pytest.mark.promise("S68")
    def test_a_job_that_waits_for_a_signal_is_cancelled_at_once(self, backend):
        job_id = _waiting(backend).envelope.id

        assert list(backend.cancel([job_id], "not wanted")) == [State.CANCELLED]
        assert backend.signal(job_id, "go", b"1").stored is False

    @pytest.mark.promise("S68")
    def test_a_job_that_waits_for_a_signal_expires(self, backend, clock):
        job_id = _waiting(backend, expires_at=clock.micros() + micros(60)).envelope.id
        clock.advance(60)

        assert backend.claim(a_claim()) == []
        assert backend.get(job_id).state is State.CANCELLED

    @pytest.mark.promise("S68")
    def test_a_waiting_job_that_is_made_due_can_wait_again(self, backend):
        job_id = _waiting(backend).envelope.id
        assert list(backend.retry([job_id])) == [True]
        (lease,) = backend.claim(a_claim())
        backend.settle([Settlement.snooze(lease, FAR, awaits="go")])

        assert backend.signal(job_id, "go", b"1").woken

    @needs("wakes")
    def test_a_signal_wakes_a_client_that_waits_for_work(self, backend, open_client):
        other = open_client()
        job_id = _waiting(backend).envelope.id

        def work() -> list[str]:
            for _ in range(60):
                if leases := other.claim(a_claim(owner="other")):
                    return ids(leases)
                other.wait(["default"], 1.0)
            return []

        found, answer = _at_once(work, lambda: backend.signal(job_id, "go", b"1"))

        assert (found, answer.woken) == ([job_id], True)
