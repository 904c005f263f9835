"""Waking: one notification for all that a call did, few who come for one job, and work gets done without any."""

import threading
import time

import psycopg
import pytest

from onward.backend import Settlement
from onward.backends.postgres import wake
from onward.backends.postgres.transaction import Transaction
from onward.backends.postgres.wake import ClaimDelay
from onward.backends.postgres.wire import Wire
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope, some_envelopes

NEVER = 3600


@pytest.fixture
def heard(backend, url):
    """What was said since the last time this was asked, to a worker that sleeps."""
    with psycopg.connect(url, autocommit=True) as ear:
        ear.execute("LISTEN onward_wake")
        ear.execute("INSERT INTO onward_waiters (id, until) VALUES ('sleeper', %s)", (2**62,))
        yield lambda: [note.payload for note in ear.notifies(timeout=0.05)]


@pytest.fixture
def no_looking(monkeypatch):
    """Let only notifications wake workers."""
    for name in ("_FIRST", "_LISTENING", "_LOOKING"):
        monkeypatch.setattr(wake, name, NEVER)


@pytest.fixture
def deaf(monkeypatch):
    """Let no notification arrive."""
    monkeypatch.setattr(wake.Listener, "_opened", lambda self: None)


class TestSaying:
    def test_a_job_that_is_due_is_said(self, backend, heard):
        backend.enqueue([an_envelope()])

        assert heard() == ['["default"]']

    @pytest.mark.promise("F39")
    def test_nothing_is_said_where_no_worker_listens(self, backend, heard, sql):
        sql("UPDATE onward_waiters SET until = 1")

        backend.enqueue([an_envelope()])

        assert heard() == []

    def test_a_job_for_later_is_not(self, backend, heard):
        backend.enqueue([an_envelope(delay=60), an_envelope(not_before=2**57)])

        assert heard() == []

    def test_a_job_that_is_due_before_the_next_look_is_said(self, backend, heard):
        backend.enqueue([an_envelope(delay=0.5)])

        assert heard() == ['["default"]']

    @pytest.mark.promise("F39")
    def test_a_thousand_jobs_are_said_once(self, backend, heard):
        backend.enqueue([*some_envelopes(500), *some_envelopes(500, queue="mail")])

        assert heard() == ['["default","mail"]']

    def test_more_queues_than_can_be_named_are_said_as_any(self, backend, heard):
        backend.enqueue([an_envelope(queue=f"a-queue-with-a-long-name-{number}") for number in range(400)])

        assert heard() == [""]

    def test_a_success_is_not_said(self, backend, heard):
        lease = a_lease(backend)
        heard()

        backend.ack(lease)

        assert heard() == []

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda backend, lease: backend.release(lease), id="release"),
            pytest.param(lambda backend, lease: backend.nack(lease), id="nack"),
            pytest.param(lambda backend, lease: backend.reap(owner=lease.owner), id="reap"),
            pytest.param(lambda backend, lease: backend.reap(owner=lease.owner, started=()), id="end"),
            pytest.param(lambda backend, lease: backend.pause("default", paused=False), id="resume"),
            pytest.param(
                lambda backend, lease: backend.settle([Settlement.crashed(lease, "killed")]), id="settled crash"
            ),
        ],
    )
    def test_what_comes_back_at_once_is_said(self, backend, heard, act):
        lease = a_lease(backend)
        heard()

        act(backend, lease)

        assert heard() == ['["default"]']

    def test_the_end_of_a_hold_is_said_for_who_waits(self, backend, heard):
        backend.enqueue(some_envelopes(2, single_instance=True, queue="mail"))
        held, busy = backend.claim(a_claim(limit=2, queues=["mail"]))
        backend.turn(a_turn(Settlement.snooze(busy, 60, waits=1)))
        heard()

        backend.ack(held)

        assert heard() == ['["mail"]']

    @pytest.mark.parametrize("count", [1, 3])
    def test_where_a_worker_was_idle_it_is_said_without_waiting_for_the_answer(
        self, backend, heard, monkeypatch, count
    ):
        exchanges = []
        flush = Wire._flush
        monkeypatch.setattr(Wire, "_flush", lambda wire: (exchanges.append(wire), flush(wire)))

        told = []
        for _ in range(3):
            exchanges.clear()
            backend.enqueue(some_envelopes(count))
            told.append((heard(), len(exchanges)))

        first, *later = told
        assert first[0] == ['["default"]']
        assert later == [(['["default"]'], 1)] * 2

    def test_once_no_worker_is_idle_any_more_it_is_said_once_at_most(self, backend, heard, sql):
        backend.enqueue([an_envelope()])
        sql("UPDATE onward_waiters SET until = 1")
        backend.enqueue([an_envelope()])
        heard()

        backend.enqueue([an_envelope()])

        assert heard() == []

    @pytest.mark.parametrize("count", [1, 3])
    def test_a_job_that_is_there_already_is_stored_once_also_where_a_worker_was_idle(self, backend, heard, count):
        envelopes = some_envelopes(count)
        backend.enqueue(envelopes)
        heard()

        again = backend.enqueue([*envelopes[:1], *some_envelopes(count - 1)])

        assert [each.created for each in again] == [False] + [True] * (count - 1)
        assert backend.counts()["available"] == 2 * count - 1

    @pytest.mark.promise("F39")
    @pytest.mark.parametrize("earlier", [0, 1])  # enqueues, which saw an idle worker
    def test_nothing_is_said_before_it_is_stored(self, backend, heard, sql, earlier):
        """In one transaction with the job, the notification would keep every other commit of the database waiting."""
        for _ in range(earlier):
            backend.enqueue([an_envelope()])
        heard()
        sql("CREATE FUNCTION too_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
        sql(
            "CREATE CONSTRAINT TRIGGER too_late AFTER INSERT ON onward_jobs DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION too_late()"
        )
        try:
            with pytest.raises(Exception, match="no"):
                backend.enqueue([an_envelope()])
        finally:
            sql("DROP TRIGGER too_late ON onward_jobs")
            sql("DROP FUNCTION too_late")

        assert heard() == []

    @pytest.mark.usefixtures("heard")  # so that there is somebody to notify
    def test_a_notification_that_cannot_be_sent_spoils_nothing(self, backend, monkeypatch):
        ask = Transaction.ask

        def refuse(self, name, **parameters):
            return (
                ask(self, name, **{**parameters, "queues": "x" * 9_000})
                if name == "wake_apart"
                else ask(self, name, **parameters)
            )

        monkeypatch.setattr(Transaction, "ask", refuse)

        assert backend.enqueue([an_envelope()])[0].created
        assert backend.enqueue([an_envelope()])[0].created  # in the same exchange
        assert backend.enqueue([an_envelope(unique_key="k")])[0].created
        assert backend.counts()["available"] == 3


class TestHearing:
    def test_a_notification_ends_it_without_looking(self, open_backend, start, sql, no_looking):
        backend = open_backend()
        waiting = start(_WAIT, NEVER)
        _until_a_worker_sleeps(sql)

        said = time.monotonic()
        backend.enqueue([an_envelope()])

        assert waiting.stdout.readline() == "woken\n"
        assert time.monotonic() - said < 5

    def test_one_for_another_queue_does_not(self, backend, sql, no_looking):
        waiting = threading.Thread(target=backend.wait, args=(["video"], 60))
        waiting.start()
        _until_a_worker_sleeps(sql)

        backend.enqueue([an_envelope(queue="mail")])

        waiting.join(0.3)
        assert waiting.is_alive()
        backend.enqueue([an_envelope(queue="video")])
        waiting.join(30)
        assert not waiting.is_alive()

    def test_work_in_a_paused_queue_wakes_no_worker(self, backend):
        backend.pause("default")
        backend.enqueue([an_envelope()])
        started = time.monotonic()

        backend.wait(["default"], 0.15)

        assert time.monotonic() - started >= 0.15

    def test_it_never_sleeps_past_the_next_due_job(self, open_backend, no_looking):
        backend = open_backend(clock=None)
        backend.enqueue([an_envelope(delay=0.1, queue="mail"), an_envelope(delay=NEVER, queue="mail")])

        backend.wait(["video", "mail"], NEVER)

        assert backend.claim(a_claim(queues=["mail"]))

    def test_a_closed_backend_lets_its_sleepers_go(self, backend, sql):
        waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
        waiting.start()
        _until_a_worker_sleeps(sql)

        backend.close()

        waiting.join(30)
        assert not waiting.is_alive()

    @pytest.mark.promise("F39")
    def test_who_cannot_hear_looks(self, backend, open_backend, deaf):
        other = open_backend()
        waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
        waiting.start()

        other.enqueue([an_envelope()])

        waiting.join(10)
        assert not waiting.is_alive()

    @pytest.mark.promise("F39")
    def test_a_job_without_a_notification_is_found_by_looking(self, backend, sql):
        waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
        waiting.start()
        _until_a_worker_sleeps(sql)

        # As if its process had died between the commit and the notification.
        sql(
            "INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed) "
            "VALUES ('x', 'default', 'available', 0, 0, 3, 0, 'work', '')"
        )

        waiting.join(10)
        assert not waiting.is_alive()

    def test_who_lost_its_connection_hears_again(self, backend, sql, no_looking):
        waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
        waiting.start()
        _until_a_worker_sleeps(sql)
        before = _listeners(sql)
        sql("SELECT pg_terminate_backend(%s)", before[0][0])
        _until(lambda: _listeners(sql) not in ([], before))

        backend.enqueue([an_envelope()])

        waiting.join(30)
        assert not waiting.is_alive()

    def test_who_sleeps_leaves_word_for_a_while(self, backend, sql):
        backend.wait(["default"], 0.01)

        assert sql("SELECT count(*) FROM onward_waiters WHERE until > onward_now(NULL)") == [(1,)]

    def test_the_word_of_who_is_gone_is_forgotten(self, backend, sql):
        sql("INSERT INTO onward_waiters (id, until) VALUES ('gone', 1)")

        backend.prune({})

        assert sql("SELECT count(*) FROM onward_waiters") == [(0,)]

    def test_who_cannot_hear_leaves_no_word(self, backend, sql, deaf):
        backend.wait(["default"], 0.01)

        assert sql("SELECT count(*) FROM onward_waiters") == [(0,)]

    def test_notifications_do_not_pile_up_while_it_works(self, backend, monkeypatch):
        monkeypatch.setattr(wake, "_EMPTY_EVERY", 0)
        backend.wait(["nothing"], 0.01)
        backend.open_session(a_session())
        for _ in range(20):
            backend.enqueue([an_envelope(queue="mail")])

        def left_by_a_turn():
            backend.turn(a_turn())
            return list(backend._waiting.listener._connection.notifies(timeout=0))

        _until(lambda: left_by_a_turn() == [])  # the last of them may still have been on its way

    def test_sleeping_costs_less_than_a_hundredth_of_a_core(self, open_backend, report):
        backend = open_backend(clock=None)
        backend.wait(["default"], 0.1)
        used = time.thread_time()

        backend.wait(["default", "mail", "video"], 2)

        used = time.thread_time() - used
        report(f"an idle worker's wait on PostgreSQL: {used / 2:.2%} of a core")
        assert used < 0.01 * 2


class TestComing:
    @pytest.mark.promise("F40")
    def test_of_many_idle_workers_few_come_for_one_job(self, open_backend, start, sql, report):
        backend, rounds = open_backend(), 5
        crowd = [start(_CROWD, 10, number) for number in range(5)]

        for _ in range(rounds):
            _until_everybody_knows_of_everybody(sql, count=50)
            backend.enqueue([an_envelope()])
            _until(lambda: backend.counts()["available"] == 0)
        _until_everybody_knows_of_everybody(sql, count=50)
        came = 0
        for process in crowd:
            print("enough", file=process.stdin, flush=True)
            came += int(process.stdout.readline())

        report(f"50 idle workers, one job on PostgreSQL: {came / rounds:.1f} of them came for it on average")
        # A herd would be all of them; how few it is depends on how long the machine lets a look take.
        assert 1 <= came / rounds <= 8

    def test_a_lone_worker_does_not_wait(self):
        delay = ClaimDelay()
        delay.lost()

        assert delay.seconds() == 0

    def test_who_comes_in_vain_waits_longer_and_who_finds_work_shorter(self):
        delay = ClaimDelay()
        shares = [delay._share]
        for learn in (delay.lost, delay.lost, delay.claimed, delay.claimed):
            learn()
            shares.append(delay._share)

        assert shares == [1, 2, 2, 1, 0.5]

    def test_who_always_finds_work_soon_does_not_wait_at_all(self):
        delay = ClaimDelay()
        delay.rivals = 50
        for _ in range(10):
            delay.claimed()

        assert delay.seconds() == 0

    def test_who_was_sent_for_work_and_got_none_does_not_spin(self, backend, url):
        """The job is locked by a session that takes its time: it can be seen, but not claimed."""
        backend.enqueue([an_envelope()])
        backend.open_session(a_session("me"))
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_jobs FOR UPDATE")
            rounds, deadline = 0, time.monotonic() + 0.5
            while time.monotonic() < deadline:
                backend.wait(["default"], 1)
                assert backend.turn(a_turn(owner="me", claim=a_claim())).leases == []
                rounds += 1

        assert rounds < 30
        assert backend.claim(a_claim(owner="me"))


def _until_a_worker_sleeps(sql, count=1):
    """Who sleeps has left word, and listened before that."""
    _until(lambda: len(_sleepers(sql)) == count and len(_listeners(sql)) == count)


def _until_everybody_knows_of_everybody(sql, count):
    """Who looks renews its word and counts that of the others: so all look once more after the last has come."""
    _until_a_worker_sleeps(sql, count)
    before = _sleepers(sql)
    _until(lambda: before.isdisjoint(_sleepers(sql)))


def _sleepers(sql):
    return set(sql("SELECT id, until FROM onward_waiters"))


def _listeners(sql):
    return sql("SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN onward_wake'")


def _until(fact, patience=30):
    deadline = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


_WAIT = """
    import sys
    from onward.backends.postgres import PostgresBackend, wake

    wake._FIRST = wake._LISTENING = float(sys.argv[2])
    backend = PostgresBackend.from_url(sys.argv[1])
    backend.wait(["default"], 3600)
    print("woken", flush=True)
"""

_CROWD = """
    import sys, threading
    from onward.backend import Claim, Session, Turn
    from onward.backends.postgres import PostgresBackend

    count, number = map(int, sys.argv[2:])
    claims, claimed = [], threading.Lock()

    def work(owner):
        backend = PostgresBackend.from_url(sys.argv[1])
        backend.open_session(Session(owner=owner))
        turn = Turn(owner=owner, claim=Claim(queues=("default",)))
        backend.turn(turn)  # as every worker does before it sleeps
        while True:
            backend.wait(["default"], 3600)
            leases = backend.turn(turn).leases
            with claimed:
                claims.append(len(leases))

    for at in range(count):
        threading.Thread(target=work, args=(f"{number}-{at}",), daemon=True).start()
    sys.stdin.readline()
    print(len(claims), flush=True)
"""
