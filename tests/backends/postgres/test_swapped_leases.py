"""A turn that ends leases of a limit starts as many others without its lock: never over the limit."""

import itertools

import pytest

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.postgres import PostgresBackend
from onward.flow.limits import Bounds
from onward.job.states import State
from onward.testing.contract.builders import ids, some_envelopes
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn
from tests.backends.postgres.stepping import Side, SteppedBackend, in_order

SWAP = ["complete", "keep_limits", "take_line", "commit"]
CLAIM = ["keep_limits", "lock_scopes", "running_in", "take", "commit"]
CHANGE = ["lock_limits", "commit"]
PASSING = (
    "begin",
    "lock_session",
    "promote",
    "walk_lanes",
    "pinned",
    "try_gates",
    "line_heads",
    "limits",
    "choose_limit",
    "wake_apart",
)
PASSING += ("drop_limit", "put_gate", "lock_gate")


@pytest.fixture
def postgres(newest_postgres):
    """The statements are the same for all versions: one is asked."""
    return newest_postgres


@pytest.fixture
def open_backend(open_backend, monkeypatch):
    monkeypatch.setattr(PostgresBackend, "from_url", SteppedBackend.from_url)
    return open_backend


@pytest.fixture
def sent(backend, sql):
    """The names of the statements that a backend has sent since."""
    backend.side = Side(sql, ())
    names = []
    backend.side.stop_before = names.append
    return names


def executing(backend):
    return backend.counts()[State.EXECUTING]


def acks(leases):
    return list(map(Settlement.ack, leases))


def swap(backend, leases, **claim):
    """End leases, and claim as many as can begin then."""
    return turn(backend, *acks(leases), **{"begins": len(leases), **claim})


def swapped_often(backend, leases, **claim):
    """Go on with one job after the other, until a claim expects no other line."""
    for _ in range(4):
        leases = swap(backend, leases, **claim).leases
    return leases


def orders(first, second):
    return list(itertools.combinations(range(len(first) + len(second)), len(first)))


@pytest.mark.promise("L46")
class TestSingleLine:
    def test_it_is_claimed_by_one_statement_and_without_the_lock(self, backend, sent):
        declare(backend, a_limit(running=3))
        backend.enqueue(in_lane(60))
        leases = swapped_often(backend, claimed(backend))
        sent.clear()

        again = swap(backend, leases)

        assert len(again.leases) == 3
        assert [name for name in sent if name in {*SWAP, *CLAIM}] == ["commit", *SWAP], "the first opens a session"
        assert [lease.token for lease in again.leases] == [1, 1, 1]
        assert {lease.lane for lease in again.leases} == {"render/"}
        assert ids(again.leases) == sorted(ids(again.leases)), "by due time and id"

    def test_no_more_start_than_were_ended_and_a_walk_takes_the_room_that_is_left(self, backend, open_backend, sent):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(60))
        others = turn(open_backend(), owner="other", limit=3).leases
        leases = swapped_often(backend, claimed(backend))
        open_backend().settle(acks(others))

        first = swap(backend, leases, begins=10)
        sent.clear()
        second = turn(backend, begins=8)

        assert (len(first.leases), first.more) == (2, True)
        assert (len(second.leases), executing(backend)) == (3, 5)
        assert "lock_scopes" in sent

    @pytest.mark.parametrize("bound", [1, 2])
    def test_no_job_starts_while_more_run_than_a_lowered_limit_allows(self, backend, bound):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(60))
        leases = swapped_often(backend, claimed(backend))

        backend.set_limit("job", "render", Bounds(running=bound))
        result = swap(backend, leases[:3])

        assert result.leases == []
        assert executing(backend) == 2

    @pytest.mark.parametrize(
        "others",
        [
            pytest.param({}, id="a plain job"),
            pytest.param({"lane": "render/0000x"}, id="a key of the same job"),
            pytest.param({"lane": "/0000x"}, id="a lane before it"),
            pytest.param({"lane": "render/", "priority": 5}, id="another priority"),
        ],
    )
    def test_another_line_that_appears_gets_its_turn_at_once(self, backend, sent, others):
        declare(backend, a_limit(running=4))
        backend.enqueue(in_lane(60))
        leases = swapped_often(backend, claimed(backend))
        new = some_envelopes(1, job="render", **others)
        backend.enqueue(new)
        sent.clear()

        taken = swap(backend, leases).leases

        assert "take_line" in sent
        assert new[0].id in ids(taken)
        assert executing(backend) == len(taken) >= 4

    def test_a_suspect_and_a_job_with_a_key_are_left_to_a_walk(self, backend, sql):
        declare(backend, a_limit(running=4))
        jobs = in_lane(24)
        keyed = in_lane(1, idempotency_key="k")
        backend.enqueue(jobs)
        leases = swapped_often(backend, claimed(backend))
        sql("UPDATE onward_jobs SET crashes = 1 WHERE id = %s", jobs[21].id)
        backend.enqueue(keyed)

        first = swap(backend, leases).leases
        assert ids(first) == ids(jobs[20:21]), "what is before the suspect"
        second = swap(backend, first).leases
        assert ids(second) == ids(jobs[21:22]), "the suspect alone"
        found = claimed(backend, *acks(second))
        assert sorted(ids(found)) == sorted(ids(jobs[22:] + keyed))
        assert sql("SELECT job_id FROM onward_holds") == [(keyed[0].id,)]

    def test_a_paused_queue_and_a_shut_job_start_nothing(self, backend):
        declare(backend, a_limit(running=4))
        backend.enqueue(in_lane(60))
        leases = swapped_often(backend, claimed(backend))
        backend.pause("default")
        assert swap(backend, leases[:2]).leases == []
        backend.pause("default", paused=False)

        backend.shut("render/")

        assert swap(backend, leases[2:]).leases == []


