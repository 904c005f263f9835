"""Claims of limited lanes, statement by statement: in every order no limit is passed, and none is left unused for long."""

import itertools
import math
import threading
import time
from collections import Counter

import psycopg
import pytest

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.backends.postgres.lanes import _number
from onward.backends.postgres.wake import EVERY_QUEUE
from onward.flow.limits import Bounds, rate_of
from onward.flow.room import Scope
from onward.job.states import State
from onward.testing.contract.builders import a_session, ids, some_envelopes
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn
from tests.backends.postgres.stepping import Side, SteppedBackend, in_order
from tests.waiting import eventually

# What two claims of one limit can do to each other is decided by these; the others go along with the one before.
CLAIM = ["keep_limits", "lock_scopes", "running_in", "take", "commit"]
REAP = ["end_expired_sessions", "orphans", "settle", "commit"]
PASSING = (
    "begin",
    "lock_session",
    "promote",
    "claim",
    "walk_lanes",
    "pinned",
    "try_gates",
    "line_heads",
    "charge_gate",
    "wake_apart",
    "complete",
)
PASSING += ("limits", "choose_limit", "lock_gate", "put_gate")
CHANGE = ["lock_limits", "commit"]
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
TWO_CLAIMS = list(itertools.combinations(range(2 * len(CLAIM)), len(CLAIM)))
CLAIM_AND_CHANGE = list(itertools.combinations(range(2 * len(CLAIM) + len(CHANGE)), len(CLAIM)))
CLAIM_AND_REAP = list(itertools.combinations(range(len(CLAIM) + len(REAP)), len(CLAIM)))


@pytest.fixture
def postgres(newest_postgres):
    """The statements are the same for all versions: one is asked."""
    return newest_postgres


@pytest.fixture
def open_backend(open_backend, monkeypatch):
    monkeypatch.setattr(PostgresBackend, "from_url", SteppedBackend.from_url)
    return open_backend


@pytest.fixture
def sides(open_backend, sql):
    """Two processes, whose verbs are let on statement by statement."""
    processes = []
    for name in ("first", "second"):
        process = open_backend()
        process.open_session(Session(owner=name))
        process.side = Side(sql, PASSING)
        processes.append(process)
    return processes


def executing(backend):
    return backend.counts()[State.EXECUTING]


def claim_of(process, owner, *queues, limit=3):
    return lambda: process.turn(Turn(owner=owner, claim=Claim(queues=queues or ("default",), limit=limit)))


def find_lanes(process):
    """Let a process find that its queues have lanes: it walks at its next claim."""
    side, process.side = process.side, None
    leases = turn(process, owner="knows", queues=("default", "other"), limit=1).leases
    process.settle([Settlement.release(lease) for lease in leases])
    process.side = side


@pytest.fixture
def race(backend, sides):
    """``race(first, second, orders, restore)``: run two verbs in all orders; return the number of leases after each."""

    def race(first, second, orders, restore):
        seen = []
        count = 1 + max(map(max, orders))
        for order in orders:
            for process, act in zip(sides, (first, second), strict=True):
                process.side.start(act)
            in_order(sides[0].side, sides[1].side, order, count)
            seen.append(executing(backend))
            restore()
        return seen

    return race


@pytest.fixture
def four_of_five(backend, sides):
    """A job with a limit of five, four of which run; many keys wait.  Returns the ids of those that run."""
    declare(backend, a_limit(running=5), owner="holder")
    backend.enqueue(
        [in_lane(1, f"tenant-{key}", queue=queue)[0] for key in range(60) for queue in ("default", "other")]
    )
    held = turn(backend, owner="holder", limit=4).leases
    for process in sides:
        find_lanes(process)
    return {lease.envelope.id for lease in held}


@pytest.fixture
def end_others(backend, sql):
    """Put back what runs besides these ids."""

    def end(kept):
        sql(
            "UPDATE onward_jobs SET state = 'available', owner = NULL WHERE state = 'executing' AND NOT id = ANY (%s)",
            sorted(kept),
        )

    return end


