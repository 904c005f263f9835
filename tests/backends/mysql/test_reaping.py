"""Sweeps: many leases at once, and none that keeps the others."""

import pytest

from onward.testing.contract.builders import a_claim, some_envelopes
from tests.backends.sweeping import Sweeps


class TestSweeps(Sweeps):
    longest = 30

    @pytest.fixture
    def refuse(self, sql, relent):
        def refuse_it(job_id):
            sql(
                f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs FOR EACH ROW "
                f"IF old.id = '{job_id}' THEN SIGNAL SQLSTATE '45000' SET message_text = 'not this one'; END IF"
            )

        yield refuse_it
        relent()

    @pytest.fixture
    def relent(self, sql):
        return lambda: sql("DROP TRIGGER IF EXISTS refuse")


@pytest.mark.promise("F17")
def test_who_is_stopped_in_the_middle_of_a_turn_does_not_keep_its_jobs_for_ever(backend, open_backend, clock, until):
    backend.enqueue(some_envelopes(1))
    (lease,) = backend.claim(a_claim(owner="stopped"))
    (connection,) = backend._connections._open.values()
    clock.advance(31)
    other = open_backend()

    connection.send(b"SET SESSION idle_transaction_timeout = 1")  # instead of ours, which is 20 s
    connection.send(b"START TRANSACTION")
    connection.send(b"SELECT 1 FROM onward_sessions WHERE owner = 'stopped' FOR UPDATE")

    assert other.reap() == []  # as far as the server can tell, it is still talking
    until(lambda: [each.id for each in other.reap()] == [lease.envelope.id])


def test_a_session_of_ours_ends_with_a_transaction_that_stands_still(backend):
    (connection,) = backend._connections._open.values()

    ((seconds,),) = connection.send(b"SELECT @@idle_transaction_timeout")[0].rows

    assert seconds == 20
