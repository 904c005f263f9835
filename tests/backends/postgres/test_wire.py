"""Statements that go to libpq directly: in step with the server whatever happens on the way."""

import os
import signal
import threading
from contextlib import closing, suppress

import psycopg
import pytest

from onward.backends.postgres.connection import Connection

_DOUBLE = b"SELECT cast($1 AS bigint) * 2"
_SLEEP = b"SELECT pg_sleep(60)"
_NONSENSE = b"SELECT FROM WHERE"
_BROKEN = b"SELECT 1 / cast($1 AS bigint)"


@pytest.fixture(params=[0, None], ids=["prepared", "unprepared"])
def connection(url, request):
    with closing(Connection.connect(url, autocommit=True, prepare_threshold=request.param)) as connection:
        yield connection


@pytest.fixture
def wire(connection):
    return connection.wire


def is_in_step(connection):
    state = connection.pgconn
    return (state.transaction_status, state.pipeline_status) == (
        psycopg.pq.TransactionStatus.IDLE,
        psycopg.pq.PipelineStatus.OFF,
    ) and connection.wire.send(_DOUBLE, [21]).value() == 42


def send_all(wire, *statements, into=None):
    """In one pipeline; ``into``: where the replies go."""
    with wire.pipeline():
        replies = [] if into is None else into
        for sql, *values in statements:
            replies.append(wire.send(sql, values))


@pytest.mark.promise("F30")
def test_a_name_means_one_statement_in_every_session(url):
    # A pooler may lend the session of one client to another, which believes that it has prepared its own statements there.
    prepared = set()
    for sql, value in ((_DOUBLE, 21), (b"SELECT cast($1 AS bigint) + 2", 40), (_DOUBLE, 21)):
        with closing(Connection.connect(url, autocommit=True, prepare_threshold=0)) as connection:
            assert connection.wire.send(sql, [value]).value() == 42
            found = connection.execute("SELECT name, statement FROM pg_prepared_statements", prepare=False)
            prepared |= set(found.fetchall())

    assert len({name for name, _ in prepared}) == len({statement for _, statement in prepared}) == len(prepared) == 2


def test_values_arrive_as_they_were(wire):
    given = ["text \N{SNOWMAN}", -(2**63), 2**63 - 1, True, False, b"\x00\xff", None]
    sql = (
        b"SELECT cast($1 AS text), cast($2 AS bigint), cast($3 AS bigint), cast($4 AS boolean), cast($5 AS boolean), "
        b"cast($6 AS bytea), cast($7 AS text)"
    )

    assert wire.send(sql, given).row() == tuple(given)


def test_a_list_is_an_array_and_nothing_may_stand_where_a_number_did(wire):
    sql = b"SELECT cast($1 AS text[]), cast($2 AS bytea[]), cast($3 AS bigint)"

    assert wire.send(sql, [['quo"ted', None], [b"\x00", b""], 1]).row() == (['quo"ted', None], [b"\x00", b""], 1)
    assert wire.send(sql, [[], [b""], None]).row() == ([], [b""], None)


@pytest.mark.parametrize("value", ["cut\0off", ["cut\0off"], 2**63, "\ud800"])
def test_what_the_server_cannot_take_is_refused_before_it_is_sent(connection, wire, value):
    with pytest.raises((psycopg.DataError, OverflowError, UnicodeEncodeError)):
        wire.send(_DOUBLE, [value])

    assert is_in_step(connection)


def test_a_statement_without_rows_says_what_it_did(wire):
    assert wire.send(b"CREATE TEMPORARY TABLE noted (id bigint)", []).status == "CREATE TABLE"
    assert wire.send(b"INSERT INTO noted VALUES ($1)", [1]).status == "INSERT 0 1"


def test_a_failure_outside_a_pipeline_is_raised_at_once(connection, wire):
    with pytest.raises(psycopg.errors.DivisionByZero):
        wire.send(_BROKEN, [0])

    assert is_in_step(connection)


def test_a_pipeline_answers_in_any_order_of_reading(connection, wire):
    with wire.pipeline():
        replies = [wire.send(_DOUBLE, [number]) for number in range(50)]
        assert replies[30].value() == 60
        assert replies[10].value() == 20

    assert [reply.value() for reply in replies] == [number * 2 for number in range(50)]
    assert is_in_step(connection)