@pytest.mark.promise("L46")
class TestTwoClaims:
    def test_two_that_see_four_of_five_start_one(self, sides, race, four_of_five, end_others):
        acts = claim_of(sides[0], "first"), claim_of(sides[1], "second")

        seen = race(*acts, TWO_CLAIMS, lambda: end_others(four_of_five))

        assert len(seen) == 252
        assert set(seen) == {5}, "one of them starts the fifth, and none a sixth"

    def test_a_job_is_counted_and_locked_over_all_its_queues(self, sides, race, four_of_five, end_others):
        acts = claim_of(sides[0], "first", "default"), claim_of(sides[1], "second", "other")

        seen = race(*acts, TWO_CLAIMS, lambda: end_others(four_of_five))

        assert set(seen) == {5}

    def test_one_that_got_nothing_because_of_the_lock_is_to_claim_again(self, backend, sql, four_of_five):
        number = _number("onward_", Scope.of_lane("render/"))
        began = time.monotonic()
        with backend._connections.borrowed() as other:
            other.execute("BEGIN")
            other.execute("SELECT pg_advisory_xact_lock($1)", (number,))
            plain = some_envelopes(2)
            backend.enqueue(plain)

            result = turn(backend, owner="waits", limit=10)
            again = turn(backend, owner="waits", limit=10)
            other.execute("ROLLBACK")

        assert sorted(ids(result.leases)) == sorted(ids(plain)), "lanes without a limit need no lock"
        assert (again.leases, again.more) == ([], True)
        assert time.monotonic() - began < 10
        assert len(claimed(backend, owner="waits")) == 1

    @pytest.mark.promise("L51")
    def test_no_more_than_32_locks_are_taken_by_a_claim(self, backend, open_backend, sql):
        declare(backend, a_limit(kind="key", running=1))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(100)])
        locked = []

        def count(name):
            if name == "commit":
                locked.extend(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0])

        process = open_backend()
        process.open_session(Session(owner="locks"))
        process.side = Side(sql, ())
        process.side.stop_before = count
        result = process.turn(Turn(owner="locks", claim=Claim(queues=("default",), limit=100)))

        assert locked[-1] == 32, "one of them keeps limits as they are"
        assert (len(result.leases), result.more) == (31, True)
        assert len(claimed(backend)) == 69


class TestChanges:
    """A claim, and in another process a change of a limit that is followed by a claim, statement by statement."""

    @pytest.fixture
    def change_and_claim(self, sides):
        def prepared(bounds, *queues):
            def act():
                sides[1].set_limit("job", "render", bounds)
                claim_of(sides[1], "second", *queues)()

            return act

        return prepared

    @pytest.mark.promise("L46", "L47")
    @pytest.mark.parametrize(("before", "after"), [(5, None), (None, 5)])
    def test_the_limit_of_a_key_holds_while_that_of_its_job_comes_or_goes(
        self, backend, sides, race, change_and_claim, end_others, before, after
    ):
        declare(backend, a_limit(), a_limit(kind="key", running=1), owner="holder")
        backend.enqueue(in_lane(5, "acme") + in_lane(5, "acme", queue="other"))
        for process in sides:
            find_lanes(process)

        def restore():
            end_others(())
            backend.set_limit("job", "render", Bounds(running=before))

        restore()
        acts = claim_of(sides[0], "first"), change_and_claim(Bounds(running=after), "other")
        seen = race(*acts, CLAIM_AND_CHANGE[::6], restore)

        assert set(seen) == {1}

    @pytest.mark.promise("L49")
    def test_no_start_is_charged_by_a_rate_that_is_gone(
        self, backend, sides, race, change_and_claim, end_others, clock
    ):
        declare(backend, a_limit(rate="1000/d"), owner="holder")
        backend.enqueue(in_lane(20))
        for process in sides:
            find_lanes(process)
        tokens = []

        def restore():
            tokens.append(backend.limits()[0].tokens)
            end_others(())
            backend.set_limit("job", "render", Bounds())

        backend.set_limit("job", "render", Bounds(rate=rate_of("999/d")))
        restore()
        acts = claim_of(sides[0], "first"), change_and_claim(Bounds(rate=rate_of("100/min")))
        race(*acts, CLAIM_AND_CHANGE[::6], restore)

        assert len(tokens) > 100
        assert min(tokens) >= 100 - 2 * 3, "each of the two claims takes three, by the new rate"


