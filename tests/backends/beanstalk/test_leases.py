"""A lease is a reservation: how long it lasts, who counts what, and what a worker can do that has lost it."""

import select
import threading

import pytest

from onward.backend import Settlement
from onward.backends.beanstalk.body import decode
from onward.errors import BackendUnavailable
from onward.testing.contract.builders import SETTLEMENTS, a_claim, a_lease, a_session, a_turn, an_envelope, ids
from tests.waiting import eventually

TUBE = "onward.default.default"
TTR = 120


@pytest.fixture
def other(open_backend):
    """Another process."""
    return open_backend()


@pytest.mark.promise("F21")
@pytest.mark.parametrize(("timeout", "ttr"), [(None, TTR), (60, TTR), (3600, 3630)])
def test_a_job_is_its_workers_for_longer_than_its_time_out(backend, timed_server, timeout, ttr):
    backend.enqueue([an_envelope(timeout=timeout)])

    with timed_server.connect(use=TUBE) as client:
        assert client.stats_job(client.peek_ready())["ttr"] == ttr


@pytest.mark.promise("F21")
def test_a_job_that_runs_for_an_hour_is_given_to_no_other_worker_while_it_is_renewed(backend, other, clock):
    lease = a_lease(backend)

    for _ in range(60):
        clock.advance(60)
        assert backend.extend("worker").alive
        assert other.claim(a_claim(owner="other")) == []

    assert backend.ack(lease).applied


def test_a_lease_that_was_not_renewed_in_time_is_named_when_it_is(backend, clock):
    lease = a_lease(backend)
    clock.advance(TTR + 1)

    renewal = backend.extend("worker")

    assert (renewal.alive, renewal.lost) == (True, ((lease.envelope.id, lease.token),))


@pytest.mark.promise("F38")
@pytest.mark.parametrize("move", SETTLEMENTS)
def test_a_worker_that_lost_a_job_to_another_can_change_nothing(backend, other, clock, timed_server, move):
    slow = a_lease(backend, owner="slow")
    clock.advance(TTR + 1)
    (fresh,) = other.claim(a_claim(owner="fresh"))

    (late,) = backend.settle([SETTLEMENTS[move](slow)])

    assert late.lease_lost
    assert fresh.token > slow.token
    assert other.ack(fresh).applied
    assert sum(backend.counts().values()) == 0


@pytest.mark.promise("F38")
@pytest.mark.parametrize("move", [move for move in SETTLEMENTS if move not in ("ack", "skip", "cancelled")])
def test_a_worker_that_lost_a_job_that_waits_again_cannot_copy_or_bury_it(backend, clock, move):
    lease = a_lease(backend)
    clock.advance(TTR + 1)

    (late,) = backend.settle([SETTLEMENTS[move](lease)])

    assert late.lease_lost
    assert sum(backend.counts().values()) == 1


def test_what_is_declared_a_late_ack_removes_a_job_that_waits_again(backend, clock):
    assert not backend.capabilities.fences_expired
    lease = a_lease(backend)
    clock.advance(TTR + 1)

    assert backend.ack(lease).applied
    assert sum(backend.counts().values()) == 0


def test_a_killed_worker_gives_its_job_back_at_once_and_that_is_a_crash(backend, other):
    lease = a_lease(backend)
    backend._sessions["worker"].connection.close()

    (again,) = eventually(lambda: other.claim(a_claim(owner="other")))

    assert (again.envelope.id, again.crashes, again.token) == (lease.envelope.id, 1, lease.token + 1)


def test_a_second_crash_is_written_down_and_waits(backend, open_backend, clock, timed_server):
    backend.enqueue([an_envelope()])
    for _ in range(2):
        victim = open_backend()
        eventually(lambda victim=victim: victim.claim(a_claim()))
        victim.close()

    eventually(lambda: backend.claim(a_claim()) == [] and backend.counts()["scheduled"])

    with timed_server.connect(use=TUBE) as client:
        assert decode(client.peek_delayed().body)[0].crashes == 2
    clock.advance(10)
    (lease,) = backend.claim(a_claim())
    assert (lease.crashes, lease.spent) == (2, None)


