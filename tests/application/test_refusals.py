"""What cannot be a job is refused where it is said, with a type that can be caught, and nothing is half-written."""

import math
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from onward import (
    ArgumentError,
    BackendMisconfigured,
    Custom,
    Exponential,
    InvalidName,
    JobContext,
    Onward,
    OnwardError,
    OptionError,
    PayloadTooLarge,
)
from onward.errors import DefinitionError, InvalidTime


@pytest.fixture(autouse=True)
def nothing_is_written(jobs):
    yield
    assert sum(jobs.counts().values()) == 0, "something was stored all the same"


@pytest.fixture
def add(jobs):
    @jobs.job
    def add(x: int, y: int = 1) -> int:
        return x + y

    return add


@pytest.fixture
def anything(jobs):
    @jobs.job
    def anything(value):
        return value

    return anything


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((1, 2, 3), {}),
        ((1,), {"z": 2}),
        ((1,), {"x": 2}),
        (("one",), {}),
        ((1.5,), {}),
        ((None,), {}),
        (([1],), {}),
    ],
)
def test_a_call_that_does_not_fit_the_signature(add, args, kwargs):
    with pytest.raises(ArgumentError):
        add.enqueue(*args, **kwargs)


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    "value",
    [object(), lambda: None, (1, 2), {1, 2}, b"bytes", datetime(2030, 1, 1), uuid4(), {1: "a"}, [(1,)], 1j],  # noqa: DTZ001
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_would_come_back_as_something_else(anything, value):
    with pytest.raises(ArgumentError):
        anything.enqueue(value)


@pytest.mark.promise("F60")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1, math.nan], {"a": math.inf}])
def test_a_number_that_json_has_no_word_for(anything, value):
    with pytest.raises(ArgumentError, match="no JSON form"):
        anything.enqueue(value)


@pytest.mark.promise("F60")
@pytest.mark.parametrize("value", [math.nan, [1, math.nan], {"a": -math.inf}, (None, math.inf)])
def test_a_number_that_json_has_no_word_for_by_name(jobs, value):
    with pytest.raises(ArgumentError, match="no JSON form"):
        jobs.enqueue("elsewhere", {"value": value})


@pytest.mark.promise("F60")
def test_text_that_is_not_unicode(anything):
    with pytest.raises(ArgumentError, match="lone surrogate"):
        anything.enqueue("\ud800")


@pytest.mark.promise("F60")
@pytest.mark.parametrize("payload", ["\ud800", {"a": "\udfff"}, object(), {"a": object()}, {(1, 2): 3}])
def test_a_payload_by_name_that_cannot_travel(jobs, payload):
    with pytest.raises(ArgumentError):
        jobs.enqueue("elsewhere", payload)


def test_an_argument_nested_without_end(anything):
    endless = []
    endless.append(endless)

    with pytest.raises(ArgumentError, match="nested too deeply"):
        anything.enqueue(endless)


@pytest.mark.promise("F61")
def test_a_job_larger_than_the_limit_names_its_size_and_the_limit(anything):
    with pytest.raises(PayloadTooLarge, match="262,144") as refused:
        anything.enqueue("x" * 300_000)
    assert refused.value.size > refused.value.limit == 262_144


@pytest.mark.promise("F61")
def test_a_job_larger_than_the_limit_by_name(jobs):
    with pytest.raises(PayloadTooLarge):
        jobs.enqueue("elsewhere", {"x": "x" * 300_000})


@pytest.mark.promise("F61")
def test_meta_counts_against_the_limit_too(add):
    with pytest.raises(PayloadTooLarge):
        add.using(meta={"x": "x" * 300_000}).enqueue(1)


@pytest.mark.promise("F61", "F58")
@pytest.mark.parametrize("bad", ["three", "x" * 300_000], ids=["wrong type", "too large"])
def test_one_bad_call_of_many_stores_none_of_them(jobs, bad):
    @jobs.job
    def work(n: int | None, text: str = ""): ...

    with pytest.raises(OnwardError):
        work.enqueue_many([(1,), (2,), (bad,) if bad == "three" else (3, bad), (4,)])


@pytest.mark.parametrize("call", ["text", b"bytes", 7, None])
def test_something_that_is_no_call_among_many(add, call):
    with pytest.raises(ArgumentError, match="a call is a tuple of arguments"):
        add.enqueue_many([(1,), call])


@pytest.mark.parametrize("meta", [{"x": object()}, {"x": "\ud800"}, {"x": math.nan}, {"\ud800": 1}, {(1, 2): 3}])
def test_meta_that_cannot_travel(add, meta):
    with pytest.raises(OptionError, match="meta"):
        add.using(meta=meta).enqueue(1)


@pytest.mark.parametrize("meta", [["a"], "a", 7])
def test_meta_that_is_no_mapping(add, meta):
    with pytest.raises(OptionError, match="meta"):
        add.using(meta=meta)


BAD_QUEUES = ["", " ", "two words", "ops\r\nput", "nul\0", "a" * 101, "-dash", "ümlaut", "a/b", "a\n", 7, b"mail"]


@pytest.mark.parametrize("queue", BAD_QUEUES, ids=repr)
def test_a_queue_name_that_not_every_backend_could_carry(jobs, add, queue):
    for refused in (
        lambda: add.using(queue=queue),
        lambda: jobs.enqueue("work", queue=queue),
        lambda: jobs.define("shell", ["/bin/true"]).queue(queue),
        lambda: jobs.job(queue=queue)(print),
        lambda: jobs.pause(queue),
        lambda: jobs.resume(queue),
    ):
        with pytest.raises(InvalidName):
            refused()


