"""Keys are locked in one order on PostgreSQL: a turn waits for another one's keys, and never both for each other's."""

import threading
from contextlib import contextmanager

import psycopg
import pytest

from onward.job.states import State
from onward.testing.contract.builders import some_envelopes
from tests.backends.key_order import KeyOrder
from tests.waiting import eventually


@pytest.fixture
def server(postgres):
    return postgres


@pytest.fixture
def waiting(sql):
    def count():
        ((number,),) = sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return number

    return count


@pytest.fixture
def held_back(url):
    @contextmanager
    def hold(key):
        with psycopg.connect(url) as other:
            locked = other.execute("SELECT 1 FROM onward_holds WHERE key = %s FOR UPDATE", [f"work/{key}"])
            if not locked.rowcount:
                other.execute("INSERT INTO onward_holds VALUES (0, NULL, 'once', %s, '')", [f"work/{key}"])
            yield
            other.rollback()

    return hold


class TestKeyOrder(KeyOrder):
    pass


@pytest.mark.promise("F34")
def test_a_cancellation_waits_for_a_job_with_no_other_in_hand(backend, url, waiting, no_deadlock):
    """A turn locks its leases in two statements, so it may have the second of two jobs and want the first."""
    first, second = sorted(backend.enqueue(some_envelopes(2)), key=lambda answer: answer.id)
    states = []
    with psycopg.connect(url) as turn:
        turn.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [second.id])
        cancelling = threading.Thread(target=lambda: states.extend(backend.cancel([first.id, second.id], "no")))
        cancelling.start()
        eventually(waiting)
        turn.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [first.id])
        turn.commit()
    cancelling.join(60)

    assert states == [State.CANCELLED, State.CANCELLED]
