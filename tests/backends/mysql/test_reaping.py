"""Sweeps: many leases at once, and none that keeps the others."""

import logging
import time

import pytest

from onward.job.states import State
from onward.testing.contract.builders import a_claim, some_envelopes


@pytest.mark.promise("F11")
def test_twenty_thousand_leases_come_back_in_one_sweep(backend, clock, report):
    for _ in range(4):
        backend.enqueue(some_envelopes(5_000))
    for owner in range(4):
        backend.claim(a_claim(owner=f"worker-{owner}", limit=5_000))
    assert backend.counts()[State.EXECUTING] == 20_000
    clock.advance(31)

    started = time.monotonic()
    reaped = backend.reap()
    elapsed = time.monotonic() - started

    report(f"20,000 leases of dead sessions given back on MariaDB in {elapsed:.2f} s")
    assert len(reaped) == 20_000
    assert backend.counts()[State.RETRYABLE] == 20_000
    assert elapsed < 30


@pytest.mark.promise("F11")
def test_one_that_cannot_be_given_back_keeps_no_other(backend, clock, sql, caplog):
    backend.enqueue(some_envelopes(10))
    leases = backend.claim(a_claim(limit=10))
    stuck = leases[0].envelope.id
    sql(
        f"CREATE TRIGGER refuse BEFORE UPDATE ON onward_jobs FOR EACH ROW "
        f"IF old.id = '{stuck}' THEN SIGNAL SQLSTATE '45000' SET message_text = 'not this one'; END IF"
    )
    clock.advance(31)

    try:
        with caplog.at_level(logging.ERROR, "onward.backend"):
            reaped = backend.reap()
    finally:
        sql("DROP TRIGGER refuse")

    assert {each.id for each in reaped} == {lease.envelope.id for lease in leases[1:]}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"job {stuck} cannot be given back: ")
    assert "not this one" in told
    assert [each.id for each in backend.reap()] == [stuck]


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

    assert other.reap() == []  # it is talking to us, as far as anybody can see
    until(lambda: [each.id for each in other.reap()] == [lease.envelope.id])


def test_a_session_of_ours_ends_with_a_transaction_that_stands_still(backend):
    (connection,) = backend._connections._open.values()

    ((seconds,),) = connection.send(b"SELECT @@idle_transaction_timeout")[0].rows

    assert seconds == 20
