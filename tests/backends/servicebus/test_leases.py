"""A lease is a lock: how long it lasts, who counts what, and what a worker can do that has lost it."""

import pytest

from onward.backend import Settlement
from onward.backends.servicebus.message import read
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import SETTLEMENTS, a_claim, a_lease, a_session, an_envelope, ids
from tests.servers.servicebus import entity

LOCK = 60


@pytest.mark.promise("F21")
def test_a_job_that_runs_for_an_hour_is_given_to_no_other_worker_while_it_is_renewed(backend, other, clock):
    """Azure locks a message for five minutes at most."""
    lease = a_lease(backend)

    for _ in range(60):
        clock.advance(LOCK - 1)
        assert backend.extend("worker").lost == ()
    assert other.claim(a_claim(owner="other")) == []

    assert backend.ack(lease).applied


@pytest.mark.promise("F21")
def test_a_worker_that_would_renew_too_late_is_refused(backend):
    backend.enqueue([an_envelope()])

    with pytest.raises(BackendMisconfigured, match="lease_for to 60 or less"):
        backend.claim(a_claim(lease_for=LOCK + 1))


def test_a_lease_that_was_not_renewed_in_time_is_named_when_it_is(backend, clock):
    lease = a_lease(backend)
    clock.advance(LOCK + 1)

    renewal = backend.extend("worker")

    assert (renewal.alive, renewal.lost) == (True, ((lease.envelope.id, lease.token),))


@pytest.mark.promise("F38")
@pytest.mark.parametrize("move", SETTLEMENTS)
def test_a_worker_that_lost_a_job_to_another_can_change_nothing(backend, other, clock, messages, move):
    slow = a_lease(backend, owner="slow")
    clock.advance(LOCK + 1)
    (fresh,) = other.claim(a_claim(owner="fresh"))

    (late,) = backend.settle([SETTLEMENTS[move](slow)])

    assert late.lease_lost
    assert fresh.token > slow.token
    assert other.ack(fresh).applied
    assert messages() == ([], [])


@pytest.mark.promise("F38")
@pytest.mark.parametrize("move", SETTLEMENTS)
def test_a_worker_that_lost_a_job_that_waits_again_can_change_nothing(backend, clock, messages, move):
    lease = a_lease(backend)
    clock.advance(LOCK + 1)

    (late,) = backend.settle([SETTLEMENTS[move](lease)])

    alive, dead = messages()
    assert late.lease_lost
    assert (len(alive), dead) == (1, [])


@pytest.mark.promise("F38")
def test_a_dead_letter_is_not_stored_by_a_worker_that_has_lost_the_job(backend, clock, messages):
    lease = a_lease(backend)
    clock.advance(LOCK + 1)

    (late,) = backend.settle([Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="dead"))])

    assert late.lease_lost
    assert messages("dead") == ([], [])


def test_a_worker_that_is_killed_gives_its_job_back_when_the_lock_expires_and_that_is_a_crash(backend, other, clock):
    lease = a_lease(backend)
    clock.advance(LOCK)

    (again,) = other.claim(a_claim(owner="other"))

    assert (again.envelope.id, again.crashes, again.token) == (lease.envelope.id, 1, lease.token + 1)


def test_a_second_crash_is_written_down_and_waits(backend, clock, messages):
    a_lease(backend)
    for _ in range(2):
        clock.advance(LOCK)
        leases = backend.claim(a_claim())

    ((waiting,), _) = messages()
    assert leases == []
    assert waiting.content.application["crashes"] == 2
    clock.advance(10)
    (lease,) = backend.claim(a_claim())
    assert (lease.crashes, lease.spent) == (2, None)


def test_a_job_that_crashed_too_often_is_handed_out_as_spent(backend, clock):
    a_lease(backend, max_crashes=1)
    clock.advance(LOCK)

    (lease,) = backend.claim(a_claim())

    assert lease.spent == "crashed 1 time: its process died, or did not renew it in time"


def test_a_job_that_was_given_back_politely_has_not_crashed(backend):
    lease = a_lease(backend)
    for _ in range(5):
        backend.release(lease)
        (lease,) = backend.claim(a_claim())

    assert (lease.crashes, lease.interruptions, lease.token) == (0, 5, 6)


