"""Lengths of time and instants, as users may say them."""

import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base.durations import LONGEST, instant, seconds, spoken
from onward.errors import InvalidTime


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (0, 0),
        (LONGEST, LONGEST),
        (90, 90),
        (1.5, 1.5),
        (timedelta(minutes=2, milliseconds=500), 120.5),
        ("250ms", 0.25),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 1 h  30 m ", 5400),
        ("1d 2h 3m 4s 5ms", 93_784.005),
        ("0s", 0),
        ("100ms 1s", 1.1),
    ],
)
def test_a_length_can_be_said_as_seconds_a_timedelta_or_text(said, meant):
    assert seconds(said) == pytest.approx(meant)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "10", "m", "m10", "10 minutes", "10x", "10M", "ten m", "1h30", "-5m", "+5m", "5m-3m", "1,5h"),
        *("1e3s", ".5h", "5.m", "10m!", "10m\x00", "1:30", "PT10M", "nans", "infs", "١m"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(InvalidTime, match="write it as '90s', '10m'"):
        seconds(text)


@pytest.mark.parametrize(
    "length",
    [
        *(-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf, 10**400, -(10**400)),
        *("9" * 400 + "s", "9" * 5000 + "w", "101000w", timedelta.max, LONGEST + 1),
    ],
    ids=lambda length: str(type(length).__name__),
)
def test_a_length_beyond_reason_is_refused(length):
    with pytest.raises(InvalidTime, match="delay must lie between 0 seconds and 100 years"):
        seconds(length, "delay")


@pytest.mark.parametrize(
    "value", [None, True, False, b"10m", Decimal(5), [5], object, datetime(2030, 1, 1, tzinfo=UTC), 1j]
)
def test_what_is_no_length_at_all_is_refused(value):
    with pytest.raises(InvalidTime, match="must be seconds, a timedelta or a string such as '10m'"):
        seconds(value)


@given(st.floats() | st.integers() | st.timedeltas() | st.text())
def test_any_length_is_a_finite_number_or_refused(value):
    try:
        length = seconds(value)
    except InvalidTime:
        return

    assert 0 <= length <= LONGEST


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2030, 1, 1, tzinfo=UTC),
        datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        datetime(2029, 12, 31, 19, tzinfo=ZoneInfo("America/New_York")),
    ],
)
def test_an_aware_datetime_is_an_instant(moment):
    assert instant(moment) == 1_893_456_000_000_000


def test_both_sides_of_a_repeated_hour_are_different_instants():
    first = datetime(2030, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))

    assert instant(first.replace(fold=1)) - instant(first) == 3_600_000_000


class Nowhere(tzinfo):
    def utcoffset(self, moment):
        return None


@pytest.mark.parametrize("zone", [None, Nowhere()])
def test_a_naive_datetime_is_refused_with_the_fix(zone):
    with pytest.raises(InvalidTime, match=r"at is a naive datetime.*timezone\.utc"):
        instant(datetime(2030, 1, 1, tzinfo=zone), "at")


@pytest.mark.parametrize("value", [None, 5, "2030-01-01T00:00:00Z", date(2030, 1, 1), timedelta(1)])
def test_what_is_no_datetime_is_refused(value):
    with pytest.raises(InvalidTime, match="must be an aware datetime"):
        instant(value)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.34, "340 ms"),
        (0.9996, "1.0 s"),
        (1.1, "1.1 s"),
        (9.96, "10 s"),
        (23.4, "23 s"),
        (59.6, "1 min"),
        (123, "2 min 3 s"),
        (3599.9, "1 h"),
        (3720, "1 h 2 min"),
        (86_400, "1 d"),
        (3 * 86_400 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_a_length_of_time_is_told_as_a_person_says_it(seconds, told):
    assert spoken(seconds) == told
