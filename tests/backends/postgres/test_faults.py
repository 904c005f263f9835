"""What goes wrong with a server, in Onward's words: nothing of the driver's gets out, nothing is half-written."""

import random
import threading
import time

import psycopg
import pytest
from msgspec.structs import replace

from onward.backend import Query, Settlement
from onward.backends.postgres import errors, queries
from onward.backends.postgres.transaction import Transaction
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

LONG = random.Random(1).randbytes(5_000).hex()  # too long for an index, however it is packed


@pytest.fixture
def statements(monkeypatch):
    """Call something just before a statement is sent: ``statements["commit"] = function``."""
    before = {}
    ask = Transaction.ask

    def ask_and_tell(self, name, **parameters):
        if name in before:
            before.pop(name)()
        return ask(self, name, **parameters)

    monkeypatch.setattr(Transaction, "ask", ask_and_tell)
    return before


def pid_of(backend):
    """The server's process for the backend's one connection."""
    (connection,) = backend._connections._open.values()
    return connection.info.backend_pid


class TestWords:
    @pytest.mark.parametrize(
        ("sqlstate", "expected"),
        [
            ("08006", BackendUnavailable),  # connection failure
            ("25006", BackendUnavailable),  # read only: a primary that is one no more
            ("40001", BackendUnavailable),
            ("40P01", BackendUnavailable),
            ("53100", StoreFull),
            ("53300", BackendUnavailable),  # too many connections
            ("55P03", BackendUnavailable),  # a lock was not to be had in time
            ("57014", BackendUnavailable),  # cancelled by an administrator
            ("57P01", BackendUnavailable),  # the server is going down
            ("57P03", BackendUnavailable),  # it is starting up
            ("XX001", StoreCorrupt),
            ("22021", BackendRefused),  # not a character
            ("22003", BackendRefused),  # a number out of range
            ("23502", BackendRefused),
            ("54000", BackendRefused),  # larger than an index allows
            ("P0001", BackendRefused),  # a trigger said no
            ("28P01", BackendMisconfigured),
            ("42501", BackendMisconfigured),  # not permitted
            ("42P01", BackendMisconfigured),  # no such table
            ("99999", BackendError),
        ],
    )
    def test_every_code_is_told_as_what_can_be_done_about_it(self, sqlstate, expected):
        error = psycopg.errors.lookup(sqlstate)("no") if sqlstate != "99999" else psycopg.Error("no")
        error.sqlstate = sqlstate

        assert type(errors.translation(error, "here")) is expected

    def test_a_connection_that_broke_may_come_back(self):
        assert type(errors.translation(psycopg.OperationalError("gone"), "here")) is BackendUnavailable


@pytest.mark.promise("F71")
class TestRefused:
    """NUL is what PostgreSQL keeps in no text."""

    def test_a_refused_envelope_stores_none_of_its_batch(self, backend):
        batch = some_envelopes(3)
        batch[1] = replace(batch[1], job="a\0b")

        with pytest.raises(BackendRefused, match="nothing of the call was applied"):
            backend.enqueue(batch)

        assert sum(backend.counts().values()) == 0

    def test_a_refused_reason_settles_nothing_of_its_turn(self, backend):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3))

        with pytest.raises(BackendRefused):
            backend.settle(
                [Settlement.ack(leases[0]), Settlement.abandon(leases[1], "a\0b"), Settlement.ack(leases[2])]
            )

        assert backend.counts()[State.EXECUTING] == 3
        assert backend.ack(leases[0]).applied

    @pytest.mark.parametrize("envelope", [{"priority": 2**70}, {"not_before": 2**70}, {"unique_key": LONG}])
    def test_what_no_column_or_index_holds_is_refused(self, backend, envelope):
        with pytest.raises(BackendRefused):
            backend.enqueue([replace(an_envelope(), **envelope)])

        assert backend.enqueue([an_envelope()])[0].created


