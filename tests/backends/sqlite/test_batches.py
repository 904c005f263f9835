"""Many jobs go through one statement: each keeps its own bytes, its own answer and its own fence."""

import threading

import msgspec
import pytest

from onward.backend import Enqueued, Settlement
from onward.backends.sqlite import claiming, enqueueing
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_turn, an_envelope, ids, some_envelopes


def with_data(envelope, data):
    return msgspec.structs.replace(envelope, data=data)


def claim_all(backend, count):
    return backend.claim(a_claim(limit=count))


class TestResults:
    @pytest.mark.parametrize(
        "results",
        [
            pytest.param([b'"a"', b'"bb"', b'"ccc"'], id="of different lengths"),
            pytest.param([b'"a"', None, b'"c"', None], id="some without"),
            pytest.param([b"", b'"b"', b""], id="empty ones"),
            pytest.param([b"\x00\xff\x80", b"\x00", "é€".encode()], id="any bytes"),
            pytest.param([None, None], id="none at all"),
        ],
    )
    def test_every_job_of_a_turn_gets_its_own(self, backend, results):
        backend.enqueue(some_envelopes(len(results)))
        leases = claim_all(backend, len(results))

        backend.settle([Settlement.ack(lease, result) for lease, result in zip(leases, results, strict=True)])

        assert [backend.get(job_id).result for job_id in ids(leases)] == results

    def test_a_reason_belongs_to_one_job(self, backend):
        backend.enqueue(some_envelopes(3))
        first, second, third = claim_all(backend, 3)

        backend.settle([Settlement.ack(first, b"1"), Settlement.ack(second, reason="why"), Settlement.ack(third, b"3")])

        told = [(job.result, job.reason) for job in map(backend.get, ids([first, second, third]))]
        assert told == [(b"1", None), (None, "why"), (b"3", None)]

    def test_what_is_not_kept_leaves_no_result(self, backend):
        backend.enqueue(some_envelopes(2))
        first, second = claim_all(backend, 2)

        backend.settle([Settlement.ack(first, b"1", keep=False), Settlement.ack(second, b"2")])

        assert [job.result for job in map(backend.get, ids([first, second]))] == [None, b"2"]


