"""When a breaker shuts and opens: the pure rule of one process."""

import pytest

from onward import Breaker, Discard, InvalidLimit, JobTimeout, Retry
from onward.base.clock import SECOND
from onward.flow.breaker import RecentRuns, Verdict

NOTHING = Verdict()


def runs(failures=3, of=5, pause=30, longest=100, **more):
    return RecentRuns(Breaker(failures=failures, of=of, pause=pause, longest=longest, **more))


def ended(recent, text, now=0):
    """Judge runs: ``x`` failed, ``.`` did not.  Returns the last verdict."""
    verdicts = [recent.judge(blamed=each == "x", probe=0, now=now) for each in text]
    assert verdicts[:-1] == [NOTHING] * (len(text) - 1)
    return verdicts[-1]


class TestCounting:
    def test_so_many_failures_of_the_last_runs_shut(self):
        assert ended(runs(), "x.x.x") == Verdict(shut_for=30)

    def test_older_runs_are_forgotten(self):
        assert ended(runs(), "xx...x.x..x.x") == NOTHING
        assert ended(runs(), "xx...x.x..x.xx") == Verdict(shut_for=30)

    def test_counting_begins_anew_after_it_was_shut(self):
        recent = runs()
        ended(recent, "xxx")
        assert ended(recent, "xx", now=31 * SECOND) == NOTHING
        assert ended(recent, "x", now=31 * SECOND) == Verdict(shut_for=30)

    def test_a_failure_while_it_is_shut_waits_and_a_success_opens_nothing(self):
        recent = runs()
        ended(recent, "xxx")

        assert ended(recent, "x", now=10 * SECOND) == Verdict(snooze=20)
        assert ended(recent, ".", now=11 * SECOND) == NOTHING
        assert ended(recent, "x", now=12 * SECOND) == Verdict(snooze=18)


class TestProbing:
    def test_a_probe_that_succeeds_opens(self):
        recent = runs()
        ended(recent, "xxx")

        assert recent.judge(blamed=False, probe=30, now=SECOND) == Verdict(shut_for=0)
        assert ended(recent, "xx", now=2 * SECOND) == NOTHING

    def test_a_probe_that_fails_shuts_for_twice_as_long_up_to_the_longest(self):
        recent = runs()

        lengths = [recent.judge(blamed=True, probe=probe, now=0).shut_for for probe in (30, 60, 100)]

        assert lengths == [60, 100, 100]
        assert ended(recent, "x") == Verdict(snooze=100)


class TestBlaming:
    @pytest.mark.parametrize(
        ("error", "blamed"),
        [
            (None, False),
            (ConnectionError(), True),
            (ConnectionRefusedError(), True),
            (JobTimeout(), True),
            (ValueError(), False),
            (Discard("no use"), False),
            (Retry(after=1), False),
            (KeyboardInterrupt(), False),
        ],
    )
    def test_only_the_kinds_that_are_named_count(self, error, blamed):
        assert Breaker(on=(ConnectionError, TimeoutError)).blames(error) is blamed

    def test_a_retry_is_judged_by_its_cause(self):
        error = Retry(after=1)
        error.__cause__ = ConnectionError()

        assert Breaker(on=ConnectionError).blames(error)
        assert not Breaker(on=TimeoutError).blames(error)

    @pytest.mark.parametrize(
        ("errors", "blamed"),
        [
            ([ValueError(), ConnectionRefusedError()], True),
            ([ValueError(), ExceptionGroup("inner", [KeyError(), TimeoutError()])], True),
            ([ValueError(), KeyError()], False),
            ([ValueError(), Discard("no use")], False),
        ],
    )
    def test_a_group_counts_if_any_error_in_it_does(self, errors, blamed):
        breaker, group = Breaker(on=(ConnectionError, TimeoutError)), ExceptionGroup("tasks", errors)
        retried = Retry(after=1)
        retried.__cause__ = group

        assert breaker.blames(group) is blamed
        assert breaker.blames(retried) is blamed

    def test_a_group_that_contains_itself_over_and_over_is_given_up(self):
        class Endless(ExceptionGroup):
            @property
            def exceptions(self):
                return (self,)

        assert not Breaker(on=ConnectionError).blames(Endless("tasks", [ValueError()]))

    def test_without_a_kind_every_exception_counts_but_no_signal(self):
        assert Breaker().blames(ValueError())
        assert not Breaker().blames(Discard("no use"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"failures": 0}, "failures must be a whole number from 1 to 1,000, not 0"),
        ({"failures": True}, "failures must be a whole number"),
        ({"of": 10_000}, "of must be a whole number from 1 to 1,000"),
        ({"failures": 6, "of": 5}, "can never shut: give it of=6 or more"),
        ({"pause": 0}, "pause must be from 0.1 s to a day, not 0"),
        ({"pause": "soon"}, "pause"),
        ({"longest": "2d"}, "longest must be from 0.1 s to a day"),
        ({"pause": 60, "longest": 30}, "longest is at least as long as pause"),
        ({"on": ()}, "on must be an exception class or a tuple of them"),
        ({"on": "ConnectionError"}, "on must be an exception class"),
        ({"on": (ConnectionError, int)}, "on must be an exception class"),
    ],
)
def test_what_could_never_work_is_refused_where_it_is_said(said, told):
    with pytest.raises(InvalidLimit, match=told):
        Breaker(**said)
