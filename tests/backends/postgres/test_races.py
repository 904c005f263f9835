"""Two who change one job at the same moment: what is answered is what was done."""

import threading
import time

import psycopg
import pytest

from onward.backend import Settlement
from onward.job.lease import Hold
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope


@pytest.fixture
def meanwhile(url, sql):
    """``meanwhile(change, act)``: act begins while another's change of the job is not committed, and ends after it."""

    def run(change, act):
        answers = []
        with psycopg.connect(url) as other:
            other.execute(change)
            acting = threading.Thread(target=lambda: answers.append(act()))
            acting.start()
            _until(lambda: sql("SELECT 1 FROM pg_locks WHERE NOT granted") or not acting.is_alive())
            other.commit()
        acting.join(30)
        (answer,) = answers
        return answer

    return run


def _until(fact, patience=30):
    deadline = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


ASKED = "UPDATE onward_jobs SET cancel_reason = 'not wanted'"


@pytest.mark.promise("F02", "F26")
@pytest.mark.parametrize(
    ("settlement", "becomes"),
    [
        pytest.param(Settlement.ack, State.COMPLETED, id="ack"),
        pytest.param(lambda lease: Settlement.nack(lease, 5), State.CANCELLED, id="nack"),
        pytest.param(lambda lease: Settlement.snooze(lease, 5), State.CANCELLED, id="snooze"),
        pytest.param(Settlement.release, State.CANCELLED, id="release"),
        pytest.param(lambda lease: Settlement.abandon(lease, "no"), State.CANCELLED, id="abandon"),
    ],
)
def test_a_settlement_that_waited_for_a_cancellation_is_applied_as_it_was_answered(
    backend, meanwhile, settlement, becomes
):
    lease = a_lease(backend)

    result = meanwhile(ASKED, lambda: backend.turn(a_turn(settlement(lease), owner=lease.owner)))

    assert (result.settled[0].applied, result.settled[0].state) == (True, becomes)
    assert backend.get(lease.envelope.id).state is becomes


@pytest.mark.promise("F02")
@pytest.mark.parametrize(
    ("settlement", "becomes"),
    [
        pytest.param(Settlement.ack, State.COMPLETED, id="ack"),
        pytest.param(lambda lease: Settlement.nack(lease, 5), State.RETRYABLE, id="nack"),
    ],
)
def test_a_progress_that_is_written_meanwhile_undoes_no_settlement(backend, meanwhile, settlement, becomes):
    lease = a_lease(backend)

    meanwhile("UPDATE onward_jobs SET progress = '1'", lambda: backend.settle([settlement(lease)]))

    job = backend.get(lease.envelope.id)
    assert (job.state, job.attempts) == (becomes, 1)


@pytest.mark.promise("F02")
@pytest.mark.parametrize(
    "change",
    ["state = 'available', owner = NULL", "delivery = delivery + 1", "owner = 'elsewhere'", "state = 'retryable'"],
)
def test_a_failure_that_waited_for_the_end_of_its_lease_changes_nothing(backend, meanwhile, sql, change):
    lease = a_lease(backend)
    nack = Settlement.nack(lease, 5)

    result = meanwhile(f"UPDATE onward_jobs SET {change}", lambda: backend.turn(a_turn(nack, owner=lease.owner)))

    assert result.settled[0].lease_lost
    assert sql("SELECT attempts FROM onward_jobs") == [(0,)]
    assert sql("SELECT count(*) FROM onward_attempts") == [(0,)]


def test_a_cancellation_that_waited_for_a_promotion_is_carried_out(backend, meanwhile):
    (job,) = backend.enqueue([an_envelope(delay=60)])

    meanwhile("UPDATE onward_jobs SET state = 'available'", lambda: backend.cancel([job.id], "not wanted"))

    assert backend.get(job.id).state is State.CANCELLED


def test_a_cancellation_that_waited_for_a_claim_is_asked_for(backend, meanwhile, sql):
    (job,) = backend.enqueue([an_envelope()])

    meanwhile(
        "UPDATE onward_jobs SET state = 'executing', delivery = 1, owner = 'elsewhere'",
        lambda: backend.cancel([job.id], "not wanted"),
    )

    assert sql("SELECT cancel_reason IS NOT NULL FROM onward_jobs") == [(True,)]


def test_a_job_that_waits_and_was_touched_meanwhile_is_made_due(backend, meanwhile):
    (job,) = backend.enqueue([an_envelope(delay=60)])

    meanwhile("UPDATE onward_jobs SET waits = waits + 1", lambda: backend.retry([job.id]))

    assert backend.get(job.id).state is State.AVAILABLE


def test_a_job_that_was_asked_to_cancel_meanwhile_is_adopted_all_the_same(backend, meanwhile):
    lease = a_lease(backend, owner="old")

    adopted = meanwhile(ASKED, lambda: backend.open_session(a_session("new"), adopts="old"))

    assert [(each.envelope.id, each.owner) for each in adopted] == [(lease.envelope.id, "new")]


@pytest.mark.promise("F74")
def test_a_success_that_waited_for_a_rival_for_its_idempotency_key_confirms_the_key(backend, meanwhile):
    """The rival looks whether the key is free, and to look it locks its row."""
    lease = a_lease(backend, idempotency_key="once")

    meanwhile("UPDATE onward_holds SET token = token", lambda: backend.ack(lease))

    backend.enqueue([an_envelope(idempotency_key="once")])
    (second,) = backend.claim(a_claim())
    assert second.hold is Hold.DONE