def test_a_copy_is_known_by_its_attempts_and_no_two_have_the_same_id(backend, clock, messages):
    """Or a queue that detects duplicates would drop a job that is put back."""
    lease, seen = a_lease(backend), []
    for move in ("nack", "snooze", "nack", "release", "park", "crashed", "nack"):
        backend.settle([SETTLEMENTS[move](lease)])
        ((copy,), _) = messages()
        seen.append(copy.content.message_id)
        clock.advance(600)
        (lease,) = backend.claim(a_claim())
    job = lease.envelope.id

    assert seen[0] == f"{job}:1"
    assert len(set(seen)) == len(seen)
    assert seen == [f"{job}:{each}" for each in ("1", "1.1", "2.1", "2.2", "2.3", "2.4", "3.4")]


def test_a_lost_renewal_schedules_nothing(backend, timed_server, messages):
    lease = a_lease(backend)
    timed_server.refuse("renew")

    assert backend.nack(lease, 5).lease_lost
    assert timed_server.count("schedule") == 0


def test_two_living_sessions_can_be_made_one(backend):
    mine, theirs = a_lease(backend, owner="new"), a_lease(backend, owner="old")

    held = backend.open_session(a_session("new"), adopts="old")

    assert sorted(ids(held)) == sorted(ids([mine, theirs]))


def test_a_retry_that_could_not_be_finished_is_said_again_and_stored_once(backend, timed_server, messages):
    lease = a_lease(backend)
    timed_server.refuse("complete", times=3, condition="com.microsoft:server-busy")

    with pytest.raises(BackendUnavailable):
        backend.nack(lease, 5)
    answer = backend.nack(lease, 5)

    assert answer.applied
    assert [message.content.application["attempts"] for message in messages()[0]] == [1]


def test_what_was_received_by_a_wait_and_not_claimed_is_put_back_unharmed(backend, clock, messages, timed_server):
    backend.open_session(a_session())
    backend.enqueue([envelope := an_envelope()])
    backend.wait(["default"], 30)
    assert messages()[0][0].lock is not None

    clock.advance(6)
    backend.extend("worker")

    ((waiting,), _) = messages()
    assert waiting.lock is None
    (lease,) = backend.claim(a_claim())
    assert (lease.envelope.id, lease.crashes, lease.interruptions, lease.attempts) == (envelope.id, 0, 0, 0)


def test_what_was_received_by_a_wait_and_has_expired_since_is_not_handed_out(backend, other, clock):
    backend.enqueue([envelope := an_envelope()])
    backend.wait(["default"], 30)
    clock.advance(LOCK)
    (taken,) = other.claim(a_claim(owner="other"))

    assert backend.claim(a_claim()) == []
    assert taken.envelope.id == envelope.id


@pytest.mark.parametrize("end", [lambda backend: backend.close(), lambda backend: backend.reap(owner="worker")])
def test_what_was_received_by_a_wait_is_put_back_when_the_last_worker_ends(open_backend, messages, end):
    backend = open_backend()
    backend.open_session(a_session())
    backend.enqueue([an_envelope()])
    backend.wait(["default"], 30)

    end(backend)

    ((waiting,), _) = messages()
    assert waiting.lock is None


def test_a_wait_that_heard_nothing_leaves_no_question_open(backend, other):
    """Or the next job would be sent to a receiver that does not listen any more."""
    backend.wait(["default"], 0.05)
    other.enqueue([envelope := an_envelope()])

    assert ids(other.claim(a_claim(owner="other"))) == [envelope.id]


def test_the_counters_travel_beside_the_sealed_bytes(backend, timed_server):
    lease = a_lease(backend)
    backend.nack(lease)

    with_bus = backend._bus.receiver(entity()).peek(1, 1)

    header, sealed = read(with_bus[0])
    assert (header.attempts, header.delivery, sealed) == (1, 1, lease.envelope.data)


# The last ones, for a test after them would have to connect again.


def test_locks_outlive_the_connections(backend, timed_server):
    lease = a_lease(backend, owner="old")
    timed_server.drop_connections()

    (kept,) = backend.open_session(a_session("new"), adopts="old")

    assert kept.token == lease.token
    assert backend.ack(kept).applied


def test_a_settlement_whose_answer_was_lost_and_is_repeated_by_the_sdk_has_left_no_job(backend, timed_server, messages):
    lease = a_lease(backend)
    timed_server.after(1, "complete", do=timed_server.drop_connections)

    assert backend.ack(lease).gone
    assert messages() == ([], [])
