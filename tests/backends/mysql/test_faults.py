"""What goes wrong with a server, in Onward's words: nothing of the driver's gets out, nothing is half-written."""

import threading

import pymysql
import pytest
from msgspec.structs import replace

from onward.backend import Settlement
from onward.backends.mysql import errors
from onward.backends.mysql.transaction import Transaction
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    StoreCorrupt,
    StoreFull,
)
from onward.job.states import State
from onward.testing.contract.builders import (
    a_claim,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    at_once,
    ids,
    some_envelopes,
)

LONG = "k" * 3_000  # longer than a column of keys


@pytest.fixture
def statements(monkeypatch):
    """Call something just before a statement is asked for: ``statements["commit"] = function``."""
    before = {}
    ask = Transaction.ask

    def ask_and_tell(self, name, **parameters):
        if name in before:
            before.pop(name)()
        return ask(self, name, **parameters)

    monkeypatch.setattr(Transaction, "ask", ask_and_tell)
    return before


def number_of(backend):
    """The server's number of the backend's one connection."""
    (connection,) = backend._connections._open.values()
    return connection.number


class TestWords:
    @pytest.mark.parametrize(
        ("number", "expected"),
        [
            (2006, BackendUnavailable),  # gone away
            (2013, BackendUnavailable),  # lost during the query
            (1053, BackendUnavailable),  # the server is going down
            (1927, BackendUnavailable),  # killed
            (1040, BackendUnavailable),  # too many connections
            (1205, BackendUnavailable),
            (1213, BackendUnavailable),
            (1290, BackendUnavailable),  # read only: a primary that is one no more
            (1021, StoreFull),
            (1114, StoreFull),
            (1034, StoreCorrupt),
            (1264, BackendRefused),  # a number out of range
            (1366, BackendRefused),  # not a character
            (1406, BackendRefused),  # too long
            (1644, BackendRefused),  # a trigger said no
            (4025, BackendRefused),  # a CHECK constraint, in MariaDB's words
            (3819, BackendRefused),  # and in MySQL's
            (1045, BackendMisconfigured),
            (1142, BackendMisconfigured),  # not permitted
            (1146, BackendMisconfigured),  # no such table
            (1665, BackendMisconfigured),  # binlog_format=STATEMENT
            (1999, BackendError),
        ],
    )
    def test_every_number_is_told_as_what_can_be_done_about_it(self, number, expected):
        assert type(errors.translation(pymysql.err.OperationalError(number, "no"), "here")) is expected

    @pytest.mark.parametrize("error", [pymysql.err.InterfaceError(0, ""), ConnectionResetError(104, "reset")])
    def test_a_connection_that_broke_may_come_back(self, error):
        assert type(errors.translation(error, "here")) is BackendUnavailable


@pytest.mark.promise("F71")
class TestRefused:
    @pytest.mark.parametrize(
        "envelope", [{"priority": 2**70}, {"not_before": 2**70}, {"unique_key": LONG}, {"id": LONG}]
    )
    def test_what_no_column_holds_is_refused_with_all_of_its_batch(self, backend, envelope):
        with pytest.raises(BackendRefused, match="nothing of the call was applied"):
            backend.enqueue([an_envelope(), replace(an_envelope(), **envelope), an_envelope()])

        assert sum(backend.counts().values()) == 0
        assert backend.enqueue([an_envelope()])[0].created

    def test_text_is_kept_as_it_is(self, backend):
        strange = 'it\'s a \\ "quote" \0 \n ü 漢 😀 %s :now ;'
        lease = a_lease(backend, payload={"text": strange})

        backend.abandon(lease, strange)

        stored = backend.get(lease.envelope.id)
        assert (stored.reason, stored.data) == (strange, lease.envelope.data)

    def test_keys_of_any_script_are_told_apart_whatever_the_database_was_made_for(self, backend):
        keys = ["漢", "字", "😀", "ü"]
        answers = backend.enqueue([an_envelope(unique_key=key, idempotency_key=key) for key in keys])
        again = backend.enqueue([an_envelope(unique_key=key) for key in keys])

        assert [answer.created for answer in answers] == [True] * 4
        assert [answer.existing_id for answer in again] == [answer.id for answer in answers]

    def test_a_key_that_ends_in_a_space_is_another_key(self, backend):
        answers = backend.enqueue([an_envelope(unique_key="k"), an_envelope(unique_key="k ")])

        assert [answer.created for answer in answers] == [True, True]