def test_the_first_failure_of_a_pipeline_is_raised_at_its_end_and_nothing_after_it_is_done(connection, wire):
    replies = []
    with pytest.raises(psycopg.errors.DivisionByZero):
        send_all(wire, (_DOUBLE, 1), (_BROKEN, 0), (_DOUBLE, 2), into=replies)

    before, _, after = replies
    assert before.value() == 2
    assert after.status is None
    assert is_in_step(connection)


def test_a_failure_before_what_is_read_is_raised_there(connection, wire):
    def read_the_second():
        with wire.pipeline():
            wire.send(_BROKEN, [0])
            wire.send(_DOUBLE, [2]).value()

    with pytest.raises(psycopg.errors.DivisionByZero):
        read_the_second()

    assert is_in_step(connection)


def test_who_ignores_a_failure_is_told_that_nothing_after_it_was_done(connection, wire):
    def ignore_the_first():
        with wire.pipeline():
            with suppress(psycopg.errors.DivisionByZero):
                wire.send(_BROKEN, [0]).value()
            wire.send(_DOUBLE, [2])

    with pytest.raises(psycopg.errors.PipelineAborted):
        ignore_the_first()

    assert is_in_step(connection)


def test_what_was_to_be_prepared_after_a_failure_is_prepared_the_next_time(connection, wire):
    with pytest.raises(psycopg.errors.DivisionByZero):
        send_all(wire, (_BROKEN, 0), (b"SELECT cast($1 AS bigint) + 1", 1))
    with pytest.raises(psycopg.errors.SyntaxError):
        wire.send(_NONSENSE, [])
    with pytest.raises(psycopg.errors.SyntaxError):
        wire.send(_NONSENSE, [])

    assert wire.send(b"SELECT cast($1 AS bigint) + 1", [1]).value() == 2


def test_statements_after_one_that_could_not_be_prepared_have_names_of_their_own(wire):
    with pytest.raises(psycopg.errors.SyntaxError):
        send_all(wire, (b"SELECT 'the first'",), (_NONSENSE,), (b"SELECT 'the third'",))
    wire.send(b"SELECT 'the fourth'", [])
    statements = [b"SELECT cast($1 AS bigint) + %d" % number for number in range(5)]

    assert [wire.send(sql, [0]).value() for sql in statements] == list(range(5))
    assert [wire.send(sql, [0]).value() for sql in statements] == list(range(5))


def test_more_than_the_buffers_hold_goes_both_ways_at_once(wire):
    """Neither side waits for the other to listen first."""
    large = "x" * 2_000_000

    with wire.pipeline():
        replies = [wire.send(b"SELECT cast($1 AS text)", [large]) for _ in range(10)]

    assert all(reply.value() == large for reply in replies)


@pytest.mark.parametrize("pipelined", [False, True], ids=["alone", "in a pipeline"])
def test_an_ended_session_is_told_as_such(connection, wire, sql, pipelined):
    (pid,) = wire.send(b"SELECT pg_backend_pid()", []).row()
    threading.Thread(target=_end_when_asleep, args=(sql, pid)).start()
    with pytest.raises(psycopg.OperationalError):
        send_all(wire, (_SLEEP,)) if pipelined else wire.send(_SLEEP, [])

    with pytest.raises(psycopg.OperationalError):
        wire.send(_DOUBLE, [1])


def test_a_signal_gets_through_to_a_thread_that_waits(connection, wire, sql):
    class Rang(BaseException):
        pass

    def ring(*_):
        raise Rang

    (pid,) = wire.send(b"SELECT pg_backend_pid()", []).row()
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        threading.Thread(target=_ring_when_asleep, args=(sql, pid)).start()
        with pytest.raises(Rang), wire.pipeline():
            wire.send(_SLEEP, []).rows()
    finally:
        signal.signal(signal.SIGUSR1, before)
        sql("SELECT pg_terminate_backend(%s)", pid)  # it would keep its snapshot

    assert connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE  # so it is not used again


def _end_when_asleep(sql, pid):
    _wait_until_asleep(sql, pid)
    sql("SELECT pg_terminate_backend(%s)", pid)


def _ring_when_asleep(sql, pid):
    _wait_until_asleep(sql, pid)
    os.kill(os.getpid(), signal.SIGUSR1)


def _wait_until_asleep(sql, pid):
    while not sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'", pid):
        pass
