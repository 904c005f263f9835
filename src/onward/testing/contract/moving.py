"""Transfer: jobs at rest, copied with all that is stored of them, removed only as they were copied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onward.backend import Query, Settlement
from onward.contract.transfer import MOVABLE, Transit
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, a_lease, an_envelope, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["AcceptingContract", "WithholdingContract", "a_colourful_queue"]

_WAY = Transit("tag", "default").name


def a_colourful_queue(backend: Any, clock: Any, queue: str = "default") -> None:
    """Jobs in every state that can move, with keys, delays, priorities, runs and counters; and the queue paused."""

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
    backend.pause(queue)


def _withheld(backend: Any) -> Any:
    return backend.export(_WAY, backend.withhold("default", _WAY))


def _shown(backend: Any, queue: str) -> list[Any]:
    """Return what inspection shows of the jobs that can move, but for the queue."""
    jobs = backend.list(Query(queue=queue, states=MOVABLE, limit=1000))
    return [msgspec.structs.replace(job, queue="") for job in jobs]


@needs("movable", "inspection")
class WithholdingContract:
    @pytest.mark.promise("A22")
    def test_what_is_at_rest_is_handed_to_nobody(self, backend):
        backend.enqueue(some_envelopes(3))
        backend.pause("default")

        assert len(_withheld(backend)) == 3
        backend.pause("default", paused=False)

        assert backend.claim(a_claim(limit=5)) == []
        assert backend.counts(_WAY)[State.AVAILABLE] == 3

    def test_a_queue_that_is_open_keeps_its_jobs(self, backend):
        backend.enqueue(some_envelopes(2))

        assert list(backend.withhold("default", _WAY)) == []

        assert len(backend.claim(a_claim(limit=5))) == 2

    def test_what_runs_and_what_ended_stays(self, backend):
        running = a_lease(backend)
        backend.ack(a_lease(backend, owner="other"))
        backend.cancel([done := backend.enqueue([an_envelope()])[0].id], "no")
        backend.pause("default")

        assert _withheld(backend) == []

        assert backend.ack(running).applied
        assert backend.get(done).state is State.CANCELLED

    def test_pages_walk_the_ids(self, backend):
        envelopes = some_envelopes(5)
        backend.enqueue(envelopes)
        backend.pause("default")

        first = list(backend.withhold("default", _WAY, limit=3))
        second = list(backend.withhold("default", _WAY, after=first[-1], limit=3))

        assert first + second == sorted(each.id for each in envelopes)
        assert list(backend.withhold("default", _WAY, after=second[-1], limit=3)) == []

    def test_other_queues_stay_as_they_are(self, backend):
        backend.enqueue([mine := an_envelope(), other := an_envelope(queue="other")])
        backend.pause("default")

        assert [parcel.id for parcel in _withheld(backend)] == [mine.id]

        assert ids(backend.claim(a_claim(queues=("other",)))) == [other.id]

    def test_what_is_admitted_is_what_it_was(self, backend, clock):
        a_colourful_queue(backend, clock)
        before = _shown(backend, "default")
        parcels = _withheld(backend)

        assert backend.admit(_WAY, "default", [parcel.id for parcel in parcels]) == len(before)

        assert _shown(backend, "default") == before
        assert backend.admit(_WAY, "default", [parcel.id for parcel in parcels]) == 0

    def test_a_key_is_held_by_a_job_at_rest(self, backend):
        (holder,) = backend.enqueue([an_envelope(unique_key="k")])
        backend.pause("default")
        _withheld(backend)

        (rival,) = backend.enqueue([an_envelope(unique_key="k", queue="other")])

        assert (rival.created, rival.existing_id) == (False, holder.id)

    @pytest.mark.promise("A22")
    def test_only_what_is_still_as_it_was_copied_is_forgotten(self, backend, clock):
        envelopes = some_envelopes(4, delay=60)
        retried, replayed, cancelled, same = ids_of = [each.id for each in envelopes]
        backend.enqueue([envelopes[0], envelopes[2], envelopes[3]])
        backend.enqueue([an_envelope(id=replayed)])
        backend.abandon(backend.claim(a_claim())[0], "dead")
        backend.pause("default")
        parcels = _withheld(backend)
        assert [parcel.id for parcel in parcels] == sorted(ids_of)

        backend.retry([retried])
        backend.replay(Query(ids=(replayed,)))
        backend.cancel([cancelled], "no")

        assert list(backend.forget(_WAY, parcels)) == [same]
        assert [job_id for job_id in ids_of if backend.get(job_id) is None] == [same]
        assert [parcel.id for parcel in backend.export(_WAY, ids_of)] == sorted([retried, replayed])

    def test_what_is_not_at_rest_is_not_forgotten(self, backend):
        backend.enqueue(some_envelopes(2))
        backend.pause("default")
        parcels = _withheld(backend)
        backend.admit(_WAY, "default", [parcel.id for parcel in parcels])

        assert list(backend.forget(_WAY, parcels)) == []

        assert backend.counts("default")[State.AVAILABLE] == 2

    def test_what_is_forgotten_leaves_no_trace(self, backend, clock):
        a_colourful_queue(backend, clock)
        parcels = _withheld(backend)

        assert sorted(backend.forget(_WAY, parcels)) == [parcel.id for parcel in parcels]

        assert [backend.get(parcel.id) for parcel in parcels] == [None] * len(parcels)
        assert list(backend.forget(_WAY, parcels)) == []
        again = [an_envelope(id=parcels[0].id), an_envelope(unique_key="waits"), an_envelope(unique_key="nacked")]
        assert [answer.created for answer in backend.enqueue(again, retried=True)] == [True, True, True]
        assert backend.get(parcels[0].id).runs == ()


@needs("movable", "inspection")
class AcceptingContract:
    @pytest.mark.promise("A22")
    def test_a_job_comes_with_all_that_makes_it_what_it_is(self, backend, clock):
        a_colourful_queue(backend, clock)
        before = _shown(backend, "default")
        parcels = _withheld(backend)
        backend.forget(_WAY, parcels)

        assert [answer.stored for answer in backend.accept(_WAY, parcels)] == [True] * len(parcels)

        assert list(backend.export(_WAY, [parcel.id for parcel in parcels])) == list(parcels)
        backend.admit(_WAY, "default", [parcel.id for parcel in parcels])
        assert _shown(backend, "default") == before

    def test_it_lives_on_as_if_nothing_had_happened(self, backend, clock):
        lease = a_lease(backend, max_crashes=2)
        backend.reap(owner=lease.owner)
        backend.pause("default")
        parcels = _withheld(backend)
        backend.forget(_WAY, parcels)
        backend.accept(_WAY, parcels)
        backend.admit(_WAY, "default", [lease.envelope.id])
        backend.pause("default", paused=False)

        (again,) = backend.claim(a_claim())

        assert (again.envelope, again.token, again.crashes) == (lease.envelope, lease.token + 1, 1)
        assert not backend.ack(lease).applied
        assert [each.to for each in backend.reap(owner=again.owner)] == [State.DISCARDED]

    def test_a_key_that_was_confirmed_stays_so(self, backend, clock):
        backend.ack(a_lease(backend, idempotency_key="paid", idempotency_ttl=600.0))
        backend.enqueue([an_envelope(idempotency_key="paid")])
        backend.pause("default")
        (parcel,) = _withheld(backend)

        assert parcel.confirmed.until == clock.micros() + 600_000_000

        backend.forget(_WAY, [parcel])
        clock.advance(601)
        backend.prune({})
        later = msgspec.structs.replace(parcel.confirmed, until=clock.micros() + 60_000_000)
        backend.accept(_WAY, [msgspec.structs.replace(parcel, confirmed=later)])
        backend.admit(_WAY, "default", [parcel.id])
        backend.pause("default", paused=False)
        (lease,) = backend.claim(a_claim())
        assert (str(lease.hold), lease.holder) == ("done", parcel.confirmed.job_id)

    @pytest.mark.promise("A22")
    def test_a_copy_at_rest_is_replaced_by_a_newer_one(self, backend):
        backend.enqueue(some_envelopes(2, delay=60))
        backend.pause("default")
        parcels = _withheld(backend)

        changed = [msgspec.structs.replace(parcel, attempts=4, state=State.RETRYABLE) for parcel in parcels]
        assert [answer.stored for answer in backend.accept(_WAY, changed)] == [True, True]

        assert list(backend.export(_WAY, [parcel.id for parcel in parcels])) == changed

    @pytest.mark.parametrize("keep", [True, False])
    def test_a_job_that_is_known_here_needs_no_copy(self, backend, keep):
        backend.enqueue(envelopes := some_envelopes(3))
        backend.pause("default")
        parcels = _withheld(backend)
        backend.admit(_WAY, "default", [parcel.id for parcel in parcels])
        backend.pause("default", paused=False)
        done, running = backend.claim(a_claim(limit=2))
        backend.settle([Settlement.ack(done, keep=keep)])

        answers = backend.accept(_WAY, parcels)

        assert [(answer.stored, answer.there, answer.holder) for answer in answers] == [(False, True, None)] * 3
        assert list(backend.export(_WAY, [each.id for each in envelopes])) == []
        assert backend.get(done.envelope.id).state is State.COMPLETED
        assert backend.ack(running).applied

    def test_a_key_that_another_job_holds_is_named(self, backend):
        backend.enqueue([mine := an_envelope(unique_key="k"), free := an_envelope(unique_key="free")])
        lease = backend.claim(a_claim())[0]
        backend.settle([Settlement.nack(lease, 60, failure=a_failure())])
        backend.pause("default")
        parcels = _withheld(backend)
        backend.forget(_WAY, parcels)
        (holder,) = backend.enqueue([an_envelope(unique_key="k")])

        answers = {answer.id: answer for answer in backend.accept(_WAY, parcels)}

        assert (answers[mine.id].stored, answers[mine.id].there, answers[mine.id].holder) == (False, False, holder.id)
        assert answers[free.id].stored
        assert backend.get(mine.id) is None

    def test_many_go_at_once(self, backend):
        backend.enqueue(envelopes := [an_envelope(unique_key=f"k{number}") for number in range(300)])
        backend.pause("default")
        parcels = _withheld(backend)
        backend.forget(_WAY, parcels)

        assert all(answer.stored for answer in backend.accept(_WAY, parcels))

        assert backend.admit(_WAY, "default", [each.id for each in envelopes]) == 300
        assert backend.counts("default")[State.AVAILABLE] == 300

    def test_nothing_is_nothing(self, backend):
        assert list(backend.export(_WAY, [])) == []
        assert list(backend.accept(_WAY, [])) == []
        assert list(backend.forget(_WAY, [])) == []
        assert backend.admit(_WAY, "default", []) == 0
