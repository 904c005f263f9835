"""Walks over lanes behind a transaction that stays open: they go no further than before, and pass over nothing for long."""

import pytest

from onward.backend import Claim, Settlement
from onward.backends.postgres import queries
from onward.backends.postgres.arrays import as_array
from onward.backends.postgres.lane_marks import LaneMarks, Seen
from onward.backends.postgres.queue_marks import PINNED
from onward.backends.postgres.transaction import Transaction
from onward.flow.lanes import lane_of
from onward.testing.contract.builders import a_claim, a_turn, an_envelope, ids, some_envelopes
from onward.testing.contract.lanes import a_limit, declare, in_lane
from tests.backends.postgres.marks import BATCH, SECOND, backend, snapshot, watch
from tests.waiting import eventually

__all__ = ["backend", "snapshot", "watch"]

TENANTS = [f"tenant-{number}" for number in range(5)]


@pytest.fixture
def work(backend):
    """Claim and complete what there is, a batch in a turn; says what was claimed."""

    def work_off(**claim):
        claimed, leases, more = [], [], True
        while leases or more:
            settlements = [Settlement.ack(lease) for lease in leases]
            result = backend.turn(a_turn(*settlements, claim=a_claim(**{"limit": BATCH, **claim})))
            leases, more = result.leases, result.more
            claimed += ids(leases)
        return claimed

    return work_off


@pytest.fixture
def pinned(backend, snapshot, work, sql, watch, clock):
    """So much was done since the snapshot that this process knows of it."""
    for _ in range(PINNED + 10):
        sql("INSERT INTO onward_queues (name) VALUES ('x') ON CONFLICT (name) DO UPDATE SET name = 'x'")
    watch.now += SECOND
    work()
    ((ends_ranges,),) = sql("SELECT current_setting('server_version_num')::integer >= 180000")
    assert backend._marks._pinned
    assert backend._marks.lanes.is_pinned is ends_ranges
    if not ends_ranges:
        pytest.skip("this server goes on behind the end of a range: walks over lanes have no marks on it")
    watch.now += SECOND
    clock.advance(1)
    return snapshot


def fill(backend, count, *, of="", tenants=TENANTS):
    """Enqueue jobs of each tenant."""
    found = [job for tenant in tenants for job in in_lane(count, tenant, of=of)]
    backend.enqueue(found)
    return ids(found)


@pytest.fixture
def pages(backend):
    """What a statement looks at, in pages of the server's memory."""

    def count(ranges=None, name=None, **given):
        sql, names = queries.load("onward_")[name or ("walk_lanes" if ranges is None else "walk_known_lanes")]
        given |= {"now": None, "cursor_queues": [], "cursor_groups": [], "cursor_lanes": [], **(ranges or {})}
        given = {
            "queues": ["default"],
            "drawn": "0000",
            "lanes": 116,
            "limit": 20,
            "only_rank": None,
            "only_group": None,
            **given,
        }
        values = [as_array(given[each]) if isinstance(given[each], list) else given[each] for each in names]
        with backend._connections.borrowed() as connection:
            connection.execute("BEGIN")
            connection.execute(queries.load("onward_")["configure"].sql)
            ((plan,),) = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, values).fetchall()
            connection.execute("ROLLBACK")
        return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]

    return count


@pytest.mark.promise("F44")
@pytest.mark.parametrize("of", ["", "render"])
def test_a_walk_behind_a_snapshot_goes_no_further_than_before(backend, pinned, work, clock, pages, watch, of):
    fill(backend, 20, of=of)
    before = pages(None)

    for _ in range(10):
        fill(backend, 100, of=of)
        work()
        clock.advance(1)
    fill(backend, 20, of=of)

    assert pages(backend._marks.lanes.for_look(["default"])) < before * 1.5 + 20
    assert pages(None) > before * 3  # past what is dead


@pytest.mark.promise("F44")
def test_a_walk_goes_past_the_dead_of_no_lane_that_is_empty(backend, pinned, work, clock, pages):
    fill(backend, 20)
    before = pages(None)
    work()

    for _ in range(10):
        fill(backend, 100)
        work()
        clock.advance(1)
    fill(backend, 20, tenants=["new"])

    assert pages(backend._marks.lanes.for_look(["default"])) < before * 1.5 + 20


