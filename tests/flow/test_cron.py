"""Which instants an expression names, in every zone and both ways; the oracle looks at every minute on the wall."""

import functools
import itertools
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import InvalidSchedule, daily_at, every, hourly_at, weekly_on
from onward.base.clock import SECOND, from_micros, to_micros
from onward.flow.cron import MOST_TICKS, ticks_of

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
# Each with what an instant on the wall must look like, and whether it is a fixed time.
EXPRESSIONS = {
    "30 2 * * *": (lambda wall: (wall.hour, wall.minute) == (2, 30), True),
    "0,30 1-3 * * *": (lambda wall: wall.hour in (1, 2, 3) and wall.minute in (0, 30), True),
    "45 1 * * *": (lambda wall: (wall.hour, wall.minute) == (1, 45), True),
    "*/30 * * * *": (lambda wall: wall.minute in (0, 30), False),
    "0 */2 * * *": (lambda wall: wall.hour % 2 == 0 and wall.minute == 0, False),
    "15 * * * sun": (lambda wall: wall.weekday() == 6 and wall.minute == 15, False),
    "*/20 2 * * *": (lambda wall: wall.hour == 2 and wall.minute in (0, 20, 40), False),
    "10 */24 * * *": (lambda wall: (wall.hour, wall.minute) == (0, 10), False),
}
MINUTE = 60 * SECOND
# Two days around each change of clocks of 2026, and two without one.
STARTS = [datetime(2026, *day, tzinfo=UTC) for day in ((3, 7), (3, 28), (4, 4), (7, 1), (10, 3), (10, 24), (10, 31))]


@functools.cache
def walls(zone, start, end):
    """Every minute in ``[start, end)`` with its time on the wall, and the times that a gap before it has left out."""
    place = ZoneInfo(zone)
    found = []
    before = from_micros(start - MINUTE).astimezone(place).replace(tzinfo=None)
    for minute in range(start, end, MINUTE):
        wall = from_micros(minute).astimezone(place)
        here = wall.replace(tzinfo=None)
        gap = range(1, int((here - before) / timedelta(minutes=1)))
        found.append((minute, wall, [before + timedelta(minutes=number) for number in gap]))
        before = here
    return found


def expected(matches, fixed, zone, start, end):
    """The ticks in ``[start, end)``, found by looking at every minute."""
    return [
        minute
        for minute, wall, left_out in walls(zone, start, end)
        if (matches(wall) and not (fixed and wall.fold)) or (fixed and any(map(matches, left_out)))
    ]


def until(ticks, end):
    return list(itertools.takewhile(lambda tick: tick < end, ticks))


def since(ticks, start):
    return list(itertools.takewhile(lambda tick: tick >= start, ticks))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.promise("S86")
def test_ticks_are_those_on_the_wall_forwards_and_backwards(expression, zone):
    matches, fixed = EXPRESSIONS[expression]
    ticks = ticks_of(expression, zone)
    for first in STARTS:
        start, end = to_micros(first), to_micros(first + timedelta(days=2))

        wanted = expected(matches, fixed, zone, start, end)

        assert until(ticks.after(start - 1), end) == wanted
        assert since(ticks.before(end), start)[::-1] == wanted
        assert ticks.count(start - 1, end - 1) == len(wanted)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_walk_that_starts_anywhere_near_a_change_of_clocks_misses_no_tick(expression, zone):
    matches, fixed = EXPRESSIONS[expression]
    ticks = ticks_of(expression, zone)
    for first in (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 24, 22, tzinfo=UTC)):
        start = to_micros(first)
        begin, end = start - 26 * 60 * MINUTE, start + 30 * 60 * MINUTE
        wanted = expected(matches, fixed, zone, begin, end)
        for instant in range(start, start + 4 * 60 * MINUTE, 7 * MINUTE):
            later = [tick for tick in wanted if tick > instant][:1]
            earlier = [tick for tick in wanted if tick < instant][-1:]

            assert until(itertools.islice(ticks.after(instant), 1), end) == later
            assert since(itertools.islice(ticks.before(instant), 1), begin) == earlier


@given(
    st.sampled_from([*EXPRESSIONS, "@every 7m", "*/10 * * * * *", "0 12 L * *", "0 0 * * 5L", "0 8 * * mon#2"]),
    st.sampled_from(ZONES),
    st.integers(to_micros(datetime(2024, 1, 1, tzinfo=UTC)), to_micros(datetime(2028, 1, 1, tzinfo=UTC))),
)
def test_forwards_and_backwards_are_the_same_walk(expression, zone, instant):
    ticks = ticks_of(expression, zone)
    forwards = list(itertools.islice(ticks.after(instant), 5))

    backwards = list(itertools.islice(ticks.before(forwards[-1] + 1), 5))

    assert backwards[::-1] == forwards
    assert sorted(set(forwards)) == forwards
    assert forwards[0] > instant


@pytest.mark.promise("S86")
def test_a_change_of_clocks_of_half_an_hour_loses_no_even_hour():
    ticks = ticks_of("0 */2 * * *", "Australia/Lord_Howe")
    start = to_micros(datetime(2026, 4, 4, 12, tzinfo=UTC))  # 23:00; at 02:00 the clocks go back to 01:30

    first = [
        from_micros(tick).astimezone(ZoneInfo("Australia/Lord_Howe"))
        for tick in itertools.islice(ticks.after(start), 3)
    ]

    assert [f"{tick:%H:%M %z}" for tick in first] == ["00:00 +1100", "02:00 +1030", "04:00 +1030"]


