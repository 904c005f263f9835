"""What a handler may know and say while it runs."""

import math

import pytest

from onward.context import JobContext


def a_context(**fields):
    known = {
        "id": "a",
        "job": "send",
        "name": "nightly",
        "queue": "mail",
        "attempt": 1,
        "max_retries": 0,
        "payload": b'{"to":"me"}',
        "meta": {"trace": "abc"},
        "delivery": 7,
    }
    return JobContext(**(known | fields))


def test_the_payload_is_plain_data_by_parameter_name():
    assert a_context().payload == {"to": "me"}


@pytest.mark.promise("S2", "S4")
@pytest.mark.parametrize(
    ("attempt", "max_retries", "last"), [(1, 0, True), (1, 1, False), (2, 1, True), (5, 5, False), (6, 5, True)]
)
def test_the_last_attempt_is_the_one_after_all_retries(attempt, max_retries, last):
    assert a_context(attempt=attempt, max_retries=max_retries).is_last_attempt is last


def test_a_run_starts_neither_cancelled_nor_lost():
    context = a_context()

    assert (context.cancelled, context.lost) == (False, False)


def test_a_run_that_was_asked_to_stop_is_cancelled_but_not_lost():
    context = a_context()

    context.ask_to_stop()

    assert (context.cancelled, context.lost) == (True, False)


def test_a_run_whose_lease_is_lost_should_stop_too():
    context = a_context()

    context.lose()

    assert (context.cancelled, context.lost) == (True, True)


@pytest.mark.parametrize("fraction", [0, 0.5, 1, True])
def test_progress_is_reported(fraction):
    reports = []
    context = a_context(report=lambda *report: reports.append(report) or True)

    context.progress(fraction, "half-way")

    assert reports == [(fraction, "half-way")]
    assert not context.lost


def test_progress_that_nobody_takes_tells_that_the_lease_is_lost():
    context = a_context(report=lambda fraction, note: False)

    context.progress(0.5)

    assert context.lost


def test_progress_outside_a_worker_goes_nowhere():
    context = a_context()

    context.progress(0.5)

    assert not context.lost


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, math.inf])
def test_progress_lies_between_nothing_and_all(fraction):
    with pytest.raises(ValueError, match="progress must lie between 0 and 1"):
        a_context().progress(fraction)


def test_a_context_has_no_room_for_other_things():
    with pytest.raises(AttributeError):
        a_context().anything = 1


def test_a_context_is_shown_by_name_id_and_attempt():
    assert repr(a_context(attempt=3)) == "<JobContext nightly a attempt 3>"
