"""The user's words, and what they carry."""

import copy
import pickle
from datetime import timedelta

import pytest

from onward.errors import InvalidTime
from onward.job.signals import Discard, Retry, Snooze


@pytest.mark.parametrize(("after", "seconds"), [(5, 5), (0, 0), ("10m", 600), (timedelta(hours=1), 3600)])
def test_a_retry_says_when(after, seconds):
    assert Retry(after=after).after == seconds


@pytest.mark.parametrize(("delay", "seconds"), [(5, 5), (0, 1), (0.5, 1), ("10m", 600)])
def test_a_snooze_lasts_at_least_a_second(delay, seconds):
    assert Snooze(delay).delay == seconds


@pytest.mark.parametrize("signal", [Retry, Snooze])
@pytest.mark.parametrize("length", [-1, float("nan"), "soon", None])
def test_a_length_that_makes_no_sense_is_refused(signal, length):
    with pytest.raises(InvalidTime):
        signal(length)


@pytest.mark.parametrize("reason", [404, ValueError("404"), None])
def test_any_reason_to_discard_becomes_text(reason):
    assert Discard(reason).reason == str(reason)


@pytest.mark.parametrize("signal", [Retry(after=5, message="busy"), Snooze(60, "later"), Discard("gone")])
@pytest.mark.parametrize("journey", [copy.copy, lambda signal: pickle.loads(pickle.dumps(signal))])
def test_a_signal_can_be_copied_and_sent_to_another_process(signal, journey):
    arrived = journey(signal)

    assert type(arrived) is type(signal)
    assert (str(arrived), vars(arrived)) == (str(signal), vars(signal))