@pytest.mark.promise("L49")
class TestRates:
    def test_tokens_are_counted_by_the_time_at_which_the_lock_is_held(self, open_backend, sql):
        """By an earlier one the bucket would look as if the clock had been set back: that would add tokens."""
        slow, quick = open_backend(clock=None), open_backend(clock=None)
        declare(slow, a_limit(rate="100/s", burst=50), owner="slow")
        slow.enqueue(in_lane(20))
        assert [len(turn(each, owner=name, limit=2).leases) for each, name in ((slow, "slow"), (quick, "quick"))] == [
            2,
            2,
        ]
        slow.side = Side(sql, PASSING)
        slow.side.start(claim_of(slow, "slow"))
        slow.side.let_on()  # it has walked

        assert len(turn(quick, owner="quick", limit=2).leases) == 2
        ((charged_at, full_at),) = sql("SELECT charged_at, full_at FROM onward_gates")
        while not slow.side.has_ended:
            slow.side.let_on()

        ((later, fuller),) = sql("SELECT charged_at, full_at FROM onward_gates")
        assert later > charged_at
        assert fuller == max(full_at, later) + 3 * 10_000
        assert sql("SELECT max(started_at) FROM onward_jobs") == [(later,)], "it starts when its token was counted"


@pytest.mark.promise("L46")
class TestReaping:
    def test_a_claim_beside_a_reap_never_counts_a_lease_too_few(self, backend, sides, race, clock, sql):
        declare(backend, a_limit(running=5), owner="dies")
        backend.enqueue(in_lane(20))
        held = {lease.envelope.id for lease in turn(backend, owner="dies", limit=5).leases}
        for process in sides:
            find_lanes(process)
        clock.advance(3600)

        def restore():
            sql("UPDATE onward_jobs SET state = 'available', owner = NULL, crashes = 0")
            sql("UPDATE onward_jobs SET state = 'executing', owner = 'dies' WHERE id = ANY (%s)", sorted(held))
            side, sides[0].side = sides[0].side, None
            sides[0].open_session(a_session("first"))
            sides[0].side = side
            sql("INSERT INTO onward_sessions VALUES (1, 1, 1, 'dies', '', '') ON CONFLICT DO NOTHING")

        restore()
        seen = race(claim_of(sides[0], "first", limit=9), sides[1].reap, CLAIM_AND_REAP, restore)

        assert len(seen) == 126
        assert max(seen) <= 5

    def test_reaped_settled_late_and_adopted_there_are_never_more_leases_than_the_limit(
        self, backend, open_backend, clock
    ):
        declare(backend, a_limit(running=5), owner="slow")
        backend.enqueue(in_lane(20))
        slow = claimed(backend, owner="slow")
        clock.advance(3600)
        other = open_backend()

        assert (len(slow), claimed(other, owner="fresh")) == (5, [])
        backend.reap()
        fresh = claimed(other, owner="fresh")
        assert len(fresh) == 5
        late = backend.turn(Turn(owner="fresh", settlements=[Settlement.ack(lease) for lease in slow]))
        assert not any(answer.applied for answer in late.settled)
        assert executing(backend) == 5
        adopted = backend.open_session(a_session("heir"), adopts="fresh")
        assert len(adopted) == 5
        assert claimed(backend, owner="heir") == []
        assert executing(backend) == 5


