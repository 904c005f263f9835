"""Taking back booked jobs while a turn claims and settles them: no two transactions wait for each other."""

import threading

import psycopg
import pytest

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.job.states import State
from onward.testing.contract.builders import an_envelope, ids
from tests.backends.postgres.stepping import Side, SteppedBackend
from tests.waiting import eventually

FIRST, MIDDLE, LAST = JOBS = ["tick-1", "tick-2", "tick-3"]


@pytest.fixture
def postgres(newest_postgres):
    """The statements are the same for all versions: one is asked."""
    return newest_postgres


@pytest.fixture
def open_backend(open_backend, monkeypatch):
    monkeypatch.setattr(PostgresBackend, "from_url", SteppedBackend.from_url)
    return open_backend


@pytest.fixture
def locked(url):
    """``locked(id)``: another transaction has this job, until the rollback of the connection that is returned."""
    with psycopg.connect(url) as connection:

        def lock(job_id):
            connection.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [job_id])
            return connection

        yield lock


class Background:
    """A call in a thread."""

    def __init__(self, act):
        self._result = []
        self._thread = threading.Thread(target=lambda: self._result.append(act()))
        self._thread.start()

    def result(self):
        self._thread.join(10)
        assert self._result, "it has not ended"
        return self._result[0]


@pytest.fixture
def waiting(sql):
    """How many transactions wait for a lock."""
    return lambda: sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")[0][0]


@pytest.fixture
def claimed_meanwhile(backend, open_backend, sql, locked, waiting):
    """The first and the last of three jobs are claimed while all are taken back, and the middle one is locked."""
    backend.open_session(Session(owner="worker"))
    backend.enqueue([an_envelope(id=job_id) for job_id in JOBS])
    keeper = locked(MIDDLE)
    worker = open_backend()
    worker.side = Side(sql, ("begin", "lock_session", "promote", "claim", "pinned"))
    leases = []
    claim = Turn(owner="worker", claim=Claim(queues=("default",), limit=3))
    worker.side.start(lambda: leases.extend(worker.turn(claim).leases))  # stops before its commit
    taking = Background(lambda: backend.take_back(JOBS))
    eventually(lambda: waiting() == 1)
    worker.side.let_on()
    eventually(lambda: worker.side.has_ended)
    worker.side = None
    assert sorted(ids(leases)) == [FIRST, LAST]
    return worker, {lease.envelope.id: lease for lease in leases}, keeper, taking


def test_a_turn_that_settles_what_was_claimed_meanwhile_does_not_wait(backend, claimed_meanwhile, waiting, no_deadlock):
    worker, leases, keeper, taking = claimed_meanwhile
    settlements = [Settlement.ack(leases[LAST]), Settlement.release(leases[FIRST])]
    eventually(lambda: waiting() == 1)  # for the middle one

    settling = Background(lambda: worker.turn(Turn(owner="worker", settlements=settlements)))

    assert [answer.applied for answer in settling.result().settled] == [True, True]
    keeper.rollback()
    assert taking.result() == [MIDDLE], "what had begun is not taken back"
    assert backend.counts()[State.AVAILABLE] == 1


def test_what_is_given_up_is_taken_back(backend, locked, waiting):
    backend.enqueue([an_envelope(id=job_id) for job_id in JOBS])
    keeper = locked(MIDDLE)
    taking = Background(lambda: backend.take_back(JOBS))
    eventually(lambda: waiting() == 1)

    keeper.rollback()

    assert sorted(taking.result()) == JOBS
