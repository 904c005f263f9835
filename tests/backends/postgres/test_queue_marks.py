"""Claims behind a transaction that stays open: they walk no further than before, and pass over nothing for long."""

import pytest

from onward.backend import Claim, Settlement
from onward.backends.postgres import queries
from onward.backends.postgres.arrays import as_array
from onward.backends.postgres.queue_marks import PINNED, QueueMarks
from onward.testing.contract.builders import a_claim, a_turn, an_envelope, ids, some_envelopes
from tests.backends.postgres.marks import BATCH, SECOND, backend, snapshot, watch
from tests.waiting import eventually

__all__ = ["backend", "snapshot", "watch"]


@pytest.fixture
def work(backend):
    """Claim and complete what there is, a batch in a turn; says what was claimed."""

    def work_off():
        claimed, leases = [], [None]
        settlements = []
        while leases:
            leases = backend.turn(a_turn(*settlements, claim=a_claim(limit=BATCH))).leases
            settlements = [Settlement.ack(lease) for lease in leases]
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
    assert backend._marks._pinned
    watch.now += SECOND
    clock.advance(1)
    return snapshot


def pages(backend, parameters):
    """What a claim looks at, in pages of the server's memory."""
    sql, names = queries.load("onward_")["claim"]
    given = {"now": None, "owner": "worker", "queues": ["default"], "at_most": [20], "limit": 20, "released": []}
    given |= {name: value for name, value in parameters.items() if name != "due_since"}
    values = [as_array(given[each]) if isinstance(given[each], list) else given[each] for each in names]
    with backend._connections.borrowed() as connection:
        connection.execute("BEGIN")
        ((plan,),) = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, values).fetchall()
        connection.execute("ROLLBACK")
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


@pytest.mark.promise("F44")
def test_a_claim_behind_a_snapshot_walks_no_further_than_before(backend, pinned, work, clock):
    backend.enqueue(some_envelopes(100))
    before = pages(backend, QueueMarks().for_claim(["default"]))

    for _ in range(10):
        backend.enqueue(some_envelopes(500))
        work()
        clock.advance(1)
    backend.enqueue(some_envelopes(100))

    assert pages(backend, backend._marks.for_claim(["default"])) < before * 1.5
    assert pages(backend, QueueMarks().for_claim(["default"])) > before * 2  # from the left edge


@pytest.mark.promise("F44")
def test_when_the_snapshot_is_gone_claims_begin_at_the_left_edge_again(backend, pinned, work, watch):
    backend.enqueue(some_envelopes(500))
    work()
    pinned.rollback()

    def begins_at_the_left_edge():
        watch.now += SECOND
        work()
        return backend._marks.for_claim(["default"]) == QueueMarks().for_claim(["default"])

    eventually(begins_at_the_left_edge)  # the server's own vacuum may keep a snapshot, too


@pytest.mark.promise("F44")
def test_a_job_that_appears_behind_the_mark_is_found_within_a_second(backend, pinned, work, watch, clock):
    late = an_envelope()
    clock.advance(10)
    backend.enqueue(some_envelopes(BATCH))
    work()
    clock.advance(-5)
    backend.enqueue([late])
    clock.advance(5)

    assert work() == []
    watch.now += SECOND

    assert work() == [late.id]


@pytest.mark.promise("F44")
def test_a_look_for_work_sees_what_a_claim_would(backend, pinned, work, watch, clock):
    clock.advance(10)
    backend.enqueue(some_envelopes(BATCH))
    work()
    clock.advance(-5)
    backend.enqueue([an_envelope()])
    clock.advance(5)

    hidden, _ = backend._look(["default"], None)
    watch.now += SECOND
    seen, _ = backend._look(["default"], None)

    assert (hidden > 0, seen) == (True, 0)


@pytest.mark.promise("F44")
def test_no_priority_is_passed_over(backend, pinned, work, clock):
    for priority in (0, 5, -3):
        backend.enqueue(some_envelopes(10, priority=priority))
    work()
    clock.advance(1)
    low, usual, urgent, between = (an_envelope(priority=priority) for priority in (-3, 0, 9, 2))
    backend.enqueue([low, usual, urgent, between])

    assert work() == [urgent.id, between.id, usual.id, low.id]


@pytest.mark.promise("F44")
def test_what_falls_due_is_promoted_behind_a_snapshot_too(backend, pinned, work, clock):
    later = some_envelopes(3, delay=30)
    backend.enqueue(later)
    assert work() == []
    clock.advance(31)

    assert work() == ids(later)


