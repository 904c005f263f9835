"""What is decided, is decided under the write lock: with the time and the rows that are true then."""

import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from functools import partial

import pytest

from onward.backend import Settlement, Turn
from onward.backends.sqlite import SqliteBackend
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import PATIENCE, a_claim, a_lease, a_session, an_envelope


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(file, clock):
    with closing(SqliteBackend.open(file, clock=clock)) as backend:
        yield backend


@contextmanager
def while_another_writes(file, act):
    """Hold the write lock until ``act`` waits for it in a thread; let it through at the end of the block.

    The block is given the connection that holds the lock.
    """
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=act, daemon=True)
        waiting.start()
        time.sleep(0.1)  # nothing tells that a thread waits for the lock; too short would hide a fault, not invent one
        yield other
        other.execute("COMMIT")
        waiting.join(PATIENCE)
        assert not waiting.is_alive()


class WatchfulClock(FakeClock):
    """Notes whether another connection holds the write lock when the time is read."""

    def __init__(self, file):
        super().__init__()
        self.file = file
        self.locked = []

    def micros(self):
        with closing(sqlite3.connect(self.file, isolation_level=None, timeout=0)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                self.locked.append(False)
            except sqlite3.OperationalError:
                self.locked.append(True)
        return super().micros()


@pytest.mark.promise("F41", "F48")
def test_the_time_of_a_write_is_read_under_the_write_lock(file):
    clock = WatchfulClock(file)
    with closing(SqliteBackend.open(file, clock=clock)) as backend:
        backend.open_session(a_session())
        backend.enqueue([an_envelope()])
        (lease,) = backend.turn(Turn(owner="worker", claim=a_claim())).leases
        turn = Turn(owner="worker", settlements=[Settlement.ack(lease)], claim=a_claim())
        # A reap of all sessions looks for flows that wait, afterwards and without the lock.
        reap = partial(backend.reap, owner="another")
        for write in (lambda: backend.extend("worker"), lambda: backend.turn(turn), reap):
            clock.locked.clear()

            write()

            assert clock.locked[-1]  # a look before may be without it, what is written is not


@pytest.mark.promise("F41")
def test_a_delay_does_not_grow_shorter_while_its_job_waits_for_the_lock(file, backend, clock):
    """A single statement takes the lock by itself: the time is read anew at each try."""
    envelope = an_envelope(delay=60)

    with while_another_writes(file, lambda: backend.enqueue([envelope])):
        clock.advance(30)

    assert backend.get(envelope.id).available_at == clock.micros() + 60_000_000


@pytest.mark.promise("F41")
def test_a_lease_does_not_grow_shorter_while_it_waits_for_the_lock(file, backend, clock):
    backend.enqueue([an_envelope()])
    claimed = []
    with while_another_writes(file, lambda: claimed.extend(backend.claim(a_claim(lease_for=30)))):
        clock.advance(3600)

    assert len(claimed) == 1
    assert backend.reap() == []


@pytest.mark.promise("F09")
def test_a_sweep_that_waited_for_the_lock_spares_a_session_that_was_renewed_meanwhile(file, backend, clock):
    lease = a_lease(backend, lease_for=30)
    clock.advance(31)
    swept = []
    with while_another_writes(file, lambda: swept.extend(backend.reap())) as other:
        other.execute("UPDATE onward_sessions SET expires_at = expires_at + 3600000000")

    assert swept == []
    assert backend.ack(lease).applied


@pytest.mark.promise("F48")
def test_a_claim_that_waited_for_the_lock_passes_over_what_was_taken_meanwhile(file, backend, clock):
    backend.enqueue([an_envelope()])
    claimed = []
    with while_another_writes(file, lambda: claimed.extend(backend.claim(a_claim(owner="late")))) as other:
        other.execute("UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = 'early'")

    assert claimed == []
