"""Limits on a database server: never passed, whatever another claim does between any two statements of this one."""

import threading
from contextlib import ExitStack, closing

import pymysql
import pytest

from onward.backend import Claim, LimitRow, Session, Settlement, Turn
from onward.backends.mysql import MySQLBackend
from onward.backends.mysql.lane_view import MySQLView
from onward.backends.mysql.lanes import MOST_LOCKED, STRIPES, stripe_of
from onward.backends.mysql.transaction import Transaction
from onward.contract.transactions import run_steps
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.flow.room import Scope
from onward.job.states import State
from onward.testing.contract.builders import a_session, at_once, ids, some_envelopes
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn
from tests.servers.connecting import connected
from tests.waiting import eventually

WAITING = "SHOW GLOBAL STATUS WHERE variable_name = 'innodb_row_lock_current_waits' AND value <> '0'"

ONE_AT_ONCE = {
    "a job": (a_limit(running=1), in_lane(3)),
    "a key": (a_limit(kind="key", running=1), in_lane(3, "acme")),
    "a queue": (a_limit("default", "queue", running=1), some_envelopes(3)),
    "a rate": (a_limit(rate="1/min"), in_lane(3)),
    "a key's rate": (a_limit(kind="key", rate="1/min"), in_lane(3, "acme")),
}


class Interrupted(Transaction):
    """A transaction that is interrupted before one of its statements: then another process has its turn."""

    __slots__ = ("_act", "_before", "_names")

    def __init__(self, connection, sql, moved, names, before, act):
        super().__init__(connection, sql, moved)
        self._names, self._before, self._act = names, before, act

    def _send(self, sql, count, reply):
        if len(self._names) == self._before:
            self.flush()
            self._act()
        self._names.append(sql)
        super()._send(sql, count, reply)


def claim_of(backend, owner, limit=5):
    return backend.turn(Turn(owner=owner, claim=Claim(queues=("default",), limit=limit))).leases


def started_by_two(ours, theirs, limit, jobs, *, before):
    """The leases of two claims, of which the second one is made before the given statement of the first one."""
    ours.empty()
    for backend, owner in ((ours, "ours"), (theirs, "theirs")):
        backend.open_session(Session(owner=owner, limits=(limit,)))
    ours.enqueue(jobs)
    names, found = [], []
    plain = ours._transaction

    def act():
        ours._transaction = plain
        found.extend(claim_of(theirs, "theirs"))

    ours._transaction = lambda connection: Interrupted(connection, ours._sql, ours._moved, names, before, act)
    try:
        found.extend(claim_of(ours, "ours"))
    finally:
        ours._transaction = plain
    return found, names


def every_interleaving(ours, theirs, limit, jobs):
    """How many start in all, for every place in a claim at which another one may come."""
    _, statements = started_by_two(ours, theirs, limit, jobs, before=-1)
    places = range(2, len(statements))  # the first ones begin and lock the session
    return [len(started_by_two(ours, theirs, limit, jobs, before=place)[0]) for place in places]


def open_sessions(ours, theirs, *limits):
    ours.empty()
    for backend, owner in ((ours, "ours"), (theirs, "theirs")):
        backend.open_session(Session(owner=owner, limits=limits))


@pytest.fixture
def between(sql):
    """``between(ours, prepare, act, look)``: act beside every statement of a claim; return what is seen after each."""

    def claim_beside(ours, act, *, before):
        names, plain = [], ours._transaction
        other = threading.Thread(target=act)

        def start():
            ours._transaction = plain
            other.start()
            eventually(lambda: not other.is_alive() or sql(WAITING))  # it has ended, or waits for the claim

        ours._transaction = lambda c: Interrupted(c, ours._sql, ours._moved, names, before, start)
        claim_of(ours, "ours")
        ours._transaction = plain
        if other.ident is not None:
            other.join()
        return other.ident is not None

    def between(ours, prepare, act, look):
        seen = []
        prepare()
        while claim_beside(ours, act, before=2 + len(seen)):
            seen.append(look())
            prepare()
        assert len(seen) >= 8
        return seen

    return between


