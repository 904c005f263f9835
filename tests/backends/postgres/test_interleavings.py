"""A signal against the snooze that waits for it, statement by statement: in every order the job hears the signal.

Each side is the real verb on a connection of its own.  Its thread stops before every statement until it is let on.  One that
waits for a lock, as `pg_blocking_pids` says, goes on by itself after the other side's commit; what its side would have sent
next moves to later places of the order.
"""

import itertools
import threading

import pytest

from onward.backend import Settlement
from onward.backends.postgres import PostgresBackend
from onward.backends.postgres.transaction import Transaction
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_turn, some_envelopes
from tests.waiting import eventually

SIGNAL = ["begin", "lock_live", "room_for_note", "store_signal", "signalled", "commit"]
SNOOZE = ["begin", "lock_session", "settle", "store_note", "signalled", "commit"]
FOLLOWING = ("wake_waiters", "wake_apart")  # sent with the one before, and only if a signal is there
ORDERS = list(itertools.combinations(range(len(SIGNAL) + len(SNOOZE)), len(SIGNAL)))  # the places of the signal's


class Side:
    """A verb in a thread, that is let on one statement at a time."""

    def __init__(self, sql):
        self._sql = sql
        self._permits = threading.Semaphore(0)
        self._thread = None
        self.pid = 0
        self.sent = []
        self.is_waiting = threading.Event()  # for a permit, or it has ended

    def start(self, act):
        self.sent, self.error = [], None
        self.is_waiting.clear()
        self._thread = threading.Thread(target=self._run, args=[act])
        self._thread.start()
        self.is_waiting.wait(30)

    def _run(self, act):
        try:
            act()
        except BaseException as error:  # noqa: BLE001  raised again below
            self.error = error
        self._thread = None
        self.is_waiting.set()

    def stop_before(self, statement):
        self.is_waiting.set()
        self._permits.acquire()
        self.sent.append(statement)

    @property
    def has_ended(self):
        return self._thread is None

    @property
    def can_go_on(self):
        return self.is_waiting.is_set() and not self.has_ended

    def let_on(self):
        """Send one statement, and wait until it is answered, or waits for a lock."""
        self.is_waiting.clear()
        self._permits.release()
        self.settle_down()

    def settle_down(self):
        eventually(lambda: self.is_waiting.wait(0.001) or self._is_blocked())  # mostly it is answered at once
        if self.error is not None:
            raise self.error

    def _is_blocked(self):
        return self._sql("SELECT pg_blocking_pids(%s)", self.pid) != [([],)]


class SteppedTransaction(Transaction):
    """Sends a statement when it is let on, and reads the answer at once."""

    __slots__ = ("side",)

    def ask(self, name, **parameters):
        if name not in FOLLOWING:
            self.side.stop_before(name)
        reply = super().ask(name, **parameters)
        reply.rows()
        return reply


class SteppedBackend(PostgresBackend):
    side = None

    def _transaction(self, connection):
        if self.side is None:
            return super()._transaction(connection)
        self.side.pid = connection.info.backend_pid
        tx = SteppedTransaction(connection.wire, self._sql, self._moved)
        tx.side = self.side
        return tx


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
        places = [signalling if place in order else snoozing for place in range(len(SIGNAL) + len(SNOOZE))]
        for side in itertools.chain(places, itertools.cycle((signalling, snoozing))):
            if signalling.has_ended and snoozing.has_ended:
                break
            if side.can_go_on:
                side.let_on()
                (snoozing if side is signalling else signalling).settle_down()  # a commit may have let it on
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
