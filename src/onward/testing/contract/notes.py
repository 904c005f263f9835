"""Notes: what a job writes down under its lease is there for its later runs, and goes when the job goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onward.backend import Lease, Note, Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import (
    a_claim,
    a_lease,
    a_session,
    an_envelope,
    an_id,
    at_once,
)
from onward.testing.contract.capabilities import needs
from onward.testing.contract.fencing import LostLease, however_it_was_lost
from onward.testing.contract.stage import Stage

__all__ = ["NotesContract"]

RACES = 20


def _written(backend: Any, job_id: str) -> dict[str, bytes]:
    return {note.name: note.value for note in backend.notes(job_id)}


def _race_of_note_and_reap(backend: Any, other: Any, queue: str) -> None:
    late = a_lease(backend, owner=f"late in {queue}", queue=queue)
    job_id = late.envelope.id

    def take_over() -> dict[str, bytes]:
        other.reap(owner=late.owner)
        while other.get(job_id).state is State.EXECUTING:  # a sweep passes over a row that is locked for the note
            other.reap(owner=late.owner)
        other.claim(a_claim(owner="fresh", queues=(queue,)))
        return _written(other, job_id)

    acts: list[Callable[[], Any]] = [lambda: backend.note(late, "=a", b"late"), take_over]
    stored, seen = at_once(2, lambda number: acts[number]())

    assert seen == ({"=a": b"late"} if stored else {})
    assert _written(backend, job_id) == seen


@needs("inspection", "notes")
class NotesContract:
    def test_a_note_is_kept_under_its_name_with_the_time_of_the_store(self, backend, clock):
        lease = a_lease(backend)
        clock.advance(5)

        assert backend.note(lease, "=b", b"2") is True
        assert backend.note(lease, "=a", b"1") is True

        now = clock.micros()
        assert list(backend.notes(lease.envelope.id)) == [
            Note(name="=a", value=b"1", at=now),
            Note(name="=b", value=b"2", at=now),
        ]

    def test_a_job_without_notes_has_none(self, backend):
        assert list(backend.notes(a_lease(backend).envelope.id)) == []
        assert list(backend.notes(an_id())) == []

    @pytest.mark.parametrize("name", ["=", "=a b", "=Ä\u20ac\U0001f600", "=" + "ü" * 200, "=a'\"\\%_;\n"])
    @pytest.mark.parametrize("value", [b"", b"\x00\xff\n", b"x" * 65_536])
    def test_any_name_and_any_bytes_come_back(self, backend, name, value):
        lease = a_lease(backend)
        backend.note(lease, name, value)

        assert _written(backend, lease.envelope.id) == {name: value}

    def test_names_that_differ_in_case_or_by_a_space_are_two(self, backend):
        lease = a_lease(backend)
        for name in ("=a", "=A", "=a ", "~a", "!a"):
            backend.note(lease, name, name.encode())

        assert _written(backend, lease.envelope.id) == {name: name.encode() for name in ("=a", "=A", "=a ", "~a", "!a")}

    def test_a_name_that_is_there_stays_and_the_repeat_is_told_that_it_is_stored(self, backend, clock):
        lease = a_lease(backend)
        backend.note(lease, "=a", b"first")
        before = list(backend.notes(lease.envelope.id))
        clock.advance(1)

        assert backend.note(lease, "=a", b"second") is True
        assert list(backend.notes(lease.envelope.id)) == before

    def test_two_jobs_keep_their_notes_apart(self, backend):
        one, other = a_lease(backend), a_lease(backend)
        backend.note(one, "=a", b"1")
        backend.note(other, "=a", b"2")

        assert _written(backend, one.envelope.id) == {"=a": b"1"}
        assert _written(backend, other.envelope.id) == {"=a": b"2"}

    @needs("fences_expired")
    @pytest.mark.promise("S64")
    @however_it_was_lost
    def test_a_note_without_the_lease_is_refused_and_changes_nothing(self, backend, clock, how):
        lease: Lease = getattr(LostLease(backend, clock), how)()

        assert backend.note(lease, "=a", b"1") is False
        assert list(backend.notes(lease.envelope.id)) == []

    def test_a_note_after_the_settlement_is_refused(self, backend):
        lease = a_lease(backend)
        backend.ack(lease)

        assert backend.note(lease, "=a", b"1") is False
        assert list(backend.notes(lease.envelope.id)) == []

    @pytest.mark.promise("S64")
    def test_a_late_run_does_not_overwrite_the_note_of_the_next(self, backend, open_client):
        other = open_client()
        late = a_lease(backend, owner="late")
        other.reap(owner="late")
        (fresh,) = other.claim(a_claim(owner="fresh"))

        assert other.note(fresh, "=a", b"fresh") is True
        assert backend.note(late, "=a", b"late") is False
        assert _written(backend, fresh.envelope.id) == {"=a": b"fresh"}

    @pytest.mark.promise("S64")
    def test_a_note_against_a_reap_and_the_next_run(self, backend, open_client):
        """Either the note came first and the next run sees it, or it is refused."""
        other = open_client()
        for number in range(RACES):
            _race_of_note_and_reap(backend, other, f"race-{number}")

    @pytest.mark.promise("S62")
    def test_notes_stay_when_the_run_ends(self, backend, clock):
        lease = a_lease(backend)
        backend.note(lease, "=nacked", b"1")
        backend.nack(lease)
        (lease,) = backend.claim(a_claim())
        backend.note(lease, "=released", b"2")
        backend.release(lease)
        (lease,) = backend.claim(a_claim(owner="dead"))
        backend.note(lease, "=crashed", b"3")
        backend.reap(owner="dead")
        (lease,) = backend.claim(a_claim(owner="old"))
        backend.note(lease, "=adopted", b"4")
        backend.open_session(a_session("new"), adopts="old")

        assert _written(backend, lease.envelope.id) == {
            "=adopted": b"4",
            "=crashed": b"3",
            "=nacked": b"1",
            "=released": b"2",
        }

    @pytest.mark.promise("S62")
    @pytest.mark.parametrize("fresh", [False, True])
    def test_a_replay_keeps_notes_unless_it_is_asked_for_a_fresh_start(self, backend, fresh):
        lease, other = a_lease(backend), a_lease(backend)
        for each in (lease, other):
            backend.note(each, "=a", b"1")
            backend.abandon(each, "gave up")

        backend.replay(Query(ids=(lease.envelope.id,)), fresh=fresh)

        assert _written(backend, lease.envelope.id) == ({} if fresh else {"=a": b"1"})
        assert _written(backend, other.envelope.id) == {"=a": b"1"}

    @needs("deduplicates")
    def test_a_job_that_cannot_be_replayed_keeps_its_notes(self, backend, clock):
        stage = Stage(backend, clock, unique_key="k").bring(State.EXECUTING)
        backend.note(stage.lease, "=a", b"1")
        backend.abandon(stage.lease, "gave up")
        backend.enqueue([an_envelope(unique_key="k")])

        assert backend.replay(Query(ids=(stage.id,)), fresh=True).ids == []
        assert _written(backend, stage.id) == {"=a": b"1"}

    def test_notes_of_a_finished_job_stay_until_it_is_removed(self, backend):
        lease, other = a_lease(backend), a_lease(backend)
        for each in (lease, other):
            backend.note(each, "=a", b"1")
            backend.ack(each)
        assert _written(backend, lease.envelope.id) == {"=a": b"1"}

        backend.purge(Query(ids=(lease.envelope.id,)))

        assert _written(backend, lease.envelope.id) == {}
        assert _written(backend, other.envelope.id) == {"=a": b"1"}

    def test_notes_go_with_a_pruned_job_and_with_a_tombstone(self, backend, clock):
        kept, tombstone, live = a_lease(backend), a_lease(backend), a_lease(backend)
        for each in (kept, tombstone, live):
            backend.note(each, "=a", b"1")
        backend.settle([Settlement.ack(kept), Settlement.ack(tombstone, keep=False)])
        clock.advance(601)

        backend.prune({state: clock.micros() for state in FINISHED})

        assert _written(backend, kept.envelope.id) == {}
        assert _written(backend, tombstone.envelope.id) == {}
        assert _written(backend, live.envelope.id) == {"=a": b"1"}

    @needs("emptying")
    def test_an_emptied_store_has_no_notes(self, backend):
        lease = a_lease(backend)
        backend.note(lease, "=a", b"1")

        backend.empty()

        assert list(backend.notes(lease.envelope.id)) == []