@pytest.mark.promise("F44")
def test_to_read_on_in_a_lane_goes_past_nothing_dead(backend, pinned, work, clock, pages, monkeypatch):
    asked = {}
    ask = Transaction.ask

    def note(self, name, **parameters):
        asked[name] = parameters
        return ask(self, name, **parameters)

    for _ in range(10):
        fill(backend, 100)
        work()
        clock.advance(1)
    monkeypatch.setattr(Transaction, "ask", note)
    fill(backend, 1)
    fill(backend, 40, tenants=TENANTS[:1])
    work()

    assert "line_heads" not in asked
    assert pages(name="line_heads_from", **asked["line_heads_from"]) < 100


@pytest.mark.promise("F44")
def test_what_falls_due_in_lanes_is_looked_for_where_the_last_look_has_ended(backend, pinned, work, clock):
    backend.enqueue(in_lane(1, TENANTS[0], delay=5))
    fill(backend, 1)
    work()
    clock.advance(6)

    assert backend._marks.for_look(["default"])["due_since"] == [clock.micros() - 6_000_000]
    assert len(work()) == 1


@pytest.mark.promise("F44")
def test_when_the_snapshot_is_gone_walks_begin_at_the_left_edge_again(backend, pinned, work, watch):
    fill(backend, 20)
    work()
    assert backend._marks.lanes.for_look(["default"]) is not None
    pinned.rollback()

    def begins_at_the_left_edge():
        watch.now += SECOND
        work()
        return backend._marks.lanes.for_walk(["default"]) is None

    # The server's own vacuum may keep a snapshot, too.  Until a claim has seen that there is none, a walk has marks.
    eventually(lambda: begins_at_the_left_edge() and not backend._marks.lanes.is_pinned)


@pytest.mark.promise("F44")
@pytest.mark.parametrize("of", ["", "render"])
def test_a_job_that_appears_before_the_mark_of_its_lane_is_found_within_a_second(
    backend, pinned, work, watch, clock, of
):
    clock.advance(10)
    fill(backend, 20, of=of)
    work()
    clock.advance(-5)
    late = fill(backend, 1, of=of, tenants=TENANTS[:1])
    clock.advance(5)

    assert work() == []
    watch.now += SECOND

    assert work() == late


@pytest.mark.promise("F44")
def test_a_look_for_work_sees_what_a_claim_would(backend, pinned, work, watch, clock):
    clock.advance(10)
    fill(backend, 20)
    work()
    clock.advance(-5)
    fill(backend, 1)
    clock.advance(5)

    hidden, _ = backend._look(["default"], None)
    watch.now += SECOND
    seen, _ = backend._look(["default"], None)

    assert (hidden > 0, seen) == (True, 0)


@pytest.mark.promise("F44")
def test_lanes_jobs_and_priorities_that_are_new_are_found_at_once(backend, pinned, work, clock):
    fill(backend, 20)
    fill(backend, 20, of="render")
    work()
    clock.advance(1)
    new = [
        *in_lane(1, "a tenant", of=""),
        *in_lane(1, "another", of="render"),
        *in_lane(1, TENANTS[0], of="build"),
        *in_lane(1, TENANTS[0], of="render", priority=3),
        *in_lane(1, TENANTS[1], of="render", priority=-3),
        *in_lane(1, None, of="zip"),
        an_envelope(),
    ]
    backend.enqueue(new)

    assert backend._marks.lanes.for_look(["default"]) is not None
    assert sorted(ids(backend.turn(a_turn(claim=a_claim(limit=BATCH))).leases)) == sorted(ids(new))


@pytest.mark.promise("F44", "L50")
def test_lanes_take_turns_from_marks_as_without(backend, pinned, work, clock):
    fill(backend, 20)
    work()
    clock.advance(1)
    lane = {job.id: tenant for tenant in TENANTS for job in in_lane(4, tenant, of="") for _ in backend.enqueue([job])}
    turns = [lane[each] for _ in range(10) for each in ids(backend.turn(a_turn(claim=a_claim(limit=2))).leases)]

    assert backend._marks.lanes.for_look(["default"]) is not None
    assert len(turns) == 20
    assert all(sorted(turns[at : at + 5]) == sorted(TENANTS) for at in range(0, 20, 5))