class TestQueueLimits:
    def test_a_claim_that_was_under_way_when_the_limit_was_set_is_counted(self, backend, sides, sql):
        backend.enqueue(some_envelopes(20))
        claiming = sides[0].side
        claiming.passing = ("begin", "lock_session", "promote", "pinned", "wake_apart")
        sides[0]._lanes._walked.clear()
        claiming.start(claim_of(sides[0], "first", limit=4))
        claiming.let_on()  # `claim` has leased its jobs, and is not committed

        setting = threading.Thread(
            target=backend.set_limit, args=("queue", "default", Bounds(running=5)), kwargs={"new": True}
        )
        setting.start()
        eventually(lambda: sql(WAITING) or not setting.is_alive())
        claiming.let_on()
        setting.join(30)

        assert claiming.sent == ["claim", "commit"]
        assert len(claimed(backend, owner="second")) == 1
        assert executing(backend) == 5

    def test_a_plain_job_that_was_counted_stands_in_the_plain_line_when_it_comes_back(self, backend, sql):
        declare(backend, a_limit("default", "queue", running=1))
        backend.enqueue(some_envelopes(1))
        (lease,) = claimed(backend)
        assert sql("SELECT lane FROM onward_jobs") == [("",)]

        backend.nack(lease, 0)

        assert backend.get(lease.envelope.id).lane is None
        (again,) = claimed(backend)
        assert (again.envelope.id, again.lane) == (lease.envelope.id, None)


class TestFirstLimits:
    @pytest.mark.parametrize("kind", ["job", "key"])
    @pytest.mark.parametrize("leased", [True, False], ids=["after", "before"])
    def test_a_claim_under_way_is_counted_by_the_first_limit(self, backend, sides, sql, kind, leased):
        backend.enqueue(in_lane(20, "acme"))
        find_lanes(sides[0])
        claiming = sides[0].side
        claiming.start(claim_of(sides[0], "first", limit=4))
        for _ in range(2 if leased else 1):
            claiming.let_on()

        setting = threading.Thread(
            target=backend.set_limit, args=(kind, "render", Bounds(running=5)), kwargs={"new": True}
        )
        setting.start()
        eventually(lambda: sql(WAITING) or not setting.is_alive())
        turns = []

        def claim_others():
            while not turns or turns[-1].more:
                turns.append(turn(sides[1], owner="second"))

        claims = threading.Thread(target=claim_others)
        sides[1].side = None
        claims.start()
        eventually(lambda: turns)
        while claiming.can_go_on:
            claiming.let_on()
        setting.join(30)
        claims.join(30)

        assert sum(len(each.leases) for each in turns) == 1
        assert executing(backend) == 5

    def test_a_turn_that_stands_still_keeps_no_renewal_and_no_plain_claim_waiting(self, backend, sides, sql):
        """What sets the limit waits for it.  Were sessions locked for that, all leases would expire meanwhile."""
        backend.enqueue(in_lane(5, "acme") + some_envelopes(9, queue="other"))
        find_lanes(sides[0])
        still, sides[1].side = sides[0].side, None
        still.start(claim_of(sides[0], "first"))
        still.let_on()
        setting = threading.Thread(
            target=backend.set_limit, args=("job", "render", Bounds(running=5)), kwargs={"new": True}
        )
        setting.start()
        eventually(lambda: sql(WAITING) or not setting.is_alive())
        done = []

        def go_on():
            done.append(sides[1].extend("second").alive)
            leases = sides[1].turn(Turn(owner="second", claim=Claim(queues=("other",), limit=9))).leases
            done.append(len(leases))
            done.append(all(answer.applied for answer in sides[1].settle(list(map(Settlement.ack, leases)))))
            sides[1].open_session(Session(owner="third"))
            done.append(sides[1].reap())

        others = threading.Thread(target=go_on)
        others.start()
        others.join(10)
        seen = list(done)
        while still.can_go_on:
            still.let_on()
        others.join(30)
        setting.join(30)

        assert seen == [True, 9, True, []]

    def test_a_limit_that_is_not_the_first_waits_for_no_claim(self, backend, sides):
        declare(backend, a_limit(running=5), owner="holder")
        backend.enqueue(some_envelopes(3, queue="other"))
        claiming = sides[0].side
        claiming.start(claim_of(sides[0], "first", "other"))
        claiming.let_on()

        assert backend.set_limit("job", "render", Bounds(running=2))
        declare(backend, a_limit(running=7), owner="holder")

        while claiming.can_go_on:
            claiming.let_on()


