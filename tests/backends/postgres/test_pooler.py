"""Behind a pooler that lends a session for one transaction: nothing relies on a session, and no option has to say so."""

import logging
import threading

import pytest

from onward.backend import Settlement
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_envelope, at_once, some_envelopes
from tests.servers.pgbouncer import pgbouncer

WARNING = "going on without prepared statements and without LISTEN"


@pytest.fixture
def pooler(postgres, url):
    with pgbouncer(postgres) as address:
        yield address


@pytest.fixture
def lenient_pooler(postgres, url):
    """One that swallows our settings instead of refusing them, as many are set up."""
    with pgbouncer(postgres, ignore_startup_parameters="options") as address:
        yield address


@pytest.mark.promise("F30")
class TestSwitching:
    def test_a_pooler_that_refuses_settings_is_recognised_at_once(self, pooler, open_backend, caplog):
        with caplog.at_level(logging.WARNING, "onward.backend.postgres"):
            backend = open_backend(at=pooler)

        assert backend._connections.pooled
        assert [WARNING in record.getMessage() for record in caplog.records] == [True]
        assert backend.ack(a_lease(backend)).applied

    def test_one_that_swallows_them_is_recognised_by_lost_statements(self, lenient_pooler, open_backend, caplog):
        backend = open_backend(at=f"{lenient_pooler}&pool_size=8")

        with caplog.at_level(logging.WARNING, "onward.backend.postgres"):
            for _ in range(20):
                answers = at_once(8, lambda _: backend.enqueue([an_envelope()])[0].created)
                assert all(answers)

        assert backend._connections.pooled
        assert [WARNING in record.getMessage() for record in caplog.records] == [True]
        assert backend.counts()[State.AVAILABLE] == 160

    def test_who_was_told_says_nothing(self, pooler, open_backend, caplog):
        with caplog.at_level(logging.WARNING, "onward.backend.postgres"):
            backend = open_backend(at=f"{pooler}&pooler=transaction")
            backend.ack(a_lease(backend))

        assert caplog.records == []


@pytest.mark.promise("F30", "F39")
def test_sleepers_are_woken_by_looking(pooler, open_backend):
    backend, other = open_backend(at=f"{pooler}&pooler=transaction"), open_backend(at=f"{pooler}&pooler=transaction")
    waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
    waiting.start()

    other.enqueue([an_envelope()])

    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.promise("F30")
def test_sessions_that_are_lent_in_turn_mix_nothing_up(pooler, open_backend):
    clients = [open_backend(at=f"{pooler}&pooler=transaction") for _ in range(4)]
    clients[0].enqueue(some_envelopes(200))

    def work(number):
        client, done = clients[number], 0
        leases = client.claim(a_claim(owner=f"{number}", limit=5))
        while leases:
            settlements = [Settlement.ack(lease, str(number).encode()) for lease in leases]
            result = client.turn(a_turn(*settlements, owner=f"{number}", claim=a_claim(limit=5)))
            done += sum(answer.applied for answer in result.settled)
            leases = result.leases
        return done

    assert sum(at_once(4, work)) == 200
    assert clients[0].counts()[State.COMPLETED] == 200
