"""Delays: the tables, the three views of one number, jitter and the cap, and policies that are broken."""

import logging
import math
import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import OptionError
from onward.job.retry import (
    DEFAULT_POLICY,
    LONGEST,
    Additive,
    Custom,
    Equal,
    Exponential,
    Fixed,
    Full,
    Linear,
    NoDelay,
    PlusMinus,
    PortablePolicy,
    RetryPolicy,
)

QUICK = Exponential(base=5, multiplier=2, max=300, jitter=None)
SLOW = Exponential(base=15, multiplier=2, max=3600, jitter=None)

delays = st.floats(0, 10_000, allow_nan=False)
jitters = st.one_of(
    st.none(),
    st.builds(PlusMinus, st.floats(0, 1)),
    st.builds(Additive, st.floats(0, 1)),
    st.just(Full()),
    st.just(Equal()),
)
shared = {"max": st.none() | delays, "jitter": jitters, "cap": st.sampled_from(["hard", "soft"])}
portable = st.one_of(
    st.builds(NoDelay, **shared),
    st.builds(Fixed, delays, **shared),
    st.builds(Linear, delays, **shared),
    st.builds(Exponential, base=delays, multiplier=st.floats(0, 100, exclude_min=True), **shared),
)
policies = portable | st.builds(Custom, st.just(lambda attempt, base: base * attempt), base=delays, **shared)
attempts = st.integers(0, 1_000_000)