class TestPackets:
    @pytest.fixture
    def narrow(self, open_backend, backend):
        """A backend of a server that accepts little at a time."""
        client = open_backend()
        (connection,) = client._connections._open.values()
        connection.room = 64 * 1024
        return client

    def test_a_batch_that_is_too_large_for_one_statement_is_split_and_still_whole(self, narrow):
        batch = some_envelopes(30, payload="x" * 10_000)

        assert all(answer.created for answer in narrow.enqueue(batch))
        assert ids(narrow.claim(a_claim(limit=30))) == ids(batch)

    def test_a_job_that_is_too_large_for_any_is_refused_with_its_batch(self, narrow):
        with pytest.raises(BackendRefused, match="max_allowed_packet"):
            narrow.enqueue([*some_envelopes(5, payload="x" * 10_000), an_envelope(payload="x" * 100_000)])

        assert sum(narrow.counts().values()) == 0

    def test_so_is_a_result(self, narrow):
        lease = a_lease(narrow)

        with pytest.raises(BackendRefused, match="max_allowed_packet"):
            narrow.ack(lease, b"x" * 100_000)

        assert narrow.ack(lease, b"1").applied

    def test_the_limit_is_the_servers(self, backend, sql):
        ((limit,),) = sql("SELECT @@max_allowed_packet")
        (connection,) = backend._connections._open.values()

        assert limit - 2_000 < connection.room < limit


@pytest.mark.promise("F45")
class TestUndone:
    """A transaction that is rolled back by a conflict is run again, and the caller does not notice."""

    def test_a_deadlock_is_not_noticed(self, backend, other_session, sql, until):
        jobs = some_envelopes(2)
        backend.enqueue(jobs)
        first, second = ids(jobs)
        results = []
        before = _status(sql, "Innodb_deadlocks")
        with other_session() as other:
            # Who has written more is spared.
            for number in range(200):
                other.execute("INSERT INTO onward_queues (name) VALUES (%s)", (f"q{number}",))
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (second,))
            cancelling = threading.Thread(target=lambda: results.append(backend.cancel([first, second], "no")))
            cancelling.start()
            until(lambda: _status(sql, "Innodb_row_lock_current_waits") > 0)
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (first,))
        cancelling.join(30)

        assert results == [[State.CANCELLED, State.CANCELLED]]
        assert _status(sql, "Innodb_deadlocks") == before + 1

    def test_a_lock_that_comes_late_is_not_noticed(self, backend, other_session, until, sql):
        lease = a_lease(backend)
        _be_impatient(backend)
        results = []
        before = _status(sql, "Innodb_row_lock_waits")
        with other_session() as other:
            other.execute("SELECT 1 FROM onward_sessions FOR UPDATE")
            acking = threading.Thread(target=lambda: results.append(backend.ack(lease)))
            acking.start()
            until(lambda: _status(sql, "Innodb_row_lock_waits") >= before + 2)  # who waits again, waited in vain before
        acking.join(30)

        assert results[0].applied

    def test_many_who_ask_for_the_same_keys_in_any_order_all_get_an_answer(self, backend, open_backend):
        clients = [backend, open_backend(), open_backend()]
        keys = [f"k{number}" for number in range(12)]

        def enqueue(number):
            order = keys if number % 2 else keys[::-1]
            for _ in range(5):
                batch = [an_envelope(unique_key=key, unique_strategy="cancel_existing") for key in order]
                assert all(answer.created for answer in clients[number].enqueue(batch))
            return True

        assert at_once(3, enqueue) == [True] * 3
        assert backend.counts()[State.AVAILABLE] == len(keys)
        assert backend.counts()[State.CANCELLED] == 14 * len(keys)

    def test_it_is_given_up_in_the_end(self, backend, monkeypatch):
        def fail(*_):
            raise pymysql.err.OperationalError(1213, "again and again")

        monkeypatch.setattr(backend, "_transaction", fail)

        with pytest.raises(BackendUnavailable, match="rolled back 10 times by conflicts"):
            backend.enqueue([an_envelope()])


