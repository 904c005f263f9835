"""Transfer: a queue is reserved, jobs are restored with all that is stored of them, and removed only as they were read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from onward.backend import LimitRow, Query, Session, Settlement
from onward.contract.transfer import TRANSFERABLE, Attached, Confirmed, version_of
from onward.errors import BackendUnavailable, QueueReserved
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, a_lease, a_session, an_envelope, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["RemoveContract", "ReservationContract", "RestoreContract", "a_varied_queue"]

_MINE = "sends 1.1 to another store"


def a_varied_queue(backend: Any, clock: Any, queue: str = "default") -> None:
    """Enqueue jobs in every state that can be transferred, with keys, delays, priorities, runs and counters."""

    def claimed(**letter: Any) -> Any:
        backend.enqueue([an_envelope(queue=queue, priority=100, **letter)])
        (lease,) = backend.claim(a_claim(queues=(queue,)))
        return lease

    later = clock.micros() + 3_600_000_000
    backend.ack(claimed(idempotency_key="paid"))
    backend.settle([Settlement.nack(claimed(unique_key="nacked"), 60, failure=a_failure("no route"), duration_ms=7)])
    backend.settle([Settlement.nack(claimed(), 60, failure=a_failure("spent"), spent="gave up")])
    twice = claimed(max_retries=5)
    backend.progress(twice, b'{"step": 3}')
    backend.nack(twice)
    backend.abandon(backend.claim(a_claim(queues=(queue,)))[0], "gave up")
    backend.settle(
        [Settlement.abandon(claimed(unique_key="dead"), "no use", failure=a_failure("a 'quoted' \\ line\n"))]
    )
    backend.settle([Settlement.snooze(claimed(single_instance=True), 60, waits=2)])
    backend.park(claimed(expires_at=later), 60, "unknown")
    backend.release(claimed(idempotency_key="released"))
    claimed(max_crashes=9)
    backend.reap(owner="worker")
    backend.enqueue(
        [
            an_envelope(queue=queue, unique_key="waits", priority=-3),
            an_envelope(queue=queue, delay=90, expires_at=later),
            an_envelope(queue=queue, idempotency_key="paid", idempotency_ttl=77.0),
            an_envelope(queue=queue, payload={"text": "\x00 ünïcode '\\"}),
        ]
    )


def _read(backend: Any, *, reserve: bool = True) -> Any:
    """Return the jobs of the queue that can be transferred, and reserve it."""
    if reserve:
        assert backend.reserve("default", _MINE)
    return backend.list(Query(queue="default", states=TRANSFERABLE, limit=1000))


def _open(backend: Any) -> None:
    assert backend.reserve("default", None, was=_MINE)
    backend.pause("default", paused=False)


@needs("transferable", "inspection")
class ReservationContract:
    @pytest.mark.promise("A22")
    def test_no_worker_claims_from_a_reserved_queue_whatever_people_resume(self, backend):
        backend.enqueue([envelope := an_envelope(), other := an_envelope(queue="other")])
        assert backend.reserve("default", _MINE)

        with suppress(QueueReserved):
            backend.pause("default", paused=False)

        assert ids(backend.claim(a_claim(queues=("default", "other"), limit=5))) == [other.id]
        assert backend.get(envelope.id).state is State.AVAILABLE

    def test_who_resumes_a_reserved_queue_is_told_what_to_do(self, backend):
        backend.reserve("default", _MINE)

        with pytest.raises(QueueReserved, match=r"to another store.*run the same `onward move` again"):
            backend.pause("default", paused=False)

    def test_the_queue_stays_paused_when_the_reservation_ends(self, backend):
        backend.enqueue([envelope := an_envelope()])
        backend.reserve("default", _MINE)

        assert backend.reserve("default", None, was=_MINE)

        assert backend.claim(a_claim()) == []
        assert backend.pause("default", paused=False)
        assert ids(backend.claim(a_claim())) == [envelope.id]

    def test_a_reservation_changes_hands_only_as_it_was_seen(self, backend):
        assert not backend.reserve("default", "mine", was="another's")
        assert backend.reserve("default", "mine")
        assert not backend.reserve("default", "yours")
        assert not backend.reserve("default", None, was="yours")
        assert backend.reserve("default", "yours", was="mine")

        assert [(queue.name, queue.paused, queue.reserved_for) for queue in backend.queues()] == [
            ("default", True, "yours")
        ]

    def test_jobs_are_accepted_and_running_ones_go_on(self, backend):
        running = a_lease(backend)
        backend.reserve("default", _MINE)

        assert backend.enqueue([an_envelope()])[0].created
        assert backend.ack(running).applied
        assert [queue.reserved_for for queue in backend.queues()] == [_MINE]

    @needs("companion")
    def test_no_job_is_taken_from_a_reserved_queue_by_its_id(self, backend):
        backend.enqueue([envelope := an_envelope()])
        backend.reserve("default", _MINE)
        backend.open_session(a_session())

        assert backend.take("worker", [envelope.id]).leases == []


@needs("transferable", "inspection")
class RestoreContract:
    @pytest.mark.promise("A22")
    def test_a_restored_job_is_what_it_was(self, backend, clock):
        a_varied_queue(backend, clock)
        jobs = _read(backend)
        assert {job.state for job in jobs} == TRANSFERABLE
        assert sorted(backend.remove(_MINE, jobs, Attached())) == [job.id for job in jobs]

        assert [answer.stored for answer in backend.restore(_MINE, jobs, Attached())] == [True] * len(jobs)

        assert list(_read(backend, reserve=False)) == list(jobs)

    def test_a_restored_job_goes_on_as_if_nothing_had_happened(self, backend):
        lease = a_lease(backend, max_crashes=2)
        backend.reap(owner=lease.owner)
        jobs = _read(backend)
        backend.remove(_MINE, jobs, Attached())
        backend.restore(_MINE, jobs, Attached())
        _open(backend)

        (again,) = backend.claim(a_claim())

        assert (again.envelope.data, again.token, again.crashes) == (lease.envelope.data, lease.token + 1, 1)
        assert not backend.ack(lease).applied
        assert [each.to for each in backend.reap(owner=again.owner)] == [State.DISCARDED]

    def test_a_confirmed_key_is_restored(self, backend, clock):
        backend.ack(a_lease(backend, idempotency_key="paid", idempotency_ttl=600.0))
        backend.enqueue([envelope := an_envelope(idempotency_key="paid"), an_envelope(idempotency_key="new")])
        jobs = _read(backend)
        keys = [job.idempotency_key for job in jobs]
        ((key, confirmed),) = backend.attached(jobs).confirmed.items()

        assert (key, confirmed.until) == (keys[0], clock.micros() + 600_000_000)

        backend.remove(_MINE, jobs, Attached())
        clock.advance(601)
        backend.prune({})
        later = Confirmed(confirmed.job_id, confirmed.token, clock.micros() + 60_000_000)
        backend.restore(_MINE, jobs, Attached({key: later}))
        backend.restore(_MINE, jobs, Attached({key: Confirmed("another", 1, later.until - 1)}))
        _open(backend)
        lease = next(lease for lease in backend.claim(a_claim(limit=2)) if lease.envelope.id == envelope.id)
        assert (str(lease.hold), lease.holder) == ("done", confirmed.job_id)

    @pytest.mark.promise("A22")
    @pytest.mark.parametrize("keep", [True, False])
    def test_a_job_whose_id_is_known_is_left_alone(self, backend, keep):
        backend.enqueue(some_envelopes(3))
        done, running = backend.claim(a_claim(limit=2))
        backend.settle([Settlement.ack(done, keep=keep)])
        backend.reserve("default", _MINE)
        known = [backend.get(lease.envelope.id) for lease in (done, running)]
        (waiting,) = _read(backend, reserve=False)
        copies = [msgspec.structs.replace(waiting, id=job.id, attempts=7) for job in known]

        answers = backend.restore(_MINE, copies, Attached())

        assert [(answer.stored, answer.holder) for answer in answers] == [(False, None)] * 2
        assert [backend.get(job.id) for job in known] == known
        assert backend.ack(running).applied

    def test_a_unique_key_that_another_job_holds_is_named(self, backend):
        backend.enqueue([mine := an_envelope(unique_key="k"), free := an_envelope(unique_key="free")])
        jobs = _read(backend)
        backend.remove(_MINE, jobs, Attached())
        (holder,) = backend.enqueue([an_envelope(unique_key="k", queue="other")])

        answers = {answer.id: answer for answer in backend.restore(_MINE, jobs, Attached())}

        assert (answers[mine.id].stored, answers[mine.id].holder) == (False, holder.id)
        assert (answers[free.id].stored, answers[free.id].holder) == (True, None)
        assert backend.get(mine.id) is None
        assert not backend.enqueue([an_envelope(unique_key="free", queue="other")])[0].created

    @pytest.mark.promise("A22")
    def test_a_transfer_without_the_reservation_neither_restores_nor_removes(self, backend):
        backend.enqueue(some_envelopes(2))
        jobs = _read(backend)
        new = [msgspec.structs.replace(job, id=f"{job.id}-new") for job in jobs]
        backend.reserve("default", "sends 1.2 another run", was=_MINE)

        with suppress(BackendUnavailable):
            backend.restore(_MINE, new, Attached())
        with suppress(BackendUnavailable):
            backend.remove(_MINE, jobs, Attached())

        assert list(_read(backend, reserve=False)) == list(jobs)

    def test_a_transfer_without_the_reservation_is_told_what_to_do(self, backend):
        backend.enqueue([an_envelope()])
        jobs = _read(backend, reserve=False)

        with pytest.raises(BackendUnavailable, match="run the command again"):
            backend.restore(_MINE, jobs, Attached())
        with pytest.raises(BackendUnavailable, match="run the command again"):
            backend.remove(_MINE, jobs, Attached())

    @needs("lanes")
    @pytest.mark.promise("A22")
    def test_jobs_go_with_their_lanes_and_costs(self, backend):
        backend.enqueue(
            [
                an_envelope(lane=lane_of("render", "acmé/1"), cost=7),
                an_envelope(lane=lane_of("render", None), delay=60),
                an_envelope(lane=lane_of("", "k" * 200), cost=2),
                an_envelope(),
            ]
        )
        dead = next(lease for lease in backend.claim(a_claim(limit=4)) if lease.lane == lane_of("", "k" * 200))
        backend.abandon(dead, "gave up")
        backend.reap(owner="worker")
        backend.enqueue([an_envelope(lane=lane_of("render", "b"), cost=3)])
        jobs = _read(backend)
        assert {(job.lane, job.cost, job.state) for job in jobs} == {
            (lane_of("render", "acmé/1"), 7, State.RETRYABLE),
            (lane_of("render", "b"), 3, State.AVAILABLE),
            (lane_of("render", None), None, State.SCHEDULED),
            (lane_of("", "k" * 200), 2, State.DISCARDED),
            (None, None, State.RETRYABLE),
        }

        assert len(backend.remove(_MINE, jobs, Attached())) == 5
        assert all(answer.stored for answer in backend.restore(_MINE, jobs, Attached()))

        assert list(_read(backend, reserve=False)) == list(jobs)

    @needs("lanes")
    def test_a_restored_job_stands_in_the_line_of_its_lane(self, backend):
        lane = lane_of("render", "acme")
        limit = LimitRow(kind="key", name="render", declared=Bounds(running=1))
        backend.open_session(Session(owner="worker", limits=(limit,)))
        backend.enqueue([an_envelope(job="render", lane=lane) for _ in range(3)])
        jobs = _read(backend)
        backend.remove(_MINE, jobs, Attached())
        backend.restore(_MINE, jobs, Attached())
        _open(backend)

        (lease,) = backend.claim(a_claim(limit=3))

        assert lease.lane == lane
        assert backend.claim(a_claim(limit=3)) == []
        assert backend.ack(lease).applied
        assert [lease.lane for lease in backend.claim(a_claim(limit=3))] == [lane]

    @needs("lanes")
    def test_a_booked_job_is_restored_as_a_scheduled_one(self, backend, clock):
        lane = lane_of("render", "acme")
        limit = LimitRow(kind="key", name="render", declared=Bounds(rate=rate_of("1/min", 1)))
        backend.open_session(Session(owner="worker", limits=(limit,)))
        backend.enqueue([an_envelope(job="render", lane=lane) for _ in range(2)])
        (first,) = backend.claim(a_claim(limit=2))
        backend.ack(first)
        assert backend.claim(a_claim(limit=2)) == []
        jobs = _read(backend)
        assert len(backend.remove(_MINE, jobs, Attached())) == 1
        assert [answer.stored for answer in backend.restore(_MINE, jobs, Attached())] == [True]
        assert list(_read(backend, reserve=False)) == list(jobs)
        _open(backend)

        clock.advance(61)

        assert ids(backend.claim(a_claim(limit=2))) == [jobs[0].id]

    def test_many_are_restored_at_once(self, backend):
        backend.enqueue([an_envelope(unique_key=f"k{number}") for number in range(300)])
        jobs = _read(backend)
        backend.remove(_MINE, jobs, Attached())

        assert all(answer.stored for answer in backend.restore(_MINE, jobs, Attached()))

        assert backend.counts("default")[State.AVAILABLE] == 300

    def test_nothing_is_restored_and_removed_at_once(self, backend):
        assert (list(backend.restore(_MINE, [], Attached())), list(backend.remove(_MINE, [], Attached()))) == ([], [])
        assert backend.attached([]) == Attached()


@needs("transferable", "inspection")
class RemoveContract:
    @pytest.mark.promise("A22")
    def test_only_a_job_that_is_still_what_was_read_is_removed(self, backend):
        envelopes = some_envelopes(5, delay=60)
        retried, replayed, cancelled, same, claimed = names = [each.id for each in envelopes]
        backend.enqueue([envelopes[0], envelopes[2], envelopes[3]])
        backend.enqueue([an_envelope(id=replayed)])
        backend.abandon(backend.claim(a_claim())[0], "dead")
        backend.enqueue([an_envelope(id=claimed)])
        jobs = _read(backend, reserve=False)
        assert [job.id for job in jobs] == sorted(names)

        backend.claim(a_claim())
        backend.retry([retried])
        backend.replay(Query(ids=(replayed,)))
        backend.cancel([cancelled], "no")
        backend.reserve("default", _MINE)

        assert list(backend.remove(_MINE, jobs, Attached())) == [same]
        assert [job_id for job_id in names if backend.get(job_id) is None] == [same]

    def test_a_running_job_is_not_removed(self, backend):
        lease = a_lease(backend)
        backend.reserve("default", _MINE)
        running = backend.get(lease.envelope.id)

        assert list(backend.remove(_MINE, [running], Attached())) == []

        assert backend.ack(lease).applied

    def test_a_removed_job_leaves_no_trace(self, backend, clock):
        a_varied_queue(backend, clock)
        jobs = _read(backend)

        assert sorted(backend.remove(_MINE, jobs, Attached())) == [job.id for job in jobs]

        assert [backend.get(job.id) for job in jobs] == [None] * len(jobs)
        assert list(backend.remove(_MINE, jobs, Attached())) == []
        again = [an_envelope(id=jobs[0].id), an_envelope(unique_key="waits"), an_envelope(unique_key="nacked")]
        assert [answer.created for answer in backend.enqueue(again, retried=True)] == [True, True, True]
        assert backend.get(jobs[0].id).runs == ()

    def test_of_two_jobs_with_one_id_the_one_that_was_read_is_removed(self, backend):
        first = an_envelope(payload={"life": 1})
        backend.enqueue([first])
        backend.abandon(backend.claim(a_claim())[0], "dead")
        backend.enqueue([again := an_envelope(id=first.id, payload={"life": 2})])
        live = _read(backend)[0]
        assert (live.data, version_of(live)[0]) == (again.data, State.AVAILABLE)

        assert list(backend.remove(_MINE, [live], Attached())) == [first.id]

        (dead,) = _read(backend, reserve=False)
        assert (dead.data, dead.state) == (first.data, State.DISCARDED)

    @needs("notes")
    @pytest.mark.promise("A22")
    def test_a_job_that_was_signalled_since_it_was_read_is_not_removed(self, backend):
        backend.enqueue([envelope := an_envelope(), quiet := an_envelope()])
        backend.signal(envelope.id, "first", b"1")
        jobs = _read(backend)
        attached = backend.attached(jobs)
        backend.signal(envelope.id, "second", b"2")

        assert list(backend.remove(_MINE, jobs, attached)) == [quiet.id]

        assert [note.value for note in backend.notes(envelope.id)] == [b"1", b"2"]

    @needs("notes")
    def test_notes_and_what_is_awaited_go_with_the_job(self, backend, clock):
        lease = a_lease(backend)
        backend.settle([Settlement.snooze(lease, 3600, awaits="paid", notes=(("=step", b"done"),))])
        jobs = _read(backend)
        attached = backend.attached(jobs)
        notes = backend.notes(lease.envelope.id)

        assert list(backend.remove(_MINE, jobs, attached)) == [lease.envelope.id]
        assert list(backend.notes(lease.envelope.id)) == []
        assert [answer.stored for answer in backend.restore(_MINE, jobs, attached)] == [True]

        assert (list(_read(backend, reserve=False)), backend.notes(lease.envelope.id)) == (list(jobs), notes)
        assert backend.signal(lease.envelope.id, "paid", b"1").woken