class Unit:
    """A generator that always draws the same number."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


LEAST, MOST = Unit(0.0), Unit(math.nextafter(1.0, 0.0))


# The tables


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (QUICK, [0, 5, 10, 20, 40, 80, 160, 300, 300]),
        (Exponential(base=5, multiplier=2, max=45, jitter=None), [0, 5, 10, 20, 40, 45, 45, 45, 45]),
        (SLOW, [0, 15, 30, 60, 120, 240, 480, 960, 1920, 3600]),
    ],
)
def test_compute_delay_follows_the_table(policy, expected):
    assert [policy.compute_delay(attempt) for attempt in range(1, len(expected) + 1)] == expected


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (QUICK, [0, 5, 10, 20, 40, 80, 160, 300, 300]),
        (SLOW, [0, 15, 30, 60, 120, 240, 480, 960, 1920, 3600]),
    ],
)
def test_delay_after_follows_the_table(policy, expected):
    assert [policy.delay_after(completed) for completed in range(len(expected))] == expected


@pytest.mark.promise("S13")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (QUICK, [5, 10, 20, 40, 80, 160, 300, 300]),
        (SLOW, [15, 30, 60, 120, 240, 480, 960, 1920, 3600]),
    ],
)
def test_delay_for_follows_the_table(policy, expected):
    assert [policy.delay_for(attempt) for attempt in range(len(expected))] == expected


@pytest.mark.promise("S13")
def test_no_delay_is_always_nothing():
    assert {NoDelay().delay_for(attempt) for attempt in range(50)} == {0}


@pytest.mark.promise("S13")
def test_a_fixed_delay_is_the_same_for_every_retry():
    assert {Fixed(30).delay_for(attempt) for attempt in range(50)} == {30}


@pytest.mark.promise("S13")
def test_a_linear_delay_grows_by_itself():
    assert [Linear(60).delay_for(attempt) for attempt in range(4)] == [60, 120, 180, 240]


@pytest.mark.promise("S14")
def test_a_custom_function_sees_the_zero_based_attempt_and_the_base():
    seen = []
    policy = Custom(lambda attempt, base: seen.append((attempt, base)) or 7, base=20)

    delay = policy.compute_delay(5)

    assert delay == 7
    assert seen == [(3, 20)]


@pytest.mark.promise("S14")
def test_a_custom_function_may_answer_zero(caplog):
    assert Custom(lambda attempt, base: 0).delay_for(3) == 0
    assert caplog.records == []


@pytest.mark.promise("S13")
def test_a_bare_exponential_doubles_from_a_quarter_of_a_minute_to_an_hour():
    policy = Exponential(jitter=None)

    assert [policy.delay_for(attempt) for attempt in (0, 1, 2, 7, 8, 99)] == [15, 30, 60, 1920, 3600, 3600]


def test_a_multiplier_of_one_keeps_the_delay():
    assert [Exponential(base=10, multiplier=1, jitter=None).delay_for(attempt) for attempt in (0, 5, 5000)] == [10] * 3


def test_no_base_means_no_delay_however_often_it_is_multiplied():
    assert {Exponential(base=0, jitter=None).delay_for(attempt) for attempt in (0, 1, 5_000, 1_000_000)} == {0}


# The views are one number


@given(policies, attempts, st.integers())
def test_the_three_views_are_one_number(policy, attempt, seed):
    first = policy.compute_delay(attempt + 2, rng=random.Random(seed))
    second = policy.delay_after(attempt + 1, rng=random.Random(seed))
    third = policy.delay_for(attempt, rng=random.Random(seed))

    assert first == second == third


@given(policies, attempts, st.integers())
def test_what_is_planned_is_what_the_views_say(policy, attempt, seed):
    plan = policy.plan(attempt + 1, rng=random.Random(seed))

    assert plan.seconds == policy.delay_for(attempt, rng=random.Random(seed))


@given(policies, st.integers(-5, 1))
def test_the_first_run_has_no_delay(policy, attempt):
    assert policy.compute_delay(attempt) == 0
    assert policy.delay_after(attempt - 1) == 0


@given(policies, st.integers(-5, 0))
def test_a_zero_based_attempt_below_zero_counts_as_the_first_retry(policy, attempt):
    assert policy.delay_for(attempt, job_id="a") == policy.delay_for(0, job_id="a")


# Bounds


@pytest.mark.promise("S15", "F68")
@given(policies, attempts, st.floats(0, 1, exclude_max=True))
def test_every_delay_lies_between_nothing_and_the_cap(policy, attempt, unit):
    limit = LONGEST if policy.max is None else policy.max
    if policy.cap == "soft":
        limit *= 2  # a jitter adds at most as much again

    delay = policy.delay_for(attempt, rng=Unit(unit))

    assert 0 <= delay <= limit


@pytest.mark.promise("S15", "F68")
@pytest.mark.parametrize(
    "policy",
    [
        QUICK,
        Exponential(base=1e-300, multiplier=1e9, max=300, jitter=None),
        Exponential(base=5, multiplier=1_000_000, max=300, jitter=None),
        Exponential(base=5, max=None, jitter=None),
        Linear(1e9, max=300),
        Linear(1e9),
        Fixed(3e9),
        Custom(lambda attempt, base: 10.0**300),
        Custom(lambda attempt, base: 10**400),
    ],
)
def test_no_exponent_overflows(policy):
    limit = LONGEST if policy.max is None else policy.max

    assert all(0 <= policy.delay_for(attempt) <= limit for attempt in (0, 1, 63, 64, 1023, 1024, 10**5, 10**6))


@pytest.mark.promise("F68")
@given(portable.filter(lambda policy: policy.jitter is None and getattr(policy, "multiplier", 1) >= 1), attempts)
def test_a_delay_never_shrinks_from_one_retry_to_the_next(policy, attempt):
    assert policy.delay_for(attempt) <= policy.delay_for(attempt + 1)


# Jitter


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    ("jitter", "least", "most"),
    [
        (PlusMinus(0.15), 85, 115),
        (Additive(0.25), 100, 125),
        (Full(), 0, 100),
        (Equal(), 50, 100),
    ],
)
def test_a_jitter_reaches_its_bounds_and_does_not_pass_them(jitter, least, most):
    policy = Fixed(100, jitter=jitter)

    assert policy.delay_for(0, rng=LEAST) == pytest.approx(least)
    assert policy.delay_for(0, rng=MOST) == pytest.approx(most)
    assert least <= policy.delay_for(0, rng=random.Random(1)) <= most


@pytest.mark.promise("S16")
@pytest.mark.parametrize("jitter", [PlusMinus(), Additive(), Full(), Equal()])
def test_without_a_generator_the_same_job_and_attempt_wait_equally_long(jitter):
    policy = Exponential(base=100, max=10_000, jitter=jitter)

    assert policy.delay_for(3, job_id="a") == policy.delay_for(3, job_id="a")


@pytest.mark.promise("S16")
def test_additive_jitter_ignores_the_generator():
    policy = Fixed(100, jitter=Additive(0.25))

    assert policy.delay_for(3, job_id="a", rng=LEAST) == policy.delay_for(3, job_id="a", rng=MOST)


@pytest.mark.promise("S16")
@pytest.mark.parametrize("jitter", [PlusMinus(), Full(), Equal()])
def test_other_jitters_draw_from_the_generator_that_is_given(jitter):
    policy = Fixed(100, jitter=jitter)

    assert policy.delay_for(3, job_id="a", rng=LEAST) < policy.delay_for(3, job_id="a", rng=MOST)


@pytest.mark.promise("S16")
def test_the_same_job_waits_differently_at_another_attempt():
    policy = Fixed(100, jitter=Additive(0.25))

    assert len({policy.delay_for(attempt, job_id="a") for attempt in range(100)}) == 100


@pytest.mark.promise("S16", "F67")
@pytest.mark.parametrize("jitter", [PlusMinus(), Additive(), Full(), Equal()])
@pytest.mark.parametrize("seed", [None, 7], ids=["by id", "by generator"])
def test_jobs_that_fail_together_spread_evenly(jitter, seed):
    policy, jobs, bins = Fixed(1000, jitter=jitter), 10_000, 20
    generator = None if seed is None else random.Random(seed)
    low, high = policy.delay_for(0, rng=LEAST), policy.delay_for(0, rng=MOST)

    counts = Counter(
        int((policy.delay_for(0, job_id=f"{job:032x}", rng=generator) - low) / (high - low) * bins)
        for job in range(jobs)
    )

    expected = jobs / bins
    chi_square = sum((counts[bin_] - expected) ** 2 / expected for bin_ in range(bins))
    assert chi_square < 43.8  # 19 degrees of freedom: fair draws pass this one time in a thousand


@pytest.mark.promise("F67")
def test_the_default_policy_spreads_jobs_that_fail_together():
    delays = {DEFAULT_POLICY.delay_for(0, job_id=f"{job:032x}") for job in range(1000)}

    assert len(delays) == 1000
    assert 15 * 0.85 <= min(delays) < 13.5
    assert 16.5 < max(delays) <= 15 * 1.15


# The cap


@pytest.mark.promise("S16")
@pytest.mark.parametrize("strategy", ["fixed", "linear", "exponential"])
def test_a_hard_cap_bounds_the_delay_with_its_jitter(strategy):
    policy = RetryPolicy.from_config(strategy=strategy, base=100, max=100, jitter=Additive(0.25))

    assert policy.delay_for(3, rng=MOST) == 100


@pytest.mark.promise("S16")
@pytest.mark.parametrize("strategy", ["fixed", "linear", "exponential"])
def test_a_soft_cap_adds_the_jitter_afterwards(strategy):
    policy = RetryPolicy.from_config(strategy=strategy, base=100, max=100, jitter=Additive(0.25), cap="soft")

    assert policy.delay_for(3, rng=MOST) == pytest.approx(125)


@pytest.mark.promise("S16")
def test_cap_and_jitter_apply_to_custom_delays_too():
    hard = Custom(lambda attempt, base: 1_000, max=100, jitter=Additive(0.25))
    soft = Custom(lambda attempt, base: 1_000, max=100, jitter=Additive(0.25), cap="soft")

    assert hard.delay_for(0, rng=MOST) == 100
    assert soft.delay_for(0, rng=MOST) == pytest.approx(125)


# Policies that are broken


class Unspeakable(float):
    def __repr__(self):
        raise RuntimeError("no text either")


def _raises(error):
    def function(attempt, base):
        raise error

    return function


BROKEN = {
    "raises": _raises(ZeroDivisionError("no luck")),
    "recurses": _raises(RecursionError()),
    "exits": _raises(SystemExit(1)),
    "negative": lambda attempt, base: -1,
    "nan": lambda attempt, base: math.nan,
    "infinite": lambda attempt, base: math.inf,
    "a bool": lambda attempt, base: True,
    "text": lambda attempt, base: "5",
    "nothing": lambda attempt, base: None,
    "has no text": lambda attempt, base: Unspeakable(-1),
    "takes too few": lambda attempt: 5,
}


@pytest.mark.promise("S14")
@pytest.mark.parametrize("function", BROKEN.values(), ids=BROKEN)
def test_a_broken_custom_policy_falls_back_to_the_default_one(function):
    policy = Custom(function)

    assert policy.delay_for(2, job_id="a") == DEFAULT_POLICY.delay_for(2, job_id="a")


@pytest.mark.promise("S14")
@pytest.mark.parametrize("function", BROKEN.values(), ids=BROKEN)
def test_a_broken_custom_policy_logs_one_error(function, caplog):
    Custom(function).delay_for(2)

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("onward", logging.ERROR)
    assert "the default policy decides instead" in record.getMessage()


@pytest.mark.promise("S14")
def test_planning_with_a_broken_policy_tells_the_problem_and_logs_nothing(caplog):
    plan = Custom(BROKEN["negative"]).plan(3, job_id="a")

    assert plan.seconds == DEFAULT_POLICY.delay_for(2, job_id="a")
    assert plan.problem == "Custom answered -1; the default policy decides instead"
    assert caplog.records == []


def test_the_fallback_draws_nothing_that_was_not_given():
    policy = Custom(BROKEN["raises"])

    assert len({policy.plan(3, rng=random.Random(1)) for _ in range(20)}) == 1


@pytest.mark.promise("S15")
def test_the_fallback_keeps_to_the_cap_of_the_custom_policy():
    assert Custom(BROKEN["raises"], max=10).delay_for(5) == 10


# Construction


@pytest.mark.promise("S17")
def test_a_policy_can_be_made_from_configuration():
    policy = RetryPolicy.from_config(strategy="exponential", base=5, multiplier=2.0, max=300, jitter=True)

    assert policy == Exponential(base=5, multiplier=2.0, max=300, jitter=PlusMinus(0.15))


@pytest.mark.promise("S17")
@pytest.mark.parametrize(
    ("strategy", "policy"),
    [
        ("none", NoDelay()),
        ("fixed", Fixed()),
        ("constant", Fixed()),
        ("linear", Linear()),
        ("exponential", Exponential()),
    ],
)
def test_each_strategy_has_its_name_in_configuration(strategy, policy):
    assert RetryPolicy.from_config(strategy=strategy) == policy


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match="it knows constant, exponential, fixed, linear, none"):
        RetryPolicy.from_config(strategy="fibonacci")


@pytest.mark.parametrize("strategy", ["fixed", "linear"])
def test_a_delay_that_configuration_gives_is_not_capped_unless_it_says_so(strategy):
    assert RetryPolicy.from_config(strategy=strategy, base=3600).delay_for(0) == 3600
    assert RetryPolicy.from_config(strategy=strategy, base=3600, max=600).delay_for(0) == 600


def test_a_part_that_a_strategy_does_not_use_is_checked_all_the_same():
    every = {"base": 5, "multiplier": 2.0, "max": 300, "jitter": True}

    assert RetryPolicy.from_config(strategy="none", **every) == NoDelay()
    assert RetryPolicy.from_config(strategy="fixed", **every) == Fixed(5, max=300, jitter=PlusMinus(0.15))
    with pytest.raises(OptionError, match="base must be a number"):
        RetryPolicy.from_config(strategy="none", base="much")


@pytest.mark.promise("S16")
def test_a_bare_exponential_and_jitter_true_mean_fifteen_per_cent():
    assert Exponential().jitter == PlusMinus(0.15)
    assert Fixed(100, jitter=True).delay_for(0, rng=MOST) == pytest.approx(115)


@pytest.mark.parametrize("policy", [Fixed(30), Linear(30)])
def test_fixed_and_linear_have_no_jitter_unless_given(policy):
    assert policy.delay_for(0, rng=LEAST) == policy.delay_for(0, rng=MOST) == 30


@pytest.mark.promise("S13", "S16")
def test_the_default_policy_is_a_bare_exponential_and_so_is_its_name():
    assert Exponential(base=15, multiplier=2, max=3600, jitter=PlusMinus(0.15)) == DEFAULT_POLICY
    assert Exponential() == RetryPolicy.from_config(strategy="exponential") == DEFAULT_POLICY


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((Fixed, {"delay": delay}) for delay in (-1, math.nan, math.inf, "5", True, None, 10**400)),
        (Linear, {"delay": -1}),
        *((Exponential, {"base": base}) for base in (-1, math.nan, 1e300)),
        *((Exponential, {"multiplier": multiplier}) for multiplier in (-2, 0, 0.0, math.inf, None, 10**400)),
        *((Exponential, {"max": most}) for most in (-1, "1h", 1e300)),
        *((Exponential, {"cap": cap}) for cap in ("mild", None)),
        *((Exponential, {"jitter": jitter}) for jitter in ("full", 0.15, Full)),
        *((PlusMinus, {"ratio": ratio}) for ratio in (-0.1, 1.5, math.nan, "much", True)),
        *((Additive, {"ratio": ratio}) for ratio in (-0.1, None)),
        *((Custom, {"function": function}) for function in (5, None)),
        (Custom, {"function": lambda attempt, base: 1, "base": -1}),
        (RetryPolicy, {}),
        (RetryPolicy.from_config, {"strategy": "fixed", "base": -1}),
        (RetryPolicy.from_config, {"strategy": "fixed", "cap": "mild"}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or " ".join(f"{k} {v!r:.12}" for k, v in value.items()),
)
def test_a_parameter_that_makes_no_sense_is_refused_when_it_is_given(kind, options):
    with pytest.raises(OptionError):
        kind(**options)


# Travelling


@pytest.mark.promise("S12")
@given(portable)
def test_a_portable_policy_survives_the_journey(policy):
    assert msgspec.json.decode(msgspec.json.encode(policy), type=PortablePolicy) == policy


@pytest.mark.parametrize(
    "data",
    [
        b'{"strategy":"exponential","base":-5}',
        b'{"strategy":"exponential","max":1e300}',
        b'{"strategy":"fixed","delay":30,"jitter":{"kind":"plus_minus","ratio":-3}}',
        b'{"strategy":"fixed","delay":30,"cap":"mild"}',
        b'{"strategy":"custom","function":"os.system"}',
    ],
)
def test_a_policy_that_makes_no_sense_is_not_read_from_bytes(data):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=PortablePolicy)