@pytest.mark.promise("F26", "F27", "F28")
class TestLostAnswers:
    def test_an_enqueue_whose_answer_is_lost_is_not_known_to_be_stored(self, open_backend, proxy, backend, until):
        client = open_backend(at=proxy.url)
        envelope = an_envelope()
        client.enqueue([an_envelope()])

        proxy.lose_the_next_answer()
        with pytest.raises(BackendUnavailable, match="unknown"):
            client.enqueue([envelope])

        until(lambda: backend.get(envelope.id) is not None)
        assert client.enqueue([envelope], retried=True)[0].existing_id == envelope.id

    @pytest.mark.parametrize("retention", [True, False], ids=["kept", "tombstone"])
    def test_a_settlement_whose_commit_got_no_answer_was_applied_once(
        self, open_backend, proxy, statements, backend, retention, until
    ):
        client = open_backend(at=proxy.url)
        lease = a_lease(client)
        ack = Settlement.ack(lease, keep=retention)

        statements["commit"] = proxy.lose_the_next_answer
        with pytest.raises(BackendUnavailable):
            client.settle([ack])

        until(lambda: backend.get(lease.envelope.id).state is State.COMPLETED)
        (answer,) = client.settle([ack])
        assert answer.already_applied
        assert backend.get(lease.envelope.id).attempts == 1

    def test_a_claim_whose_commit_got_no_answer_is_not_sent_again(
        self, open_backend, proxy, statements, backend, until
    ):
        client = open_backend(at=proxy.url)
        client.open_session(a_session("old"))
        client.enqueue(some_envelopes(5))

        statements["commit"] = proxy.lose_the_next_answer
        with pytest.raises(BackendUnavailable):
            client.turn(a_turn(owner="old", claim=a_claim(limit=2)))

        until(lambda: backend.counts()[State.EXECUTING] == 2)
        assert len(client.open_session(a_session("new"), adopts="old")) == 2
        assert backend.counts()[State.AVAILABLE] == 3

    @pytest.mark.parametrize("statement", ["lock_session", "complete", "candidates", "claim"])
    def test_a_turn_that_is_cut_before_its_commit_leaves_no_trace(
        self, open_backend, proxy, statements, backend, statement
    ):
        client = open_backend(at=proxy.url)
        lease = a_lease(client)
        client.enqueue(some_envelopes(2))

        statements[statement] = proxy.cut
        with pytest.raises(BackendUnavailable):
            client.turn(a_turn(Settlement.ack(lease), claim=a_claim(limit=9)))

        assert backend.counts()[State.EXECUTING] == 1
        result = client.turn(a_turn(Settlement.ack(lease), claim=a_claim(limit=9)))
        assert (result.settled[0].applied, len(result.leases)) == (True, 2)

    @pytest.mark.promise("F29", "CVE-2023-28858", "CVE-2023-28859")
    def test_a_call_that_is_interrupted_leaves_its_answers_to_no_other(self, backend, monkeypatch):
        """What was asked and not read must not be read by the next."""
        backend.enqueue([an_envelope()])
        (torn,) = backend._connections._open.values()
        monkeypatch.setattr(pymysql.connections.Connection, "_read_query_result", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            backend.counts()
        monkeypatch.undo()

        assert backend.counts()[State.AVAILABLE] == 1
        assert torn not in backend._connections._open.values()


@pytest.mark.promise("F26")
class TestKilled:
    def test_a_session_that_was_killed_while_idle_is_not_missed(self, backend, sql, until):
        backend.enqueue([an_envelope()])
        number = number_of(backend)
        sql(f"KILL {number}")
        until(lambda: not sql("SELECT 1 FROM information_schema.processlist WHERE id = %s", number))

        assert backend.enqueue([an_envelope()])[0].created

    def test_one_that_is_killed_in_the_middle_leaves_no_lock(self, backend, sql, statements):
        leases = [a_lease(backend), a_lease(backend)]
        number = number_of(backend)

        statements["finish"] = lambda: sql(f"KILL {number}")
        with pytest.raises(BackendUnavailable):
            backend.settle([Settlement.ack(leases[0]), Settlement.abandon(leases[1], "no")])

        assert backend.counts()[State.EXECUTING] == 2
        assert backend.ack(leases[0]).applied


class TestLocks:
    @pytest.mark.promise("F45")
    def test_two_claimers_do_not_wait_for_each_other(self, other_session, backend):
        jobs = some_envelopes(4)
        backend.enqueue(jobs)
        with other_session() as other:
            other.execute("SELECT 1 FROM onward_jobs ORDER BY id LIMIT 2 FOR UPDATE")

            assert ids(backend.claim(a_claim(limit=9))) == ids(jobs[2:])

    def test_a_sweep_leaves_what_is_locked_for_the_next(self, other_session, backend, clock):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3, lease_for=30))
        clock.advance(31)
        with other_session() as other:
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (leases[1].envelope.id,))

            assert [each.id for each in backend.reap()] == [leases[0].envelope.id, leases[2].envelope.id]

        assert [each.id for each in backend.reap()] == [leases[1].envelope.id]

    def test_a_sweep_leaves_a_session_that_is_talking(self, other_session, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(31)
        with other_session() as other:
            other.execute("SELECT 1 FROM onward_sessions FOR UPDATE")

            assert backend.reap() == []

        assert len(backend.reap()) == 1

    def test_a_lease_that_changes_hands_while_a_sweep_looks_at_it_is_not_swept(self, backend, sql, statements):
        """What the sweep saw is an orphan; what it would lock belongs to a session that was not there when it looked."""
        envelopes = some_envelopes(2)
        backend.enqueue(envelopes)
        backend.claim(a_claim(owner="lost", limit=2))
        first, second = ids(envelopes)
        sql("DELETE FROM onward_sessions")

        def change_hands():
            sql("UPDATE onward_jobs SET owner = 'fresh', delivery = delivery + 1 WHERE id = %s", first)
            sql("INSERT INTO onward_sessions VALUES ('fresh', %s, 30000000, 1, '', '', '')", 2**57)

        statements["lock_orphans"] = change_hands

        assert [each.id for each in backend.reap()] == [second]


def _be_impatient(backend):
    (connection,) = backend._connections._open.values()
    connection.send(b"SET SESSION innodb_lock_wait_timeout = 1")


def _status(sql, name):
    ((_, number),) = sql(f"SHOW GLOBAL STATUS LIKE '{name}'")
    return int(number)


def _interrupted(*_, **__):
    raise KeyboardInterrupt