@pytest.mark.promise("F45")
class TestUndone:
    """A transaction that is rolled back by a conflict is run again, and the caller does not notice."""

    def test_a_deadlock_is_not_noticed(self, backend, open_backend, url, report):
        jobs = some_envelopes(2, delay=60)
        backend.enqueue(jobs)
        first, second = ids(jobs)
        with psycopg.connect(url) as other:
            other.execute("SET deadlock_timeout = '60s'")  # so that the other one is the victim
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (second,))
            making_due = threading.Thread(target=lambda: results.append(backend.retry([first, second])))
            results = []
            making_due.start()
            _until_it_waits(url)
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (first,))
            other.commit()
        making_due.join(30)

        assert results == [[True, True]]

    def test_nor_is_one_in_a_turn(self, backend, url):
        """Its settlements are applied once, whatever was tried before."""
        backend.enqueue(some_envelopes(2))
        leases = backend.claim(a_claim(owner="me", limit=2))
        first, second = sorted(lease.envelope.id for lease in leases)
        results = []
        with psycopg.connect(url) as other:
            other.execute("SET deadlock_timeout = '60s'")
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (second,))
            turn = a_turn(*map(Settlement.ack, leases), owner="me", claim=a_claim(owner="me"))
            settling = threading.Thread(target=lambda: results.append(backend.turn(turn)))
            settling.start()
            _until_it_waits(url)
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (first,))
            other.commit()
        settling.join(30)

        assert [answer.applied for answer in results[0].settled] == [True, True]
        assert backend.counts()[State.COMPLETED] == 2

    def test_a_serialization_failure_is_not_noticed(self, fresh_url, open_backend):
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            connection.execute(
                f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = serializable"
            )
        # Behind a pooler no client can choose the isolation of a single statement.
        backend = open_backend(at=f"{fresh_url}&pooler=transaction&pool_size=8")
        backend.open_session(a_session("me"))

        assert [renewal.alive for renewal in at_once(8, lambda _: backend.extend("me"))] == [True] * 8

    def test_many_who_ask_for_the_same_keys_in_any_order_all_get_an_answer(self, backend, open_backend, no_deadlock):
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
            raise psycopg.errors.SerializationFailure("again and again")

        monkeypatch.setattr(backend, "_transaction", fail)

        with pytest.raises(BackendUnavailable, match="rolled back 10 times"):
            backend.enqueue([an_envelope()])


@pytest.mark.promise("F26", "F27", "F28")
class TestLostAnswers:
    def test_an_enqueue_whose_answer_is_lost_is_not_known_to_be_stored(self, open_backend, proxy, backend):
        client = open_backend(at=proxy.url)
        envelope = an_envelope()
        client.enqueue([an_envelope()])

        proxy.lose_the_next_answer()
        with pytest.raises(BackendUnavailable, match="unknown"):
            client.enqueue([envelope])

        _until(lambda: backend.get(envelope.id) is not None)
        assert client.enqueue([envelope], retried=True)[0].existing_id == envelope.id

    @pytest.mark.parametrize("retention", [True, False], ids=["kept", "tombstone"])
    def test_a_settlement_whose_commit_got_no_answer_was_applied_once(
        self, open_backend, proxy, statements, backend, retention
    ):
        client = open_backend(at=proxy.url)
        lease = a_lease(client)
        ack = Settlement.ack(lease, keep=retention)

        statements["commit"] = proxy.lose_the_next_answer
        with pytest.raises(BackendUnavailable):
            client.settle([ack])

        _until(lambda: backend.get(lease.envelope.id).state is State.COMPLETED)
        (answer,) = client.settle([ack])
        assert answer.already_applied
        assert backend.get(lease.envelope.id).attempts == 1

    def test_a_claim_whose_commit_got_no_answer_is_not_sent_again(self, open_backend, proxy, statements, backend):
        client = open_backend(at=proxy.url)
        client.open_session(a_session("old"))
        client.enqueue(some_envelopes(5))

        statements["commit"] = proxy.lose_the_next_answer
        with pytest.raises(BackendUnavailable):
            client.turn(a_turn(owner="old", claim=a_claim(limit=2)))

        _until(lambda: backend.counts()[State.EXECUTING] == 2)
        assert len(client.open_session(a_session("new"), adopts="old")) == 2
        assert backend.counts()[State.AVAILABLE] == 3

    @pytest.mark.parametrize("statement", ["lock_session", "settle", "complete", "nack", "promote", "claim"])
    def test_a_turn_that_is_cut_before_its_commit_leaves_no_trace(
        self, open_backend, proxy, statements, backend, statement
    ):
        client = open_backend(at=proxy.url)
        lease = a_lease(client)
        client.enqueue(some_envelopes(2))

        # What has nothing to tell is completed.
        end = (
            Settlement.nack(lease, 60)
            if statement == "nack"
            else Settlement.ack(lease, b"1" if statement == "settle" else None)
        )

        statements[statement] = proxy.cut
        with pytest.raises(BackendUnavailable):
            client.turn(a_turn(end, claim=a_claim(limit=9)))

        assert backend.counts()[State.EXECUTING] == 1
        result = client.turn(a_turn(end, claim=a_claim(limit=9)))
        assert (result.settled[0].applied, len(result.leases)) == (True, 2)