def test_a_job_that_crashed_too_often_is_handed_out_as_spent(backend, open_backend, clock):
    backend.enqueue([an_envelope(max_crashes=1)])
    victim = open_backend()
    victim.claim(a_claim())
    victim.close()

    (lease,) = eventually(lambda: backend.claim(a_claim()))

    assert lease.spent == "crashed 1 time: its process died, or did not renew it in time"


def test_a_job_that_was_given_back_politely_has_not_crashed(backend):
    for _ in range(5):
        backend.release(a_lease(backend) if backend.counts()["available"] == 0 else backend.claim(a_claim())[0])

    (lease,) = backend.claim(a_claim())

    assert (lease.crashes, lease.interruptions) == (0, 5)


def test_what_was_reserved_behind_a_suspect_is_given_back_and_has_not_crashed(backend, other):
    before, suspect, behind = an_envelope(), an_envelope(), an_envelope(priority=-1)
    backend.enqueue([suspect])
    other.claim(a_claim(owner="other"))
    other._sessions["other"].connection.close()
    eventually(lambda: backend.counts()["available"] == 1)
    backend.enqueue([before, behind])
    session = backend._sessions.setdefault("worker", backend._new_session())
    session._plenty["default"] = 9  # it asks for all of them at once

    alone = backend.claim(a_claim(limit=9))
    rest = backend.claim(a_claim(limit=9))

    assert [(lease.envelope.id, lease.crashes, lease.interruptions) for lease in alone] == [(suspect.id, 1, 0)]
    assert [(lease.envelope.id, lease.crashes, lease.interruptions) for lease in rest] == [
        (before.id, 0, 1),
        (behind.id, 0, 1),
    ]


def test_a_buried_job_says_why_and_a_kick_gives_it_another_life(backend, timed_server):
    lease = a_lease(backend)
    backend.nack(lease)
    (again,) = backend.claim(a_claim())
    backend.settle([Settlement.abandon(again, "gave up after 2 attempts")])

    with timed_server.connect(use=TUBE) as client:
        header, sealed = decode(client.peek_buried().body)
        assert client.kick(10) == 1

    assert (header.reason, header.attempts, sealed) == ("gave up after 2 attempts", 2, lease.envelope.data)
    (new,) = backend.claim(a_claim())
    assert (new.attempts, new.crashes, new.spent, new.envelope) == (0, 0, None, lease.envelope)


def test_a_session_whose_connection_is_broken_cannot_be_adopted(backend):
    a_lease(backend, owner="old")
    backend._sessions["old"].connection.close()

    assert backend.open_session(a_session("new"), adopts="old") is None


def test_an_ack_whose_answer_was_lost_is_answered_by_what_is_there(backend):
    lease, waits = a_lease(backend), an_envelope()
    backend.enqueue([waits])
    session = backend._sessions["worker"]
    session.connection._client.delete(lease.receipt)  # it arrived, and the answer did not
    session.connection.close()
    backend.open_session(a_session("new"))

    (answer,) = backend.turn(a_turn(Settlement.ack(lease), owner="new")).settled

    assert answer.gone


def test_a_server_that_stands_still_is_not_waited_for_for_ever(server, open_at):
    backend = open_at(server, timeout=1)
    lease = a_lease(backend)
    server.pause()

    with pytest.raises(BackendUnavailable):
        backend.ack(lease)

    server.resume()
    assert backend.open_session(a_session("new"), adopts="worker") is None


def test_the_next_queue_is_served_when_the_first_is_empty(backend):
    envelopes = [an_envelope(queue="b"), an_envelope(queue="a"), an_envelope(queue="c")]
    backend.enqueue(envelopes)

    leases = backend.claim(a_claim(queues=("a", "b", "c"), limit=9))

    assert ids(leases) == [envelopes[1].id, envelopes[0].id, envelopes[2].id]


def test_an_answer_on_its_way_is_not_taken_for_the_end_of_the_connection(backend):
    """Two threads use one connection, as the pump and the renewal of a worker do."""
    lease = a_lease(backend)
    connection = backend._sessions["worker"].connection
    alive = []
    with connection.lock:  # in the middle of a command
        connection._socket.sendall(b"list-tube-used\r\n")
        assert select.select([connection._socket], [], [], 30)[0]
        looks = threading.Thread(target=lambda: alive.append(not connection.stale()))
        looks.start()
        looks.join(30)
        assert connection._client._reader.readline().startswith(b"USING")

    assert alive == [True]
    assert backend.ack(lease).applied