@pytest.mark.promise("L46")
class TestManyLanes:
    """Where a walk has to choose."""

    @pytest.fixture
    def running(self, backend, open_backend, sent):
        """``running(others)``: what this process runs, one of a limit of five, beside so many in another process."""

        def start(others):
            declare(backend, a_limit(running=5))
            backend.enqueue([each for number in range(10) for each in in_lane(2, f"tenant-{number}")])
            assert len(turn(open_backend(), owner="other", limit=others).leases) == others
            leases = turn(backend, limit=1).leases
            sent.clear()
            return leases

        return start

    def test_a_turn_that_starts_as_many_as_it_has_ended_takes_no_lock(self, backend, sent, running):
        leases = running(4)

        assert len(swap(backend, leases, begins=3).leases) == 1

        assert "keep_limits" in sent
        assert "lock_scopes" not in sent
        assert executing(backend) == 5

    def test_a_turn_that_could_start_more_than_it_has_ended_takes_the_lock(self, backend, sent, running):
        leases = running(3)

        assert len(swap(backend, leases, begins=3).leases) == 2

        assert "lock_scopes" in sent
        assert executing(backend) == 5

    def test_a_plain_job_of_a_limited_queue_is_replaced_by_another(self, backend, open_backend, sent):
        declare(backend, a_limit("default", kind="queue", running=2))
        backend.enqueue(some_envelopes(10))
        assert len(turn(open_backend(), owner="other", limit=1).leases) == 1
        leases = claimed(backend)
        sent.clear()

        assert len(swap(backend, leases, begins=5).leases) == 1

        assert "lock_scopes" not in sent
        assert executing(backend) == 2
        assert turn(open_backend(), owner="other").leases == []


@pytest.mark.promise("L46")
class TestOrders:
    """Of five that may run a process has two; in every order of statements no sixth starts, and five are reached."""

    @pytest.fixture
    def process(self, backend, open_backend, sql):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(3_000))
        process = open_backend()
        process.leases = swapped_often(process, turn(process, owner="goes on", limit=2).leases, owner="goes on")
        process.side = Side(sql, PASSING)
        return process

    @pytest.fixture
    def other(self, process, open_backend, sql):
        other = open_backend()
        other.open_session(Session(owner="other"))
        other.leases = []
        return other

    def go_on(self, process, owner):
        def act():
            claim = Claim(queues=("default",), limit=10, begins=len(process.leases))
            result = process.turn(Turn(owner=owner, settlements=acks(process.leases), claim=claim))
            while result.more and not result.leases:  # limits were changing
                result = process.turn(Turn(owner=owner, claim=claim))
            process.leases = result.leases

        return act

    def test_two_turns_that_go_on(self, backend, process, other, sql):
        other.leases = swapped_often(other, turn(other, owner="other").leases, owner="other")
        other.side = Side(sql, PASSING)
        assert len(other.leases) == 3
        seen = []
        for order in orders(SWAP, SWAP):
            process.side.start(self.go_on(process, "goes on"))
            other.side.start(self.go_on(other, "other"))
            in_order(process.side, other.side, order, 2 * len(SWAP))
            seen.append(executing(backend))

        assert seen == [5] * 70
        assert process.side.sent == other.side.sent == SWAP

    def test_one_that_goes_on_and_one_that_claims(self, backend, process, other, sql):
        assert len(turn(backend, owner="third", limit=2).leases) == 2
        find_lanes(other)
        other.side = Side(sql, PASSING)
        seen = []
        for order in orders(SWAP, CLAIM):
            process.side.start(self.go_on(process, "goes on"))
            other.side.start(lambda: claim_all(other))
            in_order(process.side, other.side, order, len(SWAP) + len(CLAIM))
            seen.append(executing(backend))
            sql(
                "UPDATE onward_jobs SET state = 'available', owner = NULL WHERE owner = 'other' AND state = 'executing'"
            )

        assert seen == [5] * 126
        assert process.side.sent == SWAP

    def test_one_that_goes_on_while_the_limit_is_lowered(self, backend, process, other, sql):
        other.side = Side(sql, PASSING)
        started = []
        for order in orders(SWAP, CHANGE):
            before = set(ids(process.leases))
            process.side.start(self.go_on(process, "goes on"))
            other.side.start(lambda: other.set_limit("job", "render", Bounds(running=1)))
            in_order(process.side, other.side, order, len(SWAP) + len(CHANGE))
            started.append(len(set(ids(process.leases)) - before))
            backend.set_limit("job", "render", Bounds(running=5))
            side, process.side = process.side, None
            process.leases += (
                turn(process, owner="goes on", limit=2 - len(process.leases)).leases if started[-1] < 2 else []
            )
            process.leases = swapped_often(process, process.leases, owner="goes on")
            process.side = side

        assert set(started) == {1, 2}, "both, or as many as the new limit allows"


def claim_all(process):
    """Claim until nothing is found."""
    while process.turn(Turn(owner="other", claim=Claim(queues=("default",), limit=3))).more:
        pass


def find_lanes(process):
    """Let a process find that its queue has lanes: it walks at its next claim."""
    leases = turn(process, owner="other", limit=1).leases
    process.settle([Settlement.release(lease) for lease in leases])