@pytest.mark.promise("F44", "L46")
def test_a_limit_holds_from_marks_as_without(backend, pinned, work, clock):
    fill(backend, 20, of="render")
    work()
    declare(backend, a_limit(running=3))
    clock.advance(1)
    fill(backend, 2, of="render")
    fill(backend, 2)
    leases = backend.turn(a_turn(claim=a_claim(limit=BATCH))).leases

    assert backend._marks.lanes.for_look(["default"]) is not None
    assert len(leases) == 3 + 2 * len(TENANTS)


@pytest.mark.promise("F44")
def test_a_suspect_that_was_passed_over_is_not_left_behind(backend, pinned, work, watch, clock, sql):
    fill(backend, 20)
    work()
    clock.advance(1)
    first, suspect, last = in_lane(3, TENANTS[0], of="")
    for job in (first, suspect, last):
        backend.enqueue([job])
        clock.advance(1)
    sql("UPDATE onward_jobs SET crashes = 1 WHERE id = %s", suspect.id)
    claimed = [ids(backend.turn(a_turn(claim=a_claim(limit=BATCH))).leases) for _ in range(3)]

    assert claimed == [[first.id], [suspect.id], [last.id]]


@pytest.mark.promise("F44")
def test_more_lanes_than_are_worth_it_are_walked_without_marks(backend, pinned, work, clock):
    fill(backend, 20)
    work()
    clock.advance(1)
    crowd = fill(backend, 1, tenants=[f"one-{number}" for number in range(250)])
    leases = backend.turn(a_turn(claim=a_claim(limit=1))).leases

    assert backend._marks.lanes.for_look(["default"]) is None
    assert sorted(ids(leases) + work(limit=100)) == sorted(crowd)


@pytest.mark.promise("F44")
def test_a_mark_in_one_queue_hides_nothing_in_another(backend, pinned, work, clock):
    clock.advance(10)
    fill(backend, 20)
    work()
    clock.advance(-5)
    others = in_lane(3, TENANTS[0], of="", queue="mail")
    backend.enqueue(others)
    clock.advance(5)
    backend.turn(a_turn(claim=Claim(queues=("mail",), limit=1)))
    queues = ("before", "default", "mail")

    assert ids(backend.turn(a_turn(claim=Claim(queues=queues, limit=BATCH))).leases) == ids(others[1:])


@pytest.mark.promise("F44")
def test_every_job_is_done_once_behind_a_snapshot(backend, pinned, work, clock, watch):
    enqueued, done = [], []
    for number in range(20):
        enqueued += fill(backend, 6, of=("", "render")[number % 2], tenants=TENANTS[number % 3 :])
        more = in_lane(3, TENANTS[0], of="", priority=number % 3) + in_lane(2, TENANTS[1], delay=number % 4)
        more += some_envelopes(3)
        backend.enqueue(more)
        enqueued += ids(more)
        done += work()
        clock.advance(1)
        watch.now += 0.3
    clock.advance(10)
    watch.now += SECOND
    done += work()

    assert sorted(done) == sorted(enqueued)


