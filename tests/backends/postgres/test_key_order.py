"""Keys are locked in one order on PostgreSQL: a turn waits for another one's keys, and never both for each other's."""

import threading
from contextlib import contextmanager

import psycopg
import pytest

from onward.backend import Claim, Hold, Settlement, Turn
from onward.backends.postgres import queries
from onward.job.states import State
from onward.testing.contract.builders import a_session, some_envelopes
from tests.backends.key_order import FIRST, KeyOrder, keyed, leases_of
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


@pytest.mark.promise("F34")
def test_a_turn_that_has_to_wait_for_a_job_behind_a_key_has_no_key_in_hand(
    backend, open_backend, server, url, waiting, monkeypatch
):
    """The server waits in spite of SKIP LOCKED where a row's newest version is locked by the time that it gets there."""
    (lease,) = leases_of(backend, "one", FIRST)
    backend.open_session(a_session("two"))
    backend.enqueue([keyed(FIRST, queue="later")])
    (waiter,) = backend.turn(Turn(owner="two", claim=Claim(queues=("later",), limit=1))).leases
    assert waiter.hold is Hold.BUSY
    backend.turn(Turn(owner="two", settlements=[Settlement.snooze(waiter, 60, waits=1)]))
    sections = queries.load

    def waits(prefix):
        loaded = sections(prefix)
        section = loaded["once_waiters"]
        return {
            **loaded,
            "once_waiters": section._replace(sql=section.sql.replace(b"FOR UPDATE SKIP LOCKED", b"FOR UPDATE")),
        }

    monkeypatch.setattr(queries, "load", waits)
    client, results = open_backend(), []
    with server.without_deadlock(), psycopg.connect(url) as claim:
        claim.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [waiter.envelope.id])
        turn = Turn(owner="one", settlements=[Settlement.ack(lease)])
        turning = threading.Thread(target=lambda: results.append(client.turn(turn)))
        turning.start()
        eventually(waiting)
        claim.execute("SELECT 1 FROM onward_holds WHERE key = %s FOR UPDATE", [f"work/{FIRST}"])
        claim.commit()
        turning.join(60)

    assert [answer.applied for result in results for answer in result.settled] == [True]
    assert backend.get(waiter.envelope.id).state is State.AVAILABLE
