"""What was counted of one job in one queue: numbers add up exactly, percentiles are near."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import OptionError
from onward.telemetry.numbers import BUCKETS, NOTHING, Histogram, Numbers, added_up, bucket_of, differences

MINUTE = 60_000
lengths = st.lists(st.integers(0, 3 * 60 * MINUTE), max_size=30)
names = st.sampled_from(["jobs_succeeded", "jobs_failed", "jobs_fetched"])


def histogram(lengths):
    buckets = [0] * BUCKETS
    for ms in lengths:
        buckets[bucket_of(ms)] += 1
    return Histogram(sum(lengths), tuple(buckets))


numbers = st.builds(
    Numbers,
    st.dictionaries(names, st.integers(1, 2**40)),
    st.builds(histogram, lengths),
    st.builds(histogram, lengths),
)
tables = st.dictionaries(st.tuples(st.sampled_from("qr"), st.sampled_from("ab")), numbers)


@pytest.mark.parametrize(
    ("ms", "bucket"),
    [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (2**22 - 1, 22), (2**22, 23), (2**60, 23)],
)
def test_a_bucket_ends_below_a_power_of_two(ms, bucket):
    assert bucket_of(ms) == bucket


@given(lengths, lengths)
def test_histograms_of_two_processes_add_up_to_that_of_both(ours, theirs):
    both = histogram(ours).added(histogram(theirs))

    assert both == histogram([*ours, *theirs])
    assert both.count == len(ours) + len(theirs)
    assert both.since(histogram(ours)) == histogram(theirs)


@given(st.lists(st.integers(1, 2**22 - 1), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_percentile_is_off_by_less_than_a_factor_of_two(lengths, share):
    exact = sorted(lengths)[max(0, -(-int(share * 1000) * len(lengths) // 1000) - 1)]
    near = histogram(lengths).percentile(share)

    assert exact / 2 <= near <= exact * 2


def test_a_percentile_lies_inside_its_bucket_by_its_rank():
    even = histogram(range(1024, 2048))

    assert even.percentile(0) == 1024
    assert even.percentile(1) == 2048
    assert even.percentile(0.5) == pytest.approx(statistics.median(range(1024, 2048)), rel=0.1)


def test_percentiles_at_both_ends():
    assert histogram([]).percentile(0.5) is None
    assert histogram([0, 0, 0, 0]).percentile(0.5) == 0.5  # less than a millisecond
    assert histogram([2**30]).percentile(0.99) == 2**22  # that long, or longer


@pytest.mark.parametrize("share", [-0.1, 1.1, 95])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(OptionError, match="from 0 to 1"):
        histogram([1]).percentile(share)


@given(numbers, numbers)
def test_what_was_added_is_the_difference(before, more):
    now = before.added(more)

    assert now.since(before) == more
    assert now == more.added(before)
    assert before.added(NOTHING) == before
    assert now.since(now) == NOTHING


@given(tables, tables)
def test_tables_of_several_processes_add_up_pair_by_pair(ours, theirs):
    both = added_up([ours, theirs])

    assert both.keys() == ours.keys() | theirs.keys()
    assert differences(both, ours) == {pair: each for pair, each in theirs.items() if each != NOTHING}
    assert differences(both, both) == {}
