"""What a handler may know and say while it runs."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from onward.base.logs import Once
from onward.errors import JobTimeout
from onward.job import context
from onward.job.context import JobContext


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


def test_progress_that_the_store_refuses_tells_that_the_lease_is_lost():
    context = a_context(report=lambda fraction, note: False)

    context.progress(0.5)

    assert context.lost


def test_progress_outside_a_worker_goes_nowhere():
    context = a_context()

    context.progress(0.5)

    assert not context.lost


class Unspeakable:
    def __float__(self):
        raise RuntimeError("not even a number")

    def __repr__(self):
        raise RuntimeError("not even my own text")


@pytest.fixture
def first_time(monkeypatch):
    """No job of this process has been warned of anything yet."""
    monkeypatch.setattr(context, "_warns", Once())


@pytest.mark.parametrize(
    "fraction", [-0.1, 1.1, math.nan, math.inf, None, "0.5", b"0.5", 10**400, [], 1j, Unspeakable()], ids=type
)
def test_what_is_no_fraction_is_refused_with_words_and_the_job_goes_on(first_time, caplog, fraction):
    reports = []
    known = a_context(report=lambda *report: reports.append(report) or True)

    known.progress(fraction)

    assert reports == []
    assert "job send a reports progress that cannot be noted" in caplog.text
    assert "is no number between 0 and 1: pass done / total" in caplog.text


@pytest.mark.parametrize("note", [{"a": 1}, b"half", 5, object()], ids=type)
def test_a_note_that_is_no_text_is_left_out_with_words(first_time, caplog, note):
    reports = []
    known = a_context(report=lambda *report: reports.append(report) or True)

    known.progress(0.5, note)

    assert reports == [(0.5, None)]
    assert f"a note is text, not a {type(note).__name__}: pass str(...) of it" in caplog.text


def test_each_problem_of_a_job_is_told_once(first_time, caplog):
    known = a_context()
    for _ in range(3):
        known.progress(2, {"a": 1})
    a_context(job="other").progress(2)

    assert [line.args[0] for line in caplog.records] == ["send", "send", "other"]


@pytest.mark.parametrize("number", [Decimal("0.5"), Fraction(1, 2)], ids=type)
def test_any_kind_of_number_is_a_fraction(number):
    reports = []

    a_context(report=lambda *report: reports.append(report) or True).progress(number)

    assert reports == [(0.5, None)]


def test_a_report_that_raises_does_not_fail_the_job(first_time, caplog):
    def report(fraction, note):
        raise OSError("the store's driver is broken")

    known = a_context(report=report)
    known.progress(0.5)

    assert not known.lost
    assert "OSError: the store's driver is broken" in caplog.text


def test_an_interruption_while_progress_is_reported_is_not_swallowed():
    def report(fraction, note):
        raise JobTimeout

    with pytest.raises(JobTimeout):
        a_context(report=report).progress(0.5)


def test_a_context_has_no_room_for_other_things():
    with pytest.raises(AttributeError):
        a_context().anything = 1


def test_a_context_is_shown_by_name_id_and_attempt():
    assert repr(a_context(attempt=3)) == "<JobContext nightly a attempt 3>"