@pytest.mark.promise("F44")
def test_a_mark_in_one_queue_hides_nothing_in_another(backend, pinned, work, clock):
    clock.advance(10)
    backend.enqueue(some_envelopes(BATCH))
    work()
    clock.advance(-5)
    others = some_envelopes(3, queue="mail")
    backend.enqueue([an_envelope(), *others])
    clock.advance(5)
    queues = ("before", "default", "mail")

    assert ids(backend.turn(a_turn(claim=Claim(queues=queues, limit=BATCH))).leases) == ids(others)


@pytest.mark.promise("F44")
def test_every_job_is_done_once_behind_a_snapshot(backend, pinned, work, clock, watch):
    enqueued, done = [], []
    for round_ in range(20):
        batch = some_envelopes(30, priority=round_ % 3) + some_envelopes(5, delay=round_ % 4)
        enqueued += ids(batch)
        backend.enqueue(batch)
        done += work()
        clock.advance(1)
        watch.now += 0.3
    clock.advance(10)
    watch.now += SECOND
    done += work()

    assert sorted(done) == sorted(enqueued)


class TestMarks:
    """Without a server."""

    def test_without_an_old_snapshot_there_are_none(self, watch):
        marks = QueueMarks(watch)
        marks.claimed(["a"], [(0, 7, "x", "a")], exhausted=False, now=9)

        assert marks.for_claim(["a"])["low_times"] == [-(2**63)]

    def test_queues_without_a_mark_have_one_range_together(self, watch):
        begin = QueueMarks(watch).for_claim(["a", "b", "c"])

        assert begin["first_ranges"] == begin["last_ranges"] == [1, 1, 1]
        assert (begin["low_ranks"], begin["high_ranks"]) == ([-(2**63)], [2**63 - 1])
        assert begin["due_since"] == [-(2**63)] * 3

    def test_with_marks_each_queue_has_its_own_ranges(self, watch):
        marks = QueueMarks(watch)
        marks.tell(pinned=True)
        marks.for_claim(["a", "b"])
        marks.claimed(["a", "b"], [(0, 7, "x", "b")], exhausted=False, now=9)
        begin = marks.for_claim(["a", "b"])

        assert (begin["first_ranges"], begin["last_ranges"]) == ([1, 2], [1, 4])
        assert begin["low_ids"] == ["", "", "x", ""]

    def test_ranges_cover_every_rank(self, watch):
        marks = QueueMarks(watch)
        marks.tell(pinned=True)
        marks.for_claim(["a"])
        marks.claimed(["a"], [(-5, 3, "p", "a"), (0, 7, "x", "a"), (0, 8, "y", "a")], exhausted=False, now=9)
        ranges = marks.for_claim(["a"])

        assert ranges["low_ranks"] == [-(2**63), -5, -4, 0, 1]
        assert ranges["high_ranks"] == [-6, -5, -1, 0, 2**63 - 1]
        assert [low for low in zip(ranges["low_times"], ranges["low_ids"], strict=True) if low[1]] == [
            (3, "p"),
            (8, "y"),
        ]

    def test_an_empty_queue_moves_the_marks_to_the_present(self, watch):
        marks = QueueMarks(watch)
        marks.tell(pinned=True)
        marks.for_claim(["a"])
        marks.claimed(["a"], [], exhausted=True, now=9)

        assert marks.for_claim(["a"])["low_times"] == [-(2**63), 9, -(2**63)]

    def test_it_is_asked_about_once_a_second(self):
        marks = QueueMarks()

        assert [marks.wants_to_know(), marks.wants_to_know()] == [True, False]

    @pytest.mark.promise("F44")
    @pytest.mark.parametrize(("takes", "until_the_next"), [(0.0, 0.9), (0.03, 0.9), (1.0, 20.0), (9.0, 60.0)])
    def test_a_look_at_everything_that_takes_long_comes_less_often(self, watch, takes, until_the_next):
        marks = QueueMarks(watch)
        marks.tell(pinned=True)
        everything = marks.for_claim(["a"])
        watch.now += takes
        marks.claimed(["a"], [(0, 7, "x", "a")], exhausted=False, now=9)

        watch.now += until_the_next - 0.01
        assert marks.for_claim(["a"]) != everything
        watch.now += 0.01
        assert marks.for_claim(["a"]) == everything