@pytest.mark.promise("L46", "L49")
class TestInterleavings:
    """Two claims on two connections, by every interleaving of one with the other's statements."""

    @pytest.mark.parametrize("kind", ONE_AT_ONCE)
    def test_a_limit_is_never_passed_and_is_reached(self, open_backend, kind):
        limit, jobs = ONE_AT_ONCE[kind]

        started = every_interleaving(open_backend(), open_backend(), limit, jobs)

        assert len(started) >= 8
        assert set(started) == {1}

    def test_a_job_is_counted_over_queues_whatever_the_order_in_which_they_are_named(self, open_backend):
        ours, theirs = open_backend(), open_backend()
        jobs = in_lane(2) + in_lane(2, queue="other")

        def there(queues):
            theirs.open_session(a_session("theirs"))
            return theirs.turn(Turn(owner="theirs", claim=Claim(queues=queues, limit=5))).leases

        declare(ours, a_limit(running=1))
        ours.enqueue(jobs)

        assert len(claimed(ours, queues=("default", "other"))) == 1
        assert there(("other", "default")) == []

    @pytest.mark.parametrize(("before", "after"), [(5, None), (None, 5)])
    def test_the_limit_of_a_key_holds_while_that_of_its_job_comes_or_goes(self, open_backend, between, before, after):
        ours, theirs = open_backend(), open_backend()
        limits = (a_limit(), a_limit(kind="key", running=1))

        def prepare():
            open_sessions(ours, theirs, *limits)
            theirs.set_limit("job", "render", Bounds(running=before))
            ours.enqueue(in_lane(3, "acme"))

        def change():
            theirs.set_limit("job", "render", Bounds(running=after))
            claim_of(theirs, "theirs")

        seen = between(ours, prepare, change, lambda: ours.counts()[State.EXECUTING])

        assert max(seen) == 1

    @pytest.mark.parametrize("kind", ["job", "key"])
    def test_a_claim_that_is_under_way_when_the_first_limit_is_set_is_counted(self, open_backend, between, kind):
        ours, theirs = open_backend(), open_backend()

        def prepare():
            open_sessions(ours, theirs)
            ours.enqueue(in_lane(12, "acme"))

        def change():
            theirs.set_limit(kind, "render", Bounds(running=5), new=True)
            claim_of(theirs, "theirs")

        seen = between(ours, prepare, change, lambda: ours.counts()[State.EXECUTING])

        assert set(seen) == {5}

    def test_a_turn_that_stands_still_keeps_no_renewal_and_no_plain_claim_waiting(self, open_backend, sql):
        """What sets the first limit waits for it.  Were sessions locked for that, all leases would expire meanwhile."""
        ours, theirs, third = open_backend(), open_backend(), open_backend()
        open_sessions(ours, theirs)
        ours.enqueue(in_lane(5, "acme") + some_envelopes(9, queue="other"))
        setting = threading.Thread(
            target=third.set_limit, args=("job", "render", Bounds(running=5)), kwargs={"new": True}
        )
        done, seen = [], []

        def go_on():
            done.append(theirs.extend("theirs").alive)
            leases = theirs.turn(Turn(owner="theirs", claim=Claim(queues=("other",), limit=9))).leases
            done.append(len(leases))
            done.append(all(answer.applied for answer in theirs.settle(list(map(Settlement.ack, leases)))))
            theirs.open_session(a_session("new"))
            done.append(theirs.reap())

        others = threading.Thread(target=go_on)

        def stand_still():
            ours._transaction = plain
            setting.start()
            eventually(lambda: not setting.is_alive() or sql(WAITING))
            others.start()
            others.join(10)
            seen.extend(done)

        names, plain = [], ours._transaction
        ours._transaction = lambda c: Interrupted(c, ours._sql, ours._moved, names, -1, None)
        released = claim_of(ours, "ours")
        ours.settle([Settlement.release(lease) for lease in released])
        (leasing,) = (at for at, each in enumerate(names) if b"job.delivery = job.delivery + 1" in each)
        names = []
        ours._transaction = lambda c: Interrupted(c, ours._sql, ours._moved, names, leasing, stand_still)

        assert len(claim_of(ours, "ours")) == 5

        others.join(30)
        setting.join(30)
        assert seen == [True, 9, True, []]

    def test_no_start_is_charged_by_a_rate_that_is_gone(self, open_backend, between):
        ours, theirs = open_backend(), open_backend()

        def prepare():
            open_sessions(ours, theirs, a_limit(rate="1000/d"))
            ours.enqueue(in_lane(20))

        def change():
            theirs.set_limit("job", "render", Bounds(rate=rate_of("100/min")))

        seen = between(ours, prepare, change, lambda: ours.limits()[0].tokens)

        assert min(seen) >= 95

    def test_a_snapshot_older_than_the_lock_would_pass_the_limit(self, open_backend):
        """Why Onward's sessions read what is committed: the same claims at the server's own default."""
        ours, theirs = open_backend(), open_backend()
        limit, jobs = ONE_AT_ONCE["a job"]
        started_by_two(ours, theirs, limit, jobs, before=-1)
        (connection,) = ours._connections._open.values()
        connection.send(b"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")

        assert max(every_interleaving(ours, theirs, limit, jobs)) > 1

    def test_a_slot_that_is_freed_meanwhile_is_used_or_found_later(self, open_backend):
        ours, theirs = open_backend(), open_backend()
        declare(theirs, a_limit(running=1), owner="theirs")
        theirs.enqueue(in_lane(40))
        ours.open_session(a_session("ours"))
        plain = ours._transaction
        for before in range(2, 20):
            (lease,) = claim_of(theirs, "theirs")
            names = []

            def act(lease=lease):
                ours._transaction = plain
                theirs.turn(Turn(owner="theirs", settlements=[Settlement.ack(lease)]))

            given = (names, before, act)
            ours._transaction = lambda c, given=given: Interrupted(c, ours._sql, ours._moved, *given)
            leases = claim_of(ours, "ours") or claim_of(ours, "ours")

            assert len(leases) == 1
            ours.turn(Turn(owner="ours", settlements=[Settlement.ack(leases[0])]))


