"""A signal against the snooze that waits for it, statement by statement: in every order the job hears the signal.

Each side is the real verb on a connection of its own.  Its thread stops before every statement until it is let on.  One that
waits for a lock, as `pg_blocking_pids` says, goes on by itself after the other side's commit; what its side would have sent
next moves to later places of the order.
"""

import itertools

import pytest

from onward.backend import Settlement
from onward.backends.postgres import PostgresBackend
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_turn, some_envelopes
from tests.backends.postgres.stepping import Side, SteppedBackend, in_order

SIGNAL = ["begin", "lock_live", "room_for_note", "store_signal", "signalled", "commit"]
SNOOZE = ["begin", "lock_session", "settle", "store_note", "signalled", "commit"]
ORDERS = list(itertools.combinations(range(len(SIGNAL) + len(SNOOZE)), len(SIGNAL)))  # the places of the signal's


@pytest.fixture
def postgres(newest_postgres):
    """The statements are the same for all versions: one is asked."""
    return newest_postgres


@pytest.fixture
def open_backend(open_backend, monkeypatch):
    monkeypatch.setattr(PostgresBackend, "from_url", SteppedBackend.from_url)
    return open_backend


@pytest.fixture
def race(open_backend, sql):
    """``race(lease, order)``: signal a job while the run that has the lease goes to sleep; return what each side sent."""
    signaller, worker = open_backend(), open_backend()
    signalling, snoozing = signaller.side, worker.side = Side(sql), Side(sql)

    def race(lease, order):
        job_id = lease.envelope.id
        snooze = Settlement.snooze(lease, 3600, awaits="go", notes=(("~!go", b"1"),))
        signalling.start(lambda: signaller.signal(job_id, "go", b"1"))
        snoozing.start(lambda: worker.turn(a_turn(snooze, owner=lease.owner)))
        in_order(signalling, snoozing, order, len(SIGNAL) + len(SNOOZE))
        return signalling.sent, snoozing.sent

    race.signaller = signaller
    return race


@pytest.fixture
def leases(backend):
    """Of one worker, one for every order."""
    backend.enqueue(some_envelopes(len(ORDERS)))
    return backend.claim(a_claim(limit=len(ORDERS), lease_for=3600))


@pytest.mark.promise("S67")
def test_in_all_924_orders_of_a_signal_and_a_snooze_the_job_is_woken(backend, race, leases, no_deadlock):
    lost = []
    for order, lease in zip(ORDERS, leases, strict=True):
        assert race(lease, order) == (SIGNAL, SNOOZE)
        if backend.get(lease.envelope.id).state is not State.AVAILABLE:
            lost.append(order)
        assert [note.name for note in backend.notes(lease.envelope.id)] == ["!go", "~!go"]

    assert len(ORDERS) == 924
    assert lost == []


def test_without_the_lock_of_the_row_signals_would_be_lost(backend, race, leases, monkeypatch):
    """So the orders above are those in which one can be lost."""
    locking = race.signaller._sql["lock_live"]
    loose = locking._replace(sql=locking.sql.replace(b" FOR UPDATE", b""))
    monkeypatch.setattr(race.signaller, "_sql", {**race.signaller._sql, "lock_live": loose})

    def is_lost(order, lease):
        race(lease, order)
        return backend.get(lease.envelope.id).state is State.SCHEDULED

    assert any(is_lost(order, lease) for order, lease in zip(ORDERS, leases, strict=True))
