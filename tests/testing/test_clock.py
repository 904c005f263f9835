"""The clock that tests move."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from onward.base.clock import Clock
from onward.testing import FakeClock
from onward.testing.contract.builders import at_once


def test_it_is_a_clock_that_stands_still():
    clock = FakeClock()

    assert isinstance(clock, Clock)
    assert clock.now() == FakeClock().now()


@pytest.mark.parametrize("step", [90, 90.0, timedelta(minutes=1, seconds=30)])
def test_it_moves_by_seconds_or_a_timedelta(step):
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))

    clock.advance(step)

    assert clock.now() == datetime(2030, 1, 1, 0, 1, 30, tzinfo=UTC)


def test_it_keeps_microseconds():
    clock = FakeClock()
    before = clock.micros()

    clock.advance(0.000001)

    assert clock.micros() == before + 1


def test_it_can_go_back():
    clock = FakeClock()
    before = clock.micros()

    clock.advance(-1)

    assert clock.micros() == before - 1_000_000


def test_it_can_be_set():
    clock = FakeClock()

    clock.set(datetime(2040, 5, 6, tzinfo=UTC))

    assert clock.now() == datetime(2040, 5, 6, tzinfo=UTC)


def test_an_instant_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="naive"):
        FakeClock().set(datetime(2040, 5, 6))  # noqa: DTZ001


def test_threads_that_move_it_lose_no_step():
    clock = FakeClock()
    before = clock.micros()

    at_once(4, lambda _: [clock.advance(1) for _ in range(500)])

    assert clock.micros() == before + 2_000 * 1_000_000


def test_it_needs_no_pytest():
    program = "import sys, onward.testing; sys.exit('pytest' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