@pytest.mark.promise("S86")
def test_every_period_ignores_the_clock_on_the_wall():
    ticks = ticks_of("@every 30m", "Europe/Berlin")
    start = to_micros(datetime(2026, 3, 29, tzinfo=UTC))

    found = list(itertools.islice(ticks.after(start), 10))

    assert [(tick - start) // MINUTE for tick in found] == [30 * number for number in range(1, 11)]


def test_six_fields_begin_with_the_second():
    start = to_micros(datetime(2026, 1, 1, tzinfo=UTC))

    found = list(itertools.islice(ticks_of("*/20 30 9 * * *").after(start), 4))

    assert [f"{from_micros(tick):%d %H:%M:%S}" for tick in found] == [
        "01 09:30:00",
        "01 09:30:20",
        "01 09:30:40",
        "02 09:30:00",
    ]


@pytest.mark.parametrize(
    ("alias", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_an_alias_means_its_fields(alias, expression):
    start = to_micros(datetime(2026, 5, 5, tzinfo=UTC))

    assert next(ticks_of(alias).after(start)) == next(ticks_of(expression).after(start))


def test_helpers_write_expressions():
    assert [daily_at("02:30"), weekly_on("Monday", "9:05".zfill(5)), hourly_at(15), every("1h 30m"), every(1.5)] == [
        "30 2 * * *",
        "5 9 * * mon",
        "15 * * * *",
        "@every 5400s",
        "@every 1.5s",
    ]


REFUSED = {
    "61 * * * *": "minute must be",
    "* 24 * * *": "hour must be",
    "* * 32 * *": "day of month",
    "* * * 13 *": "month must be",
    "* * * * 8": "day of week must be",
    "* * * * mond": "day of week must be",
    "* * *": "has 3 fields",
    "": "has 0 fields",
    "* * * * * * *": "has 7 fields",
    "@every 0s": "'@every 30s'",
    "@every 500ms": "'@every 30s'",
    "@every": "there is no alias",
    "@every 400d": "1s to 366d",
    "@every soon": "'@every 30s'",
    "@reboot": "@hourly",
    "1-1000000000 * * * *": "minute must be",
    "*/1000000000 * * * *": "must be 1 to 60",
    "*/0 * * * *": "must be 1 to 60",
    "0 0 31 2 *": "day of month",
    "5-1 * * * *": "minute must be",
    "0\u00a09 * * * *": "characters that no field has",
    "٣ * * * *": "characters that no field has",
    "0 9\n* * *": "characters that no field has",
    "* " * 50_000: "100,000 characters",
    ",".join(["1"] * 150) + " * * * *": "characters, and the limit is 200",
    None: "not NoneType",
    5: "not int",
}


@pytest.mark.promise("S94")
@pytest.mark.parametrize("expression", REFUSED, ids=lambda expression: f"{expression!r:.30}")
def test_what_is_no_expression_is_refused_in_a_millisecond_with_the_fix(expression):
    ticks_of("0 0 * * *")  # what is imported at first use

    begun = time.process_time()
    with pytest.raises(InvalidSchedule) as refused:
        ticks_of(expression)
    took = time.process_time() - begun

    assert REFUSED[expression] in str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert len(str(refused.value)) < 300
    assert took < 0.001 or _again(expression) < 0.001


def _again(expression):
    """The shortest of many: a shared machine interrupts."""
    took = []
    for _ in range(20):
        begun = time.process_time()
        with pytest.raises(InvalidSchedule):
            ticks_of(expression)
        took.append(time.process_time() - begun)
    return min(took)


@pytest.mark.parametrize(
    "zone", ["Europe/Berln", "europe/berlin", "Berlin", "", "../etc/passwd", "x" * 5000, None, "Europe"]
)
def test_an_unknown_zone_is_refused_with_the_nearest(zone):
    with pytest.raises(InvalidSchedule, match="there is no time zone") as refused:
        ticks_of("0 9 * * *", zone)

    assert ("'Europe/Berlin'" in str(refused.value)) or zone == "Europe"


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "right/Europe/Berlin", "posix/Europe/Berlin"])
def test_a_zone_that_differs_from_machine_to_machine_is_refused(zone):
    with pytest.raises(InvalidSchedule, match="there is no time zone"):
        ticks_of("0 9 * * *", zone)


@pytest.mark.parametrize(
    "make", [lambda: daily_at("25:00"), lambda: daily_at("02:30:15"), lambda: weekly_on("mo"), lambda: hourly_at(60)]
)
def test_helpers_refuse_what_is_no_time(make):
    with pytest.raises(InvalidSchedule, match="takes a"):
        make()


def test_counting_ends():
    year = 366 * 86_400 * SECOND
    start = to_micros(datetime(2026, 1, 1, tzinfo=UTC))

    assert ticks_of("* * * * * *").count(start, start + year) == MOST_TICKS
    assert ticks_of("@every 1s").count(start, start + year) == MOST_TICKS
    assert ticks_of("@every 1s").count(start, start + 10 * SECOND) == 10
    assert ticks_of("@every 1h").count(start, start - 1) == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["0 0 29 2 *", "0 0 1 1 *", "@every 366d"])
def test_a_walk_into_the_past_ends_in_1970_and_is_the_way_back(expression, zone):
    ticks = ticks_of(expression, zone)
    now = to_micros(datetime(2026, 1, 2, tzinfo=UTC))

    assert list(ticks.before(now)) == until(ticks.after(-1), now)[::-1]


def test_a_walk_into_the_future_ends_with_the_last_year_of_the_calendar():
    *_, last = ticks_of("0 0 29 2 *").after(to_micros(datetime(9000, 1, 1, tzinfo=UTC)))

    assert from_micros(last) == datetime(9996, 2, 29, tzinfo=UTC)