@pytest.mark.promise("L46")
@pytest.mark.parametrize("isolation", ["REPEATABLE-READ", "SERIALIZABLE"])
def test_the_servers_default_isolation_passes_no_limit(spare_server, isolation):
    with closing(spare_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.tx_isolation")
        ((before,),) = cursor.fetchall()
        cursor.execute("SET GLOBAL tx_isolation = %s", (isolation,))
        try:
            seen = crowd(spare_server.emptied(), running=2)
        finally:
            cursor.execute("SET GLOBAL tx_isolation = %s", (before,))

    assert max(seen) == 2


def crowd(url, *, running):
    """How many were executing, each time one of four claimers had looked."""
    with ExitStack() as opened:
        backends = [opened.enter_context(closing(connected(MySQLBackend.from_url(url)))) for _ in range(4)]
        declare(backends[0], a_limit(running=running))
        backends[0].enqueue(in_lane(40))

        def work(number):
            backend, owner = backends[number], f"worker-{number}"
            backend.open_session(a_session(owner))
            seen = []
            for _ in range(12):
                leases = claim_of(backend, owner)
                seen.append(int(backend.counts()[State.EXECUTING]))
                backend.turn(Turn(owner=owner, settlements=[*map(Settlement.ack, leases)]))
            return seen

        return [number for seen in at_once(4, work) for number in seen]


class TestStripes:
    """What a claim locks, and what it leaves to others."""

    @pytest.fixture
    def hold(self, other_session):
        """Lock stripes as another process's turn does, until the block ends."""

        def begin(*scopes):
            stack = ExitStack()
            cursor = stack.enter_context(other_session())
            numbers = ",".join(str(stripe_of(scope)) for scope in scopes) or "nullif(number, 0)"
            cursor.execute(f"SELECT number FROM onward_stripes WHERE number IN ({numbers}) FOR UPDATE")
            cursor.fetchall()
            return stack

        return begin

    def test_they_are_always_there(self, backend, sql):
        backend.empty()

        assert sql("SELECT min(number), max(number), count(*) FROM onward_stripes") == [(0, STRIPES - 1, STRIPES)]

    def test_no_job_with_a_lane_starts_while_a_limit_changes_and_plain_queues_go_on(self, backend, other_session):
        backend.enqueue(in_lane(2, "acme") + some_envelopes(3, queue="other"))

        with other_session() as changing:
            changing.execute("SELECT number FROM onward_stripes WHERE number = 0 FOR UPDATE")
            changing.fetchall()
            result = turn(backend)
            assert (result.leases, result.more) == ([], True)
            assert len(turn(backend, queues=("other",)).leases) == 3

        assert len(claimed(backend)) == 2

    def test_without_the_stripe_of_all_limits_no_claim_is_told_to_try_again_at_once(self, backend, sql):
        backend.enqueue(in_lane(2, "acme"))
        sql("DELETE FROM jobs.onward_stripes WHERE number = 0")

        result = turn(backend)
        backend.prune({})

        assert (result.leases, result.more) == ([], False)
        assert len(claimed(backend)) == 2, "a prune inserts it again"

    def test_a_scope_that_another_turn_has_is_left_to_it_and_others_go_on(self, backend, hold):
        declare(backend, a_limit(running=5), a_limit("mail", running=5))
        backend.enqueue(in_lane(2) + in_lane(2, of="mail") + some_envelopes(1))

        with hold(Scope.of_lane("render/")):
            first = {lease.lane for lease in claimed(backend)}

        assert first == {"mail/", None}
        assert {lease.lane for lease in claimed(backend)} == {"render/"}

    def test_a_key_that_another_turn_has_is_left_to_it(self, backend, hold):
        declare(backend, a_limit(kind="key", running=5))
        backend.enqueue(in_lane(2, "acme") + in_lane(2, "other"))

        with hold(Scope.of_lane(lane_of("render", "acme"))):
            first = {lease.lane for lease in claimed(backend)}

        assert first == {lane_of("render", "other")}

    def test_a_worker_that_got_nothing_for_that_asks_again_soon(self, backend, hold):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(2))
        with hold(Scope.of_lane("render/")):
            assert claimed(backend) == []
            assert backend._until_work(["default"]) == 0

        backend.wait(["default"], 60)  # returns at once

        assert len(claimed(backend)) == 2

    def test_lanes_that_nothing_bounds_and_plain_jobs_need_none(self, backend, hold):
        backend.enqueue(in_lane(3, "acme", of="") + in_lane(3, "other", of="") + some_envelopes(3))
        backend.enqueue(some_envelopes(3, queue="plain"))

        with hold():
            assert len(claimed(backend)) == 9
            assert len(claimed(backend, queues=("plain",))) == 3

    def test_looking_for_lanes_locks_nothing(self, backend):
        backend.enqueue(in_lane(3, "acme") + in_lane(3, "other") + some_envelopes(3))
        locked = (
            b"SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = connection_id()"
        )

        with backend._connections.borrowed() as connection:
            tx = backend._transaction(connection)
            tx.ask("begin")
            view = MySQLView(tx, tx.ask("clock").value())
            assert view.rank_after("default", None) == 0
            lane = view.lane_after("default", 0, "", "render0")
            assert view.heads("default", 0, lane, 0, 3)
            (found,) = connection.send(locked)
            connection.send(b"ROLLBACK")

        assert found.rows in ([], [(0,)])

    def test_full_lanes_are_not_locked(self, backend, hold, sql):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(3))
        (lease,) = claimed(backend)
        names, plain = [], backend._transaction
        backend._transaction = lambda c: Interrupted(c, backend._sql, backend._moved, names, -1, None)

        assert claim_of(backend, lease.owner) == []

        backend._transaction = plain
        assert not any(b"JOIN onward_stripes" in sql for sql in names)

    @pytest.mark.promise("L51")
    def test_a_claim_locks_no_more_than_it_may_and_says_that_there_is_more(self, backend):
        declare(backend, a_limit(kind="key", running=1))
        backend.enqueue([in_lane(2, f"tenant-{number}")[0] for number in range(50)])

        result = backend.turn(Turn(owner="worker", claim=Claim(queues=("default",), limit=100)))

        assert (len(result.leases), result.more) == (MOST_LOCKED, True)
        assert len(claimed(backend)) == 50 - MOST_LOCKED

    def test_keys_of_a_job_that_is_locked_itself_need_none(self, backend):
        declare(backend, a_limit(running=100), a_limit(kind="key", running=1))
        backend.enqueue([in_lane(2, f"tenant-{number}")[0] for number in range(50)])

        assert len(backend.turn(Turn(owner="worker", claim=Claim(queues=("default",), limit=100))).leases) == 50