class TestStatements:
    """How many there are, and in how many round trips."""

    @pytest.fixture
    def sent(self, open_backend, sql):
        process = open_backend()
        process.open_session(Session(owner="worker"))
        process.side = Side(sql, ())
        names = []
        process.side.stop_before = names.append

        def claim(limit=10):
            names.clear()
            process.turn(Turn(owner="worker", claim=Claim(queues=("default",), limit=limit)))
            return [name for name in names if name not in ("pinned", "wake_apart")]

        return claim

    @pytest.mark.promise("L53")
    def test_a_queue_without_lanes_has_the_statements_it_always_had(self, backend, sent):
        backend.enqueue(some_envelopes(3))

        assert sent() == ["begin", "lock_session", "promote", "claim", "commit"]

    def test_lanes_without_a_limit_take_two_statements_more_in_one_round_trip_more(self, backend, sent):
        backend.enqueue([each for key in range(50) for each in in_lane(3, f"tenant-{key}", of="")])
        assert sent() == ["begin", "lock_session", "promote", "claim", "keep_limits", "walk_lanes", "take", "commit"]

        assert sent() == ["begin", "lock_session", "promote", "keep_limits", "walk_lanes", "take", "commit"], "it knows"

    def test_a_limit_is_locked_counted_and_charged(self, backend, sent):
        declare(backend, a_limit(running=50, rate="50/s"))
        backend.enqueue(in_lane(100))
        sent()

        looking = ["keep_limits", "walk_lanes", "lock_scopes", "try_gates", "running_in", "line_heads"]
        assert sent() == ["begin", "lock_session", "promote", *looking, "charge_gate", "take", "commit"]

    def test_a_full_job_is_neither_locked_nor_taken_from(self, backend, sent):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(100))
        sent()

        assert sent() == ["begin", "lock_session", "promote", "keep_limits", "walk_lanes", "commit"]


class TestLooking:
    """A look for work makes the walk of a claim: that a full lane has jobs waiting is no work."""

    def due(self, backend, *queues):
        return backend._look(queues or ("default",), None)[0]

    def test_an_open_lane_is_work_and_a_full_one_is_not(self, backend):
        declare(backend, a_limit(running=2))
        backend.enqueue(in_lane(5))
        assert self.due(backend) == 0

        leases = claimed(backend)
        assert self.due(backend) == math.inf

        backend.ack(leases[0])
        assert self.due(backend) == 0

    def test_it_knows_when_the_next_token_comes(self, backend):
        declare(backend, a_limit(rate="10/min"))
        backend.enqueue(in_lane(20))
        claimed(backend)

        assert self.due(backend) == 6

    def test_booked_jobs_are_due_at_their_tokens(self, backend):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue(in_lane(20, "acme"))
        claimed(backend)
        claimed(backend)

        assert self.due(backend) == 6

    def test_a_shut_job_is_no_work_until_it_is_opened(self, backend):
        backend.enqueue(in_lane(2))
        backend.shut("render/")
        assert self.due(backend) == math.inf

        backend.shut("render/", opened=True)
        assert self.due(backend) == 0

    def test_a_limited_queue_of_plain_jobs_is_looked_at_likewise(self, backend):
        backend.set_limit("queue", "default", Bounds(running=1), new=True)
        backend.enqueue(some_envelopes(2))
        assert self.due(backend) == 0

        claimed(backend)
        assert self.due(backend) == math.inf

    def test_full_lanes_beyond_what_one_statement_looks_at_do_not_hide_an_open_one(self, backend):
        declare(backend, a_limit(kind="key", running=1))
        backend.enqueue([each for number in range(300) for each in in_lane(2, f"tenant-{number}")])
        claimed(backend, limit=300)
        assert self.due(backend) == math.inf

        backend.enqueue(in_lane(1, "free"))

        assert self.due(backend) == 0


