"""What a limit may say, the names of lanes, and token buckets against a plain count of all starts."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base.clock import SECOND
from onward.errors import ArgumentError, InvalidLimit
from onward.flow.lanes import LONGEST_KEY, behind, group_of, key_of, lane_key, lane_of, random_start, shown
from onward.flow.limits import Bounds, Limit, limits_of, merged, rate_of
from onward.flow.tokens import FULL, charged, next_token, tokens_left

JOBS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,20}", fullmatch=True)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=LONGEST_KEY)
RATES = st.builds(
    lambda tokens, unit, burst: rate_of(f"{tokens}/{unit}", burst),
    st.integers(1, 5000),
    st.sampled_from(["s", "min", "h", "day"]),
    st.integers(1, 50),
)


class TestLimits:
    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ({}, "needs running"),
            ({"running": 0}, "from 1 to"),
            ({"running": True}, "from 1 to"),
            ({"running": 1.5}, "from 1 to"),
            ({"rate": "10 per fortnight"}, "cannot be read: write it as"),
            ({"rate": "10/fortnight"}, "cannot be read: write it as"),
            ({"rate": 10}, "cannot be read: write it as"),
            ({"rate": "0/s"}, "from 1 to"),
            ({"rate": "100000/s"}, "at most 10,000 a second"),
            ({"rate": "1/s", "burst": 0}, "burst must be"),
            ({"running": 1, "burst": 2}, "burst belongs to a rate"),
            ({"running": 1, "cost": "pages"}, "cost belongs to a rate"),
            ({"running": 1, "by": "not a name"}, "by names a parameter"),
            ({"running": 1, "by": 3}, "by names a parameter"),
            ({"rate": "1/s", "cost": ""}, "cost names a parameter"),
            ({"runing": 1}, "a Limit has no 'runing': did you mean 'running'"),
            ({"per": "s", "running": 1}, "a Limit has no 'per'"),
        ],
    )
    def test_what_could_never_be_kept_is_refused(self, said, told):
        with pytest.raises(InvalidLimit, match=told):
            Limit(**said)

    def test_a_number_without_a_name_is_refused(self):
        with pytest.raises(InvalidLimit, match=r"by name: Limit\(running=5\) or Limit\(rate='100/min'\)"):
            Limit(5)

    def test_limits_are_values(self):
        limit = Limit(running=2, rate="100/min", by="tenant")

        assert limit == Limit(running=2, rate="100/min", by="tenant") != Limit(running=2)
        assert len({limit, Limit(running=2, rate="100/min", by="tenant")}) == 1
        assert repr(limit) == "Limit(running=2, rate='100/min', burst=None, by='tenant', cost=None)"
        with pytest.raises(AttributeError):
            limit.running = 3

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (5, "limit takes Limit"),
            ("5/s", "limit takes Limit"),
            ((Limit(running=1, by="a"), Limit(running=1, by="b")), "2 limits with by"),
            ((Limit(running=1), Limit(rate="1/s")), "2 limits without by"),
            ((Limit(rate="1/s", cost="a"), Limit(rate="1/s", cost="b", by="c")), "two costs, a and b"),
        ],
    )
    def test_limits_of_a_job_that_disagree_are_refused(self, given, told):
        with pytest.raises(InvalidLimit, match=told):
            limits_of(given, "render")

    @pytest.mark.parametrize(
        ("text", "period"), [("7/s", 1), ("7/min", 60), (" 7 / m ", 60), ("7/h", 3600), ("7/day", 86_400)]
    )
    def test_a_rate_is_a_number_and_a_period(self, text, period):
        rate = rate_of(text)

        assert (rate.tokens, rate.period, rate.burst) == (7, period * SECOND, 7)

    def test_what_was_chosen_beats_what_is_declared_bound_by_bound(self):
        declared, chosen = Bounds(running=5, rate=rate_of("1/s")), Bounds(running=3)

        assert merged(declared, chosen) == Bounds(running=3, rate=rate_of("1/s"))
        assert merged(None, None) == Bounds()
        assert not merged(None, None)


class TestLaneNames:
    @given(JOBS, KEYS)
    def test_a_lane_tells_its_group_and_its_key(self, job, key):
        lane = lane_of(job, key)

        assert (group_of(lane), key_of(lane), shown(lane)) == (f"{job}/", key, f"{job}/{key}")

    @given(JOBS, JOBS, KEYS)
    def test_all_lanes_of_a_job_and_no_others_lie_before_what_is_behind_it(self, job, other, key):
        lane = lane_of(other, key)

        assert (f"{job}/" <= lane < behind(f"{job}/")) == (job == other)

    @given(JOBS)
    def test_a_random_start_lies_among_the_lanes_of_its_group(self, job):
        assert f"{job}/" < random_start(f"{job}/") < behind(f"{job}/")

    @pytest.mark.parametrize("value", [1.5, True, b"acme", ["acme"], {"a": 1}, "two\nlines"])
    def test_a_key_that_is_no_text_is_refused(self, value):
        with pytest.raises(ArgumentError, match="must be printable text"):
            lane_key(value, "render", "tenant")

    def test_a_key_that_is_too_long_is_refused(self):
        with pytest.raises(ArgumentError, match="has 300 characters, and the limit is 200"):
            lane_key("x" * 300, "render", "tenant")

    def test_no_key_is_no_lane_of_its_own(self):
        assert lane_key(None, "render", "tenant") is None
        assert lane_key(42, "render", "tenant") == "42"


class TestTokens:
    @given(RATES, st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 9)), max_size=60))
    def test_in_no_interval_do_more_start_than_the_rate_allows(self, rate, arrivals):
        bucket, now, starts = FULL, 1_700_000_000 * SECOND, []
        for pause, cost in arrivals:
            now += pause
            if tokens_left(rate, bucket, now) > 0:
                bucket = charged(rate, bucket, now, cost)
                starts.append((now, cost))

        for first, last in itertools.combinations_with_replacement(range(len(starts)), 2):
            length = starts[last][0] - starts[first][0]
            before_the_last = sum(cost for _, cost in starts[first:last])
            assert before_the_last < rate.burst + rate.tokens * length / rate.period

    @given(RATES, st.integers(1, 100), st.integers(0, 10**9))
    def test_a_token_comes_when_it_was_said_to_come_and_not_before(self, rate, cost, wait):
        now = 1_700_000_000 * SECOND
        bucket = charged(rate, FULL, now, cost)
        due = next_token(rate, bucket, now + wait)

        assert tokens_left(rate, bucket, due) > 0
        assert due == now + wait or tokens_left(rate, bucket, due - 2) <= 0

    @pytest.mark.parametrize("burst", [1, 2, 10])
    @pytest.mark.parametrize("longest", [0, 50_000, 3 * SECOND])
    def test_turns_that_read_the_clock_and_then_wait_for_a_lock_start_no_more(self, burst, longest):
        rate, dice = rate_of("10/s", burst), random.Random(7)
        bucket, clock, starts = FULL, 1_700_000_000 * SECOND, []
        for _ in range(500):
            clock += dice.randrange(50_000)
            now = clock - dice.randint(0, longest)
            if tokens_left(rate, bucket, now) > 0:
                bucket = charged(rate, bucket, now, 1)
                starts.append(now)

        assert len(starts) > 30
        starts.sort()
        for first, last in itertools.combinations(range(len(starts)), 2):
            assert last - first < rate.burst + (starts[last] - starts[first]) / rate.interval

    @given(RATES, st.integers(1, 100), st.integers(10 * SECOND + 1, 10**12))
    def test_a_clock_that_is_set_back_adds_no_tokens_and_takes_none(self, rate, cost, step):
        now = 1_700_000_000 * SECOND
        bucket = charged(rate, FULL, now, cost)

        assert tokens_left(rate, bucket, now - step) == tokens_left(rate, bucket, now)

    @given(RATES)
    def test_an_idle_bucket_is_full_and_never_more(self, rate):
        bucket = charged(rate, FULL, 1_000, rate.burst)

        assert tokens_left(rate, bucket, 1_000) == 0
        assert tokens_left(rate, bucket, 1_000 + rate.burst * rate.period) == rate.burst