class TestRows:
    """What is stored."""

    def test_a_lane_may_be_as_long_as_names_and_keys_can_be(self, backend):
        job, key = "j" * 200, "\N{SNOWMAN}\N{GRINNING FACE}" * 100
        declare(backend, a_limit(job, "key", running=1))
        backend.enqueue(in_lane(3, key, of=job))

        assert [lease.lane for lease in claimed(backend)] == [lane_of(job, key)]
        assert claimed(backend) == []

    @pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
    def test_a_lane_joins_a_callers_transaction_whatever_its_character_set(self, backend, mariadb, charset):
        envelopes = in_lane(1, "Zoë \N{SNOWMAN}") + in_lane(1, "acme")
        with closing(mariadb.connect("jobs", charset=charset)) as connection, connection.cursor() as cursor:

            def run(statement):
                cursor.execute(statement.sql, statement.values or None)
                return cursor.fetchall() if cursor.description else ()

            run_steps(backend.joining(envelopes, "format"), run)
            connection.commit()

        assert {lease.lane for lease in claimed(backend)} == {each.lane for each in envelopes}

    def test_a_booked_job_is_booked_no_more_once_it_is_due_or_was_made_so(self, backend, sql, clock):
        declare(backend, a_limit(kind="key", rate="1/min"))
        backend.enqueue(in_lane(3, "acme"))
        claimed(backend)
        claimed(backend)
        assert sql("SELECT place, booked FROM onward_jobs WHERE state = 'scheduled'") == [(0, 1), (0, 1)]
        ((first,),) = sql("SELECT min(id) FROM onward_jobs WHERE state = 'scheduled'")

        backend.retry([first])
        clock.advance(120)
        backend.set_limit("key", "render", Bounds(rate=rate_of("10/min")))

        assert len(claimed(backend)) == 2
        assert sql("SELECT count(*) FROM onward_jobs WHERE booked IS NOT NULL") == [(0,)]

    def test_gates_that_say_nothing_any_more_are_dropped(self, backend, sql, clock):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue(in_lane(1, "acme") + in_lane(1, "other"))
        claimed(backend)
        clock.advance(3)
        backend.prune({}, limit=10)
        assert sql("SELECT count(*) FROM onward_gates") == [(2,)]

        clock.advance(60)
        backend.prune({}, limit=10)

        assert sql("SELECT count(*) FROM onward_gates") == [(0,)]

    def test_sessions_that_declare_the_same_limits_at_once_do_not_deadlock(self, open_backend, no_deadlock):
        rows = tuple(
            LimitRow(kind=kind, name=f"job-{number}", declared=Bounds(running=number))
            for kind in ("job", "key")
            for number in range(1, 20)
        )
        backends = [open_backend() for _ in range(4)]

        def opens(number):
            order = rows if number % 2 else rows[::-1]
            for again in range(5):
                backends[number].open_session(Session(owner=f"w-{number}-{again}", limits=order))

        at_once(4, opens)

        assert len(backends[0].limits()) == len(rows)


@pytest.mark.promise("L50")
def test_claimers_of_the_same_lanes_get_different_jobs(open_backend):
    backend = open_backend()
    backend.enqueue([each for number in range(5) for each in in_lane(40, f"tenant-{number}", of="")])
    backend.enqueue(some_envelopes(40))
    backends = [open_backend() for _ in range(4)]

    def work(number):
        owner, found, empty = f"worker-{number}", [], 0
        backends[number].open_session(a_session(owner))
        while empty < 20:
            leases = claim_of(backends[number], owner, limit=7)
            empty = 0 if leases else empty + 1
            found += ids(leases)
        return found

    found = [job_id for each in at_once(4, work) for job_id in each]

    assert len(found) == len(set(found)) == 240


@pytest.mark.parametrize("lane", ["", "render", "a/b\nc/d", "\U0010ffff/", b"render/\xff"])
def test_a_lane_that_no_walk_finds_is_refused(backend, sql, lane):
    backend.enqueue(some_envelopes(1))

    with pytest.raises(pymysql.MySQLError):
        sql("UPDATE jobs.onward_jobs SET lane = %s", lane)

    assert len(claimed(backend)) == 1
