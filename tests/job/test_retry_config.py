"""Retry policies as configuration says them: names, tables and texts."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Additive, Custom, Equal, Exponential, Fixed, Full, Linear, NoDelay, PlusMinus, RetryPolicy
from onward.errors import OptionError
from onward.job.retry import travels
from onward.job.retry_config import read_policy, worded


@pytest.mark.promise("S17")
@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ("none", NoDelay()),
        ("fixed", Fixed()),
        ("constant", Fixed()),
        ("linear", Linear()),
        ("exponential", Exponential()),
        ("fixed, base=90", Fixed(90)),
        ("linear,base=2m,max=1h", Linear(120.0, max=3600.0)),
        (
            "exponential, base=5, multiplier=3, max=300, jitter=false",
            Exponential(base=5, multiplier=3, max=300, jitter=None),
        ),
        ("exponential,max=none,jitter=true", Exponential(max=None)),
        ("exponential, jitter=additive:0.1, cap=soft", Exponential(jitter=Additive(0.1), cap="soft")),
        ({"strategy": "exponential"}, Exponential()),
        (
            {"strategy": "exponential", "base": 5, "multiplier": 2, "max": "5m", "jitter": True},
            Exponential(base=5, multiplier=2, max=300.0),
        ),
        ({"strategy": "fixed", "base": timedelta(minutes=1), "jitter": "full"}, Fixed(60.0, jitter=Full())),
        ({"strategy": "fixed", "base": 7, "jitter": Equal()}, Fixed(7, jitter=Equal())),
        ({"strategy": "none", "base": 5, "multiplier": 2, "max": 300, "jitter": True}, NoDelay()),
        (Linear(7), Linear(7)),
    ],
    ids=str,
)
def test_a_policy_can_be_said_by_name_by_text_and_by_table(value, policy):
    assert read_policy(value, "retry") == policy


@pytest.mark.promise("S17")
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("exponentail", "retry: there is no retry strategy 'exponentail': did you mean 'exponential'?"),
        ("", "there is no retry strategy ''"),
        ("fixed, 30", "'30' is not part=value"),
        ("fixed, base=30, base=60", "'base' is given twice"),
        ("fixed, base=soon", "cannot be read"),
        ("fixed, bas=30", "there is no part 'bas': did you mean 'base'?"),
        ("exponential, multiplier=0", "multiplier must be above 0"),
        ("exponential, multiplier=nan", "multiplier must be a number"),
        ("exponential, jitter=fll", "there is no jitter 'fll': did you mean 'full'?"),
        ("exponential, jitter=full:0.5", "has no ratio"),
        ("exponential, jitter=additive:much", "ratio must be a number"),
        ("exponential, cap=mild", "cap must be 'hard' or 'soft'"),
        ({}, "the policy names no strategy"),
        ({"base": 5}, "the policy names no strategy"),
        ({"strategy": 5}, "there is no retry strategy 5"),
        ({"strategy": "fixed", "delay": 30}, "there is no part 'delay'"),
        ({"strategy": "fixed", "base": -1}, "base must be a number"),
        ({"strategy": "none", "max": math.nan}, "max must be a number"),
        ({"strategy": "fixed", "jitter": 0.15}, "jitter must be"),
        ({"strategy": "custom", "function": print}, "there is no part 'function'"),
        (30, "must be a policy such as"),
        (True, "must be a policy such as"),
        (Exponential, r"write Exponential\(\)"),
        (print, "must be a policy such as"),
    ],
    ids=str,
)
def test_what_is_no_policy_is_refused_with_the_fix(value, says):
    with pytest.raises(OptionError, match=says):
        read_policy(value, "retry")


numbers = st.floats(0, 10_000, allow_nan=False)
ratios = st.floats(0, 1)
jitters = st.one_of(
    st.none(), st.builds(PlusMinus, ratios), st.builds(Additive, ratios), st.just(Full()), st.just(Equal())
)
shared = {"max": st.none() | numbers, "jitter": jitters, "cap": st.sampled_from(["hard", "soft"])}


@given(
    st.one_of(
        st.just(NoDelay()),
        st.builds(Fixed, numbers, **shared),
        st.builds(Linear, numbers, **shared),
        st.builds(Exponential, base=numbers, multiplier=st.floats(0, 100, exclude_min=True), **shared),
    )
)
def test_a_policy_survives_its_own_text(policy):
    assert read_policy(worded(policy), "retry") == policy


class Mine(Exponential, frozen=True):
    def compute_delay(self, attempt, **_):
        return super().compute_delay(attempt) + 1000


class Alone(RetryPolicy, frozen=True):
    def compute_delay(self, attempt):
        return 10 * attempt


@pytest.mark.parametrize(
    "policy", [Mine(), Alone(), Custom(lambda attempt, base: 1)], ids=lambda each: type(each).__name__
)
def test_a_policy_of_the_users_own_is_code_and_does_not_travel(policy):
    assert not travels(policy)
    assert travels(Exponential())
    assert not travels(None)


def test_a_policy_of_the_users_own_says_its_delay_by_computing_it():
    assert 1012 <= Mine().plan(1).seconds <= 1018
    assert Alone().plan(3) == (40, None)