class TestMarks:
    """Without a server."""

    LINE = ("a", 0, lane_of("", "acme"))
    GROUP = ("a", 0, "/")
    HEADS = tuple((number, f"id-{number:02}") for number in range(10))
    CLAIMED = frozenset(job_id for _, job_id in HEADS)

    @pytest.fixture
    def marks(self, watch):
        marks = LaneMarks(watch)
        marks.tell(pinned=True)
        marks.for_walk(["a"])
        marks.learn(["a"], Seen({self.LINE: self.HEADS}, set(), crowded=False, marked=False), self.CLAIMED)
        return marks

    def look(self, marks, watch, heads, cut=()):
        watch.now += SECOND
        assert marks.for_walk(["a"]) is None
        marks.learn(["a"], Seen(heads, set(cut), crowded=False, marked=False), set())

    def test_without_an_old_snapshot_there_are_none(self, watch):
        marks = LaneMarks(watch)
        marks.learn(["a"], Seen({self.LINE: self.HEADS}, set(), crowded=False, marked=False), self.CLAIMED)

        assert marks.for_walk(["a"]) is None

    def test_ranges_cover_all_but_what_is_before_a_mark(self, marks):
        ranges = marks.for_walk(["b", "a"])
        assert ranges is None  # nothing is known of the other queue: it is to be looked at
        ranges = marks.for_walk(["a"])

        assert ranges["range_queues"] == ["a", "a"]
        assert list(zip(ranges["low_ranks"], ranges["low_lanes"], strict=True)) == [(-(2**63), ""), (0, self.LINE[2])]
        assert list(zip(ranges["high_ranks"], ranges["high_lanes"], strict=True)) == [
            (0, self.LINE[2]),
            (2**63 - 1, ""),
        ]
        assert list(zip(ranges["low_times"], ranges["low_ids"], strict=True))[1] == (9, "id-09 ")

    def test_a_mark_is_at_the_first_job_that_was_not_claimed(self, marks):
        heads = [(20, "x"), (21, "y"), (22, "z")]
        marks.learn(["a"], Seen({self.LINE: heads}, set(), crowded=False, marked=True), {"x", "z"})

        assert marks.for_walk(["a"])["low_ids"] == ["", "y"]

    def test_a_lane_of_which_few_jobs_were_claimed_is_not_worth_a_range(self, marks):
        few = ("a", 0, lane_of("", "few"))
        marks.learn(["a"], Seen({few: self.HEADS[:7]}, set(), crowded=False, marked=True), self.CLAIMED)
        assert len(marks.for_walk(["a"])["low_ids"]) == 2

        marks.learn(["a"], Seen({few: self.HEADS[7:8]}, set(), crowded=False, marked=True), self.CLAIMED)
        assert len(marks.for_walk(["a"])["low_ids"]) == 3

    def test_a_look_at_everything_keeps_the_mark_of_a_lane_that_is_empty(self, marks, watch):
        self.look(marks, watch, {})

        assert marks.for_walk(["a"])["low_ids"] == ["", "id-09 "]

    def test_a_look_at_everything_moves_a_mark_back(self, marks, watch):
        self.look(marks, watch, {self.LINE: [(-3, "late")]})

        assert marks.for_walk(["a"])["low_ids"] == ["", "late"]

    def test_a_look_that_did_not_come_to_a_lane_drops_its_mark(self, marks, watch):
        self.look(marks, watch, {}, cut=[self.GROUP])

        assert marks.for_walk(["a"]) is None

    def test_a_look_that_came_to_a_full_lane_drops_its_mark(self, marks, watch):
        self.look(marks, watch, {self.LINE: []})

        assert marks.for_walk(["a"]) is None

    def test_too_many_lanes_drop_the_marks_of_the_queue(self, marks):
        marks.for_walk(["a"])
        marks.learn(["a"], Seen({}, set(), crowded=True, marked=False), set())

        assert marks.for_walk(["a"]) is None

    def test_only_so_many_lanes_are_remembered(self, marks):
        for number in range(6000):
            line = ("a", 0, lane_of("", f"t-{number}"))
            marks.learn(["a"], Seen({line: self.HEADS}, set(), crowded=False, marked=True), self.CLAIMED)

        assert len(marks.for_walk(["a"])["low_ids"]) == 4097

    @pytest.mark.promise("F44")
    @pytest.mark.parametrize(("takes", "until_the_next"), [(0.0, 0.9), (0.03, 0.9), (1.0, 20.0), (9.0, 60.0)])
    def test_a_look_at_everything_that_takes_long_comes_less_often(self, marks, watch, takes, until_the_next):
        watch.now += SECOND
        assert marks.for_walk(["a"]) is None
        watch.now += takes
        marks.learn(["a"], Seen({}, set(), crowded=False, marked=False), set())

        watch.now += until_the_next - 0.01
        assert marks.for_walk(["a"]) is not None
        watch.now += 0.01
        assert marks.for_walk(["a"]) is None


@pytest.mark.promise("F44")
def test_more_jobs_than_a_claim_takes_that_fall_due_at_once_are_claimed_without_a_pause(backend, pinned, work, clock):
    """Their turns come while others of their lanes, which are younger, are claimed already."""
    fill(backend, 20)
    work()
    late = [job for tenant in TENANTS[:2] for job in in_lane(30, tenant, of="", delay=5)]
    backend.enqueue(late)
    clock.advance(10)
    fresh = in_lane(1, TENANTS[1], of="")
    backend.enqueue(fresh)

    assert sorted(work(limit=5)) == sorted(ids([*late, *fresh]))