@pytest.mark.parametrize("queue", ["", "two words", None, 7])
def test_a_queue_that_cannot_exist_is_not_reported_as_an_empty_one(jobs, queue):
    with pytest.raises(InvalidName):
        jobs.process_once(queue)
    with pytest.raises(InvalidName):
        jobs.drain("mail", queue)


@pytest.mark.parametrize("name", ["", "two words", "1st", "a" * 201, "naïve", "nul\0", None, 7])
def test_a_job_name_that_not_every_backend_could_carry(jobs, name):
    with pytest.raises(InvalidName):
        jobs.enqueue(name)


@pytest.mark.promise("F60")
@pytest.mark.parametrize("key", ["", "nul\0", "line\nbreak", "\ud800", "a" * 401, 7])
def test_a_key_that_not_every_backend_could_carry(add, key):
    with pytest.raises(InvalidName):
        add.using(unique_key=key)
    with pytest.raises(InvalidName):
        add.using(idempotency_key=key)


@pytest.mark.parametrize("when", [datetime(2030, 1, 1), "2030-01-01", 7])  # noqa: DTZ001
def test_an_instant_that_is_not_an_aware_datetime(add, when):
    with pytest.raises(InvalidTime):
        add.using(at=when)


def test_a_naive_datetime_anywhere_else(jobs, add):
    naive = datetime(2030, 1, 1)  # noqa: DTZ001

    with pytest.raises(InvalidTime, match="naive"):
        add.using(expires=naive)
    with pytest.raises(InvalidTime, match="naive"):
        jobs.prune(older_than=naive)


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, "soon", "-5s", "", timedelta(seconds=-1), True, 10**12])
def test_a_delay_that_is_no_length_of_time(add, delay):
    with pytest.raises(InvalidTime):
        add.using(delay=delay)


@pytest.mark.parametrize(
    "options",
    [
        {"prioritee": 1},
        {"name": "other"},
        {"retry_on": ValueError},
        {"priority": 101},
        {"priority": -101},
        {"priority": 1.5},
        {"priority": True},
        {"max_retries": -1},
        {"max_attempts": 0},
        {"retry": 5},
        {"unique_strategy": "keep"},
        {"key_scope": "everything"},
        {"delay": 5, "at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"max_retries": 2, "max_attempts": 2},
        {"retry": Custom(lambda attempt, base: 1)},
    ],
    ids=lambda options: " ".join(f"{name}={value!r:.12}" for name, value in options.items()),
)
def test_an_option_that_does_not_exist_or_two_that_disagree(jobs, add, options):
    with pytest.raises(OptionError):
        add.using(**options)
    with pytest.raises(OptionError):
        jobs.enqueue("add", {"x": 1}, **options)


def test_a_misspelt_option_is_answered_with_the_right_one(add):
    with pytest.raises(OptionError, match="did you mean 'priority'"):
        add.using(prioritee=1)


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 5},
        {"idempotency_key": "k"},
        {"retrys": 3},
        {"max_crashes": 0},
        {"discard_on": "ValueError"},
        {"isolation": "vm"},
    ],
    ids=str,
)
def test_an_option_that_a_definition_does_not_have(jobs, options):
    def work(): ...

    with pytest.raises(OptionError):
        jobs.job(**options)(work)


def test_a_function_that_cannot_become_a_job(jobs):
    def takes_anything(*args): ...

    def takes_any_keyword(**kwargs): ...

    def context_comes_late(n: int, ctx: JobContext): ...

    for function in (takes_anything, takes_any_keyword, context_comes_late):
        with pytest.raises(DefinitionError):
            jobs.job(function)


def test_options_given_to_the_decorator_by_position(jobs):
    with pytest.raises(OptionError, match="options are keywords"):
        jobs.job("mail")


@pytest.mark.parametrize("budget", [{"max_retries": 3, "max_attempts": 3}, {"max_retries": 0, "max_attempts": 2}])
def test_a_definition_whose_two_budgets_disagree(jobs, budget):
    def work(): ...

    with pytest.raises(OptionError, match="give one"):
        jobs.job(**budget)(work)


def test_two_budgets_that_agree_are_one(jobs):
    @jobs.job(max_retries=2, max_attempts=3)
    def work(): ...

    assert work.definition.max_retries == 2


@pytest.mark.parametrize(
    "setting", [{"max_crashs": 3}, {"lease_for": 0}, {"retention": {"finished": 1}}, {"max_payload": 5}]
)
def test_a_setting_that_does_not_exist_or_cannot_be(setting):
    with pytest.raises(OptionError):
        Onward("memory://", **setting)


@pytest.mark.parametrize("address", ["mongo://here", "sqllite:///jobs.db", ""])
def test_a_url_of_no_backend(address):
    with pytest.raises(BackendMisconfigured, match="no backend"):
        Onward(address)


def test_a_policy_with_numbers_that_are_none(jobs):
    with pytest.raises(OptionError):
        Exponential(base=-1)


def test_a_state_that_does_not_exist(jobs):
    with pytest.raises(OptionError, match="did you mean 'completed'"):
        jobs.list(state="complete")
