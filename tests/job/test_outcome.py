"""What a run means: one table, and the promise that deciding does nothing else."""

import asyncio
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.job.envelope import Sealed
from onward.job.lease import Lease
from onward.job.outcome import Cancelled, Dead, Done, RetryLater, Snoozed, decide
from onward.job.retry import Additive, Custom, Exponential, Fixed, Full, RetryPolicy
from onward.job.signals import Discard, Retry, Snooze

THIRTY_SECONDS = Fixed(30)


@dataclass
class Terms:
    max_retries: int = 0
    retry: RetryPolicy = THIRTY_SECONDS
    discard_on: tuple = ()
    retry_on: tuple | None = None


def a_lease(attempts, job_id):
    return Lease(
        envelope=Sealed(job_id, "mail", b""), token=1, owner="worker", expires_at=0, claimed_at=0, attempts=attempts
    )


def decided(error, *, attempts=0, seed=0, job_id="a", **terms):
    return decide(error, a_lease(attempts, job_id), Terms(**terms), random.Random(seed))


RETRIED = RetryLater(30)
LISTED = "is not retried: it is listed in discard_on"
UNLISTED = "is not retried: only what retry_on lists is"
NO_BUDGET = Dead("gave up after 1 attempt: max_retries is 0")


@pytest.mark.parametrize(
    ("error", "terms", "outcome"),
    [
        # nothing went wrong
        (None, {}, Done()),
        (None, {"attempts": 9}, Done()),
        # an ordinary failure
        (ValueError(), {}, NO_BUDGET),
        (ValueError(), {"max_retries": 1}, RETRIED),
        (ValueError(), {"max_retries": 1, "attempts": 1}, Dead("gave up after 2 attempts: max_retries is 1")),
        (ValueError(), {"max_retries": 1, "attempts": 7}, Dead("gave up after 8 attempts: max_retries is 1")),
        # what the handler asks for
        (Retry(after=5), {"max_retries": 1}, RetryLater(5)),
        (Retry(after=0), {"max_retries": 1}, RetryLater(0)),
        (Retry(after="10m"), {"max_retries": 1}, RetryLater(600)),
        (Retry(after=5), {}, NO_BUDGET),
        (Retry(after=5), {"max_retries": 1, "attempts": 1}, Dead("gave up after 2 attempts: max_retries is 1")),
        (Snooze(60), {}, Snoozed(60)),
        (Snooze(60), {"attempts": 7}, Snoozed(60)),
        (Snooze(0), {}, Snoozed(1)),
        (Discard("no such user"), {"max_retries": 5}, Dead("no such user")),
        (Discard(), {"max_retries": 5}, Dead("discarded by its handler")),
        # discard_on
        (ValueError(), {"max_retries": 5, "discard_on": (ValueError,)}, Dead(f"ValueError {LISTED}")),
        (UnicodeError(), {"max_retries": 5, "discard_on": (ValueError,)}, Dead(f"UnicodeError {LISTED}")),
        (KeyError(), {"max_retries": 5, "discard_on": (ValueError,)}, RETRIED),
        (Retry(after=5), {"max_retries": 5, "discard_on": (Exception,)}, RetryLater(5)),
        (Snooze(60), {"discard_on": (Exception,)}, Snoozed(60)),
        # retry_on
        (ValueError(), {"max_retries": 5, "retry_on": (ValueError,)}, RETRIED),
        (UnicodeError(), {"max_retries": 5, "retry_on": (KeyError, ValueError)}, RETRIED),
        (KeyError(), {"max_retries": 5, "retry_on": (ValueError,)}, Dead(f"KeyError {UNLISTED}")),
        (KeyError(), {"max_retries": 5, "retry_on": ()}, Dead(f"KeyError {UNLISTED}")),
        (Retry(after=5), {"max_retries": 5, "retry_on": ()}, RetryLater(5)),
        (ValueError(), {"retry_on": (ValueError,)}, NO_BUDGET),
        # both
        (
            UnicodeError(),
            {"max_retries": 5, "retry_on": (ValueError,), "discard_on": (UnicodeError,)},
            Dead(f"UnicodeError {LISTED}"),
        ),
    ],
)
def test_each_case_has_its_outcome(error, terms, outcome):
    assert decided(error, **terms) == outcome


# The budget


