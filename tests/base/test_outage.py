"""What is said of an outage: a line when it begins, one a minute, one when it is over."""

import pytest

from onward.base.logs import get_logger
from onward.base.outage import Outage
from onward.errors import BackendUnavailable

AWAY = BackendUnavailable("connection refused")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def outage(clock):
    return Outage(get_logger("onward.testing.outage"), clock=clock)


def test_an_outage_is_told_when_it_begins_once_a_minute_and_when_it_is_over(outage, clock, caplog):
    for _ in range(123):
        outage.failed(AWAY)
        clock.now += 1
    outage.over()

    assert [record.getMessage() for record in caplog.records] == [
        "the store did not answer (BackendUnavailable: connection refused); trying again until it does",
        "the store has not answered for 1 min (BackendUnavailable: connection refused)",
        "the store has not answered for 2 min (BackendUnavailable: connection refused)",
        "the store is back after 2 min 3 s",
    ]
    assert [record.event for record in caplog.records] == [
        "store.away",
        "store.still_away",
        "store.still_away",
        "store.back",
    ]


def test_a_store_that_answers_is_not_spoken_of(outage, caplog):
    outage.over()
    outage.over()

    assert caplog.records == []
    assert not outage.lasts


def test_a_second_outage_is_told_like_the_first(outage, clock, caplog):
    for _ in range(2):
        outage.failed(AWAY)
        assert outage.lasts
        clock.now += 0.34
        outage.over()

    assert [record.event for record in caplog.records] == ["store.away", "store.back"] * 2
    assert caplog.records[-1].getMessage() == "the store is back after 340 ms"


def test_every_line_of_an_event_has_the_same_template(outage, clock, caplog):
    for error in (AWAY, OSError("no file")):
        outage.failed(error)
        clock.now += 61
        outage.failed(error)
        outage.over()

    assert len({(record.event, record.msg) for record in caplog.records}) == 3