def test_lanes_of_unlike_length_are_read_by_few_statements(backend, open_backend, sql):
    """What the short ones do not give is taken of the long ones: more than was read of these at first."""
    backend.enqueue(
        [each for number in range(50) for count in (1, 10) for each in in_lane(count, f"{count}-of-{number}")]
    )
    process = open_backend()
    process.open_session(Session(owner="reads"))
    process.side, sent = Side(sql, ()), []
    process.side.stop_before = sent.append

    leases = process.turn(Turn(owner="reads", claim=Claim(queues=("default",), limit=300))).leases

    assert sorted(Counter(lease.lane for lease in leases).values()) == [1] * 50 + [5] * 50
    assert sent.count("line_heads") == 1


def test_a_key_of_a_job_that_was_not_seen_is_taken_before_the_commit(backend, sides, sql):
    """Another turn has the jobs that a walk has seen: it gets those behind them, and one has a key."""
    declare(backend, a_limit(kind="key", running=1), owner="holder")
    backend.enqueue([each for number in range(10) for each in in_lane(2, f"tenant-{number}")])
    assert len(claimed(backend, owner="holder")) == 10, "full lanes are looked at, too: little is read of the open one"
    backend.enqueue([*in_lane(12, of="other"), *in_lane(12, of="other", single_instance="one at a time")])
    for process in sides:
        find_lanes(process)
    first, second = (process.side for process in sides)
    first.start(claim_of(sides[0], "first", limit=8))
    while "take" not in first.sent:
        first.let_on()

    second.start(claim_of(sides[1], "second", limit=8))
    while second.can_go_on:
        second.let_on()
    while first.can_go_on:
        first.let_on()

    assert sql("SELECT count(*) FROM onward_holds") == [(1,)]
    assert second.sent.index("take_holds") < second.sent.index("commit")


class TestWaking:
    @pytest.fixture
    def heard(self, url):
        """What was said since the last time this was asked."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("LISTEN onward_wake")
            yield lambda: [note.payload for note in connection.notifies(timeout=0.05)]

    def test_a_slot_that_the_turn_does_not_use_itself_is_said_to_every_queue(self, backend, heard):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(1) + in_lane(1, queue="other"))
        (lease,) = claimed(backend)
        heard()

        backend.ack(lease)

        assert heard() == [EVERY_QUEUE]

    def test_a_slot_that_the_turn_uses_is_not_said(self, backend, heard):
        declare(backend, a_limit(running=2))
        backend.enqueue(in_lane(10))
        leases = claimed(backend)
        heard()

        assert len(turn(backend, *map(Settlement.ack, leases)).leases) == 2

        assert heard() == []

    def test_a_wider_limit_and_an_opened_job_are_said(self, backend, heard):
        declare(backend, a_limit(running=1))
        heard()

        backend.set_limit("job", "render", Bounds(running=2))
        assert heard() == [EVERY_QUEUE]
        backend.shut("render/")
        assert heard() == []
        backend.shut("render/", opened=True)
        assert heard() == [EVERY_QUEUE]


class TestGates:
    def test_a_gate_that_says_nothing_any_more_is_dropped_by_a_prune(self, backend, sql, clock):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue([each for key in "abc" for each in in_lane(2, key)])
        claimed(backend)
        backend.shut("mail/")
        backend.prune({})
        assert len(sql("SELECT lane FROM onward_gates")) == 4

        clock.advance(60)
        backend.prune({})

        assert sql("SELECT lane FROM onward_gates") == [("mail/",)]


@pytest.mark.parametrize("lane", ["render", "\U0010ffff/"])
def test_a_lane_that_no_walk_finds_is_refused(backend, sql, lane):
    backend.enqueue(some_envelopes(1))

    with pytest.raises(psycopg.errors.CheckViolation):
        sql("UPDATE onward_jobs SET lane = %s", lane)

    assert len(claimed(backend)) == 1