@pytest.mark.promise("S3")
@pytest.mark.parametrize(("max_retries", "runs"), [(0, 1), (1, 2), (2, 3), (3, 4), (5, 6)])
def test_a_job_that_always_fails_runs_once_more_than_its_retries(max_retries, runs):
    outcomes = [decided(ValueError(), attempts=attempts, max_retries=max_retries) for attempts in range(runs)]

    assert [type(outcome) for outcome in outcomes] == [RetryLater] * max_retries + [Dead]


@pytest.mark.promise("S4", "S10")
@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_a_failure_is_retried_if_and_only_if_attempts_are_below_max_retries(attempts, max_retries):
    outcome = decided(ValueError(), attempts=attempts, max_retries=max_retries)

    assert isinstance(outcome, RetryLater) == (attempts < max_retries)


@pytest.mark.promise("S4")
@given(st.integers(0, 100), st.integers(0, 100))
def test_asking_for_a_retry_spends_the_same_budget(attempts, max_retries):
    outcome = decided(Retry(after=5), attempts=attempts, max_retries=max_retries)

    assert isinstance(outcome, RetryLater) == (attempts < max_retries)


def test_a_dead_job_whose_run_was_completed_says_so():
    outcome = decided(ValueError())

    assert (outcome.cause, outcome.ran) == ("failed", True)


def test_an_outcome_says_no_more_than_it_was_told():
    assert (Dead("x").cause, Dead("x").ran) == ("failed", True)
    assert Cancelled("x").ran is False
    assert Snoozed(5).waits == 0
    assert RetryLater(5).problem is None


# The delay


@pytest.mark.promise("S13")
def test_the_delay_is_that_of_the_run_to_come():
    policy = Exponential(base=5, max=300, jitter=None)

    delays = [decided(ValueError(), attempts=n, max_retries=99, retry=policy).delay for n in range(8)]

    assert delays == [policy.compute_delay(attempts + 2) for attempts in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.promise("F67")
def test_jobs_that_fail_together_get_different_delays():
    policy = Exponential(base=15, max=3600, jitter=Additive(0.25))

    delays = {decided(ValueError(), job_id=f"{job:032x}", max_retries=1, retry=policy).delay for job in range(100)}

    assert len(delays) == 100


# Whatever a handler raises


@pytest.mark.promise("F84")
@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("mine, not yours"),
        KeyboardInterrupt(),
        SystemExit(0),
        GeneratorExit(),
        asyncio.CancelledError(),
        MemoryError(),
        RecursionError(),
        StopIteration(5),
        StopAsyncIteration(),
        NotImplementedError(),
        AssertionError(),
        ExceptionGroup("two", [ValueError(), Snooze(5)]),
        BaseExceptionGroup("one", [KeyboardInterrupt()]),
        BaseException(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_is_a_plain_failure(error):
    assert decided(error, max_retries=1) == RETRIED
    assert decided(error, max_retries=1, attempts=1) == Dead("gave up after 2 attempts: max_retries is 1")


@pytest.mark.promise("F84")
def test_even_an_exit_can_be_listed():
    assert isinstance(decided(SystemExit(1), max_retries=5, discard_on=(SystemExit,)), Dead)
    assert isinstance(decided(SystemExit(1), max_retries=5, retry_on=(SystemExit,)), RetryLater)


# Purity


@pytest.mark.parametrize("policy", [Fixed(30, jitter=Full()), Exponential(), Custom(lambda attempt, base: -1)])
@given(seed=st.integers(), attempts=st.integers(0, 20))
def test_equal_inputs_give_equal_outcomes(policy, seed, attempts):
    first, second = (
        decided(ValueError(), attempts=attempts, seed=seed, max_retries=99, retry=policy) for _ in range(2)
    )

    assert first == second


@pytest.mark.promise("S14")
def test_a_broken_policy_is_told_and_not_logged(caplog):
    outcome = decided(ValueError(), max_retries=1, retry=Custom(lambda attempt, base: 1 / 0))

    assert outcome.problem == "Custom raised ZeroDivisionError; the default policy decides instead"
    assert 15 * 0.85 <= outcome.delay <= 15 * 1.15
    assert caplog.records == []


def test_deciding_leaves_the_error_alone():
    error = ValueError("x")
    before = (error.args, error.__traceback__, error.__context__, vars(error).copy())

    decided(error, max_retries=1)

    assert (error.args, error.__traceback__, error.__context__, vars(error)) == before