@pytest.mark.promise("F26")
class TestTerminated:
    def test_a_session_that_was_ended_while_idle_is_not_missed(self, backend, sql):
        backend.enqueue([an_envelope()])
        pid = pid_of(backend)
        sql("SELECT pg_terminate_backend(%s)", pid)
        _until(lambda: not sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid))

        assert backend.enqueue([an_envelope()])[0].created

    def test_one_that_is_ended_in_the_middle_leaves_no_lock(self, backend, sql, statements):
        lease = a_lease(backend)
        pid = pid_of(backend)

        statements["complete"] = lambda: sql("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(BackendUnavailable):
            backend.ack(lease)

        assert backend.ack(lease).applied


class TestLocks:
    def test_a_lock_that_is_never_given_back_is_waited_for_only_so_long(self, url, open_backend, backend):
        lease = a_lease(backend)
        impatient = open_backend(at=f"{url}&options=-clock_timeout%3D50ms")
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_sessions FOR UPDATE")

            with pytest.raises(BackendUnavailable, match="lock timeout"):
                impatient.ack(lease)

        assert impatient.ack(lease).applied

    @pytest.mark.promise("F45")
    def test_two_claimers_do_not_wait_for_each_other(self, url, open_backend, backend):
        jobs = some_envelopes(4)
        backend.enqueue(jobs)
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_jobs ORDER BY id LIMIT 2 FOR UPDATE")

            assert ids(backend.claim(a_claim(limit=9))) == ids(jobs[2:])

    def test_a_sweep_leaves_what_is_locked_for_the_next(self, url, backend, clock):
        backend.enqueue(some_envelopes(3))
        leases = backend.claim(a_claim(limit=3, lease_for=30))
        clock.advance(31)
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", (leases[1].envelope.id,))

            assert [each.id for each in backend.reap()] == [leases[0].envelope.id, leases[2].envelope.id]

        assert [each.id for each in backend.reap()] == [leases[1].envelope.id]

    def test_a_sweep_leaves_a_session_that_is_talking(self, url, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(31)
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_sessions FOR UPDATE")

            assert backend.reap() == []

        assert len(backend.reap()) == 1

    def test_a_lease_that_changes_hands_while_a_sweep_looks_at_it_is_not_swept(self, url, backend, sql):
        """What the sweep saw is an orphan; what it would lock belongs to a session that was not there when it looked."""
        envelopes = some_envelopes(2)
        backend.enqueue(envelopes)
        backend.claim(a_claim(owner="lost", limit=2))
        first, second = ids(envelopes)
        sql("DELETE FROM onward_sessions")
        lock = "SELECT pg_advisory_xact_lock(7) IS NOT NULL"
        sql(f"CREATE FUNCTION dawdle(id text) RETURNS boolean LANGUAGE sql AS $$ {lock} $$")
        statement, names = backend._sql["orphans"]
        # The very statement, but it waits for us between looking and locking.
        slow = statement.replace(b"WHERE id = lost.id", b"WHERE dawdle(lost.id) AND id = lost.id")
        backend._sql = {**backend._sql, "orphans": queries.Section(slow, names)}
        try:
            with psycopg.connect(url) as other:
                other.execute("SELECT pg_advisory_xact_lock(7)")
                sweep = threading.Thread(target=lambda: reaped.extend(backend.reap()))
                reaped = []
                sweep.start()
                _until_it_waits(url)
                other.execute("UPDATE onward_jobs SET owner = 'fresh', delivery = delivery + 1 WHERE id = %s", (first,))
                other.execute("INSERT INTO onward_sessions VALUES (%s, 30000000, 1, 'fresh', '', '')", (2**57,))
            sweep.join(30)
        finally:
            sql("DROP FUNCTION dawdle")

        assert [each.id for each in reaped] == [second]
        assert backend.get(first).owner == "fresh"


class TestThreads:
    def test_more_threads_than_connections_share_them(self, open_backend, url):
        backend = open_backend(at=f"{url}&pool_size=2")

        stored = at_once(8, lambda _: [backend.enqueue([an_envelope()])[0].created for _ in range(10)])

        assert all(all(answers) for answers in stored)
        assert len(backend._connections._open) <= 2

    def test_a_thread_that_gets_no_connection_is_told_so(self, open_backend, url):
        backend = open_backend(at=f"{url}&pool_size=1")
        backend._connections.borrow_timeout = 0.05

        with backend._connections.borrowed(), pytest.raises(BackendUnavailable, match="raise pool_size"):
            backend.enqueue([an_envelope()])

    def test_what_is_closed_stays_closed(self, backend):
        backend.close()

        with pytest.raises(BackendError, match="closed"):
            backend.enqueue([an_envelope()])

    def test_closing_gives_the_connections_back(self, backend, sql):
        backend.wait(["nothing"], 0.01)
        backend.close()

        _until(lambda: not sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'onward'"))

    @pytest.mark.promise("F29", "CVE-2023-28858", "CVE-2023-28859")
    @pytest.mark.parametrize("statement", ["begin", "lock_session", "settle", "claim", "commit"])
    def test_a_call_that_is_interrupted_leaves_its_answers_to_no_other(self, backend, statements, statement):
        lease = a_lease(backend)
        other = an_envelope(queue="other")
        backend.enqueue([other])

        def interrupt():
            raise KeyboardInterrupt

        statements[statement] = interrupt
        with pytest.raises(KeyboardInterrupt):
            backend.turn(a_turn(Settlement.ack(lease, b"1"), claim=a_claim(queues=("other",))))

        assert backend.get(other.id).state is State.AVAILABLE
        assert [job.id for job in backend.list(Query())] == sorted([lease.envelope.id, other.id])
        assert backend.ack(lease).applied


def _until(fact, patience=30):
    deadline = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _until_it_waits(url):
    with psycopg.connect(url, autocommit=True) as looking:
        _until(
            lambda: looking.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'onward'"
            ).fetchone()
        )