class TestALeaseNamedTwice:
    def test_it_is_applied_once(self, backend):
        backend.enqueue(some_envelopes(3))
        first, second, third = claim_all(backend, 3)

        answers = backend.settle([Settlement.ack(each) for each in (first, second, second, third)])

        assert [answer.answer for answer in answers] == ["applied", "applied", "already_applied", "applied"]
        assert backend.counts()[State.COMPLETED] == 3

    def test_the_first_move_stands(self, backend):
        backend.enqueue(some_envelopes(2))
        first, second = claim_all(backend, 2)

        answers = backend.settle([Settlement.ack(first), Settlement.release(first), Settlement.ack(second)])

        assert [answer.answer for answer in answers] == ["applied", "lease_lost", "applied"]

    def test_one_lost_lease_keeps_no_other_from_being_settled(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = claim_all(backend, 3)
        forged = msgspec.structs.replace(leases[1], token=leases[1].token + 1)

        result = backend.turn(a_turn(*map(Settlement.ack, (leases[0], forged, leases[2])), claim=a_claim(limit=5)))

        assert [answer.answer for answer in result.settled] == ["applied", "lease_lost", "applied"]
        assert backend.get(leases[1].envelope.id).state is State.EXECUTING


class TestClaimedBytes:
    def test_every_job_of_a_claim_gets_its_own(self, backend):
        sealed = [b"", b"\x00", b"\xff\xfe", "é€😀".encode(), b"x" * 300, b'"\\u0000"']
        envelopes = [with_data(envelope, data) for envelope, data in zip(some_envelopes(6), sealed, strict=True)]
        backend.enqueue(envelopes)

        assert [lease.envelope.data for lease in claim_all(backend, 6)] == sealed

    def test_long_ones_among_short_ones(self, backend):
        sizes = [10, claiming._LONG, claiming._LONG + 1, 20, 3 * claiming._LONG, 30]
        sealed = [bytes([number]) * size for number, size in enumerate(sizes)]
        backend.enqueue([with_data(envelope, data) for envelope, data in zip(some_envelopes(6), sealed, strict=True)])

        assert [lease.envelope.data for lease in claim_all(backend, 6)] == sealed

    def test_the_counters_of_a_job_that_ran_before_come_with_it(self, backend, clock):
        backend.enqueue(some_envelopes(3))
        leases = claim_all(backend, 3)
        backend.settle([Settlement.release(leases[0]), Settlement.nack(leases[1], 0), Settlement.snooze(leases[2], 0)])
        clock.advance(1)

        again = {lease.envelope.id: lease for lease in claim_all(backend, 3)}

        told = [(again[job_id].attempts, again[job_id].interruptions, again[job_id].token) for job_id in ids(leases)]
        assert told == [(0, 1, 2), (1, 0, 2), (0, 0, 2)]


class TestEnqueueing:
    def test_jobs_of_many_kinds_are_stored_together_with_their_own_bytes(self, backend):
        envelopes = [
            with_data(an_envelope(queue=f"q{number % 3}", priority=number % 2), bytes([number]) * number)
            for number in range(20)
        ]

        assert all(answer.created for answer in backend.enqueue(envelopes))

        leases = backend.claim(a_claim(queues=("q0", "q1", "q2"), limit=20))
        assert {lease.envelope.id: lease.envelope.data for lease in leases} == {
            each.id: each.data for each in envelopes
        }

    @pytest.mark.parametrize("largest", [1, 500, 10**9], ids=["each too large", "several statements", "one statement"])
    def test_a_batch_too_large_for_one_statement_takes_several(self, backend, monkeypatch, largest):
        monkeypatch.setattr(enqueueing, "_LARGEST", largest)
        envelopes = some_envelopes(200)

        assert all(answer.created for answer in backend.enqueue(envelopes))

        found = [(lease.envelope.id, lease.envelope.data) for lease in claim_all(backend, 200)]
        assert found == [(envelope.id, envelope.data) for envelope in envelopes]

    @pytest.mark.parametrize("count", [2, 50, 150], ids=["two", "one statement", "a transaction"])
    def test_an_id_named_twice_in_a_batch_is_created_once(self, backend, count):
        envelopes = some_envelopes(count - 1)

        answers = backend.enqueue([*envelopes, envelopes[0]])

        assert answers == [Enqueued(each.id) for each in envelopes] + [
            Enqueued(envelopes[0].id, created=False, existing_id=envelopes[0].id)
        ]
        assert backend.counts()[State.AVAILABLE] == count - 1

    @pytest.mark.parametrize("count", [1, 2, 50, 150], ids=["one", "two", "one statement", "a transaction"])
    def test_an_id_that_is_live_keeps_no_other_from_being_stored(self, backend, count):
        envelopes = some_envelopes(count)
        backend.enqueue([envelopes[-1]])

        answers = backend.enqueue(envelopes)

        assert [answer.created for answer in answers] == [True] * (count - 1) + [False]
        assert answers[-1].existing_id == envelopes[-1].id
        assert backend.counts()[State.AVAILABLE] == count

    def test_what_waits_for_the_lock_is_due_when_it_is_stored(self, backend, open_backend, clock):
        looked, stored = threading.Semaphore(0), []

        class Watched(type(clock)):
            def micros(self):
                now = clock.micros()
                looked.release()
                return now

        other = open_backend(clock=Watched())
        while looked.acquire(blocking=False):
            """What it looked at while it was opened."""
        job = an_envelope()
        thread = threading.Thread(target=lambda: stored.extend(other.enqueue([job])))
        with backend._connections.writing():
            thread.start()
            assert looked.acquire(timeout=30)  # its first try, which finds the lock taken
            clock.advance(60)
            assert all(
                looked.acquire(timeout=30) for _ in range(2)
            )  # at the latest the second of these sees the new time
        thread.join(30)

        assert stored == [Enqueued(job.id)]
        assert backend.get(job.id).available_at == clock.micros()
