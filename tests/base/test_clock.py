"""Instants as microseconds, exactly."""

import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from onward.base.clock import SECOND, Clock, JumpingClock, SystemClock, from_micros, to_micros
from onward.testing import FakeClock


@given(st.integers(-(10**16), 10**17))
def test_an_instant_survives_the_way_to_a_datetime_and_back(micros):
    assert to_micros(from_micros(micros)) == micros


@given(st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/New_York")])))
def test_a_datetime_of_any_zone_is_the_same_instant(moment):
    assert from_micros(to_micros(moment)) == moment.astimezone(UTC)


def test_instants_count_microseconds_from_1970():
    assert to_micros(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert to_micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == SECOND == 1_000_000


def test_the_system_clock_is_the_host_s():
    before, micros, after = time.time(), SystemClock().micros(), time.time()

    assert int(before * SECOND) - 1 <= micros <= after * SECOND + 1


def test_a_datetime_given_to_people_is_aware():
    assert from_micros(0).tzinfo is UTC


def test_the_zone_of_a_datetime_counts():
    there = datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))

    assert to_micros(there) == to_micros(datetime(2030, 1, 1, tzinfo=UTC))


def test_the_system_clock_tells_both_in_step():
    clock = SystemClock()

    before, now, after = clock.micros(), clock.now(), clock.micros()

    assert before <= to_micros(now) <= after


def test_a_jumping_clock_jumps_ahead_and_never_back():
    clock = JumpingClock(FakeClock())
    start = clock.micros()

    clock.jump_to(start + 60 * SECOND)
    clock.jump_to(start)

    assert clock.micros() == start + 60 * SECOND
    assert to_micros(clock.now()) == clock.micros()


def test_a_jumping_clock_runs_on_after_a_jump():
    base = FakeClock()
    clock = JumpingClock(base)
    clock.jump_to(clock.micros() + 60 * SECOND)
    there = clock.micros()

    base.advance(5)

    assert clock.micros() == there + 5 * SECOND


def test_all_clocks_are_clocks():
    assert all(isinstance(clock, Clock) for clock in (SystemClock(), JumpingClock(), FakeClock()))
