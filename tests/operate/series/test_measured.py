"""What a row of a series holds: as bytes and back, and added up without a loss."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.operate.series.measured import MOST_SERIES, Measured, QueueLevel, merged
from onward.telemetry.counters import OTHER
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers, added_up

MINUTE = 60_000_000
COUNTS = st.integers(0, 2**40)
TEXT = st.text(min_size=1, max_size=12)
HISTOGRAMS = st.builds(Histogram, COUNTS, st.lists(COUNTS, min_size=BUCKETS, max_size=BUCKETS).map(tuple))
NUMBERS = st.builds(
    Numbers,
    st.dictionaries(st.sampled_from(["jobs_succeeded", "jobs_failed", "jobs_fetched"]), st.integers(1, 2**40)),
    HISTOGRAMS,
    HISTOGRAMS,
)
LEVELS = st.builds(QueueLevel, st.integers(0, 10_000), COUNTS)
MEASURED = st.builds(
    Measured,
    minutes=st.integers(0, 10),
    builds=st.lists(TEXT, max_size=3).map(tuple),
    numbers=st.dictionaries(st.tuples(TEXT, TEXT), NUMBERS, max_size=6),
    queues=st.dictionaries(TEXT, LEVELS, max_size=4),
    looked=st.booleans(),
)


@given(MEASURED)
def test_a_row_is_read_as_it_was_written(measured):
    assert Measured.decoded(measured.encoded()) == measured


def test_a_row_without_bytes_holds_nothing():
    assert Measured.decoded(b"") == Measured()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"{}",
        msgspec.msgpack.encode((2, 1, False, (), (), (), ())),
        msgspec.msgpack.encode((1, -1, False, (), (), (), ())),
        msgspec.msgpack.encode((1, 1, False, (), ("a",), (("q", "j", (), 0, (), 0, ()),), ())),
        msgspec.msgpack.encode((1, 1, False, (), (), (("q", "j", (), 0, (1,) * (BUCKETS + 1), 0, ()),), ())),
        Measured(builds=("b",)).encoded()[:-1],
    ],
    ids=["no row", "no array", "another version", "negative", "a count is missing", "too many buckets", "cut off"],
)
def test_a_row_that_cannot_be_read_is_none(data):
    assert Measured.decoded(data) is None


def total(rows):
    """Everything that was counted, in one."""
    return added_up({OTHER: numbers} for row in rows for numbers in row.numbers.values()).get(OTHER, Numbers())


@pytest.mark.promise("S121")
@given(st.lists(MEASURED, max_size=6), st.integers(1, 5))
def test_a_merge_adds_exactly_and_loses_nothing_in_whatever_order_it_is_made(rows, parts):
    timed = [(number // 2 * MINUTE, row) for number, row in enumerate(rows)]

    at_once = merged(timed)
    stepwise = merged((0, merged(timed[first : first + 2])) for first in range(0, len(timed), 2))

    assert total([at_once]) == total(rows)
    assert (total([stepwise]), stepwise.queues) == (total(rows), at_once.queues)


@pytest.mark.promise("S122")
def test_of_very_many_series_the_busiest_are_kept_and_the_others_added_up(report):
    busy = Numbers({"jobs_succeeded": 1_000})
    idle = Numbers({"jobs_succeeded": 1}, Histogram(5, (0, 0, 0, 1) + (0,) * (BUCKETS - 4)))
    pairs = {(f"queue-{q}", f"job-{j}"): busy if j == 0 and q < 60 else idle for q in range(200) for j in range(50)}

    one = merged([(0, Measured(numbers=pairs))])

    assert len(one.numbers) == MOST_SERIES
    assert {(f"queue-{q}", "job-0") for q in range(60)} <= one.numbers.keys()
    assert one.numbers[OTHER].counters["jobs_succeeded"] == 10_000 - 60 - (MOST_SERIES - 61)
    assert total([one]) == total([Measured(numbers=pairs)])
    report(f"a merged row of 200 queues x 50 jobs: {len(one.encoded()):,} bytes")
    assert len(one.encoded()) < 13_300


def test_of_very_many_queues_the_latest_are_kept():
    levels = {f"queue-{n:03}": QueueLevel(1_000 - n, n) for n in range(200)}

    assert set(merged([(0, Measured(queues=levels))]).queues) == {f"queue-{n:03}" for n in range(136, 200)}


def test_a_longer_stretch_has_the_largest_depth_and_age():
    rows = [(0, Measured(queues={"a": QueueLevel(5, 10)})), (MINUTE, Measured(queues={"a": QueueLevel(3, 99)}))]

    assert merged(rows).queues == {"a": QueueLevel(5, 99)}


def test_rows_of_one_minute_are_one_minute_and_their_builds_are_named_once():
    rows = [(0, Measured(builds=("a",))), (0, Measured(builds=("b", "a"))), (MINUTE, Measured(builds=("b",)))]

    assert (merged(rows).minutes, merged(rows).builds) == (2, ("a", "b"))
