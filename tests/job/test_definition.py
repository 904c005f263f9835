"""Options as users give them: read, checked, and refused where they are wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import asdict

from onward.errors import InvalidName, InvalidTime, OptionError
from onward.job.definition import EnqueueOptions, define
from onward.job.retry import Custom, Exponential, Fixed, NoDelay, RetryPolicy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def using(**options):
    return EnqueueOptions.check(options)


def job(**options):
    return define("send", options)


BOTH = pytest.mark.parametrize("place", [job, using], ids=["job()", "using()"])


# What may be said in both places


@BOTH
@pytest.mark.parametrize(
    ("option", "value", "field", "stored"),
    [
        ("queue", "mail", "queue", "mail"),
        ("priority", -100, "priority", -100),
        ("priority", 100, "priority", 100),
        ("max_retries", 0, "max_retries", 0),
        ("max_retries", 5, "max_retries", 5),
        ("max_attempts", 1, "max_retries", 0),
        ("max_attempts", 20, "max_retries", 19),
        ("retry", Fixed(30), "retry", Fixed(30)),
        ("timeout", "1m", "timeout", 60.0),
        ("timeout", timedelta(minutes=1), "timeout", 60.0),
        ("single_instance", True, "single_instance", True),
        ("expires", "1h", "expires_in", 3600.0),
        ("expires", NOON, "expires_at", 1_893_499_200_000_000),
        ("meta", {"trace": "abc"}, "meta", {"trace": "abc"}),
    ],
)
def test_an_option_is_read(place, option, value, field, stored):
    assert getattr(place(**{option: value}), field) == stored


@BOTH
@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("queue", "", InvalidName),
        ("queue", "a\r\nb", InvalidName),
        ("priority", 101, OptionError),
        ("priority", -101, OptionError),
        ("priority", 1.5, OptionError),
        ("priority", True, OptionError),
        ("priority", "high", OptionError),
        ("max_retries", -1, OptionError),
        ("max_retries", 1_000_001, OptionError),
        ("max_retries", True, OptionError),
        ("max_retries", 2.0, OptionError),
        ("max_attempts", 0, OptionError),
        ("max_attempts", "20", OptionError),
        ("retry", "exponentail", OptionError),
        ("retry", Exponential, OptionError),
        ("retry", 30, OptionError),
        ("timeout", -1, InvalidTime),
        ("timeout", "soon", InvalidTime),
        ("timeout", True, InvalidTime),
        ("single_instance", "no", OptionError),
        ("expires", -1, InvalidTime),
        ("expires", datetime(2030, 1, 1), InvalidTime),  # noqa: DTZ001  naive on purpose
        ("meta", [("a", 1)], OptionError),
        ("meta", {"a": object()}, OptionError),
        ("meta", {1: "a"}, OptionError),
        ("meta", {"a": (1, 2)}, OptionError),
        ("meta", {"a": float("nan")}, OptionError),
        ("meta", {"a": NOON}, OptionError),
        ("meta", {"a": "\ud800"}, OptionError),
    ],
    ids=lambda value: value.__name__ if callable(value) else f"{value!r:.12}",
)
def test_an_option_that_makes_no_sense_is_refused(place, option, value, error):
    with pytest.raises(error):
        place(**{option: value})


@BOTH
def test_meta_that_is_nested_without_end_is_refused(place):
    meta = {}
    meta["meta"] = meta

    with pytest.raises(OptionError, match="meta"):
        place(meta=meta)


@BOTH
def test_meta_is_kept_as_it_was_when_it_was_given(place):
    meta = {"tags": ["a"]}
    options = place(meta=meta)

    meta["tags"].append("b")

    assert options.meta == {"tags": ["a"]}


@BOTH
@pytest.mark.parametrize("option", ["queue", "priority", "retry", "timeout", "single_instance", "expires", "meta"])
def test_none_leaves_an_option_as_if_it_had_not_been_given(place, option):
    assert place(**{option: None}) == place()


# The budget, said in two ways


@pytest.mark.promise("S10")
@BOTH
def test_attempts_are_one_more_than_retries(place):
    assert place(max_attempts=5) == place(max_retries=4)


@pytest.mark.promise("S10")
@BOTH
def test_retries_and_attempts_may_be_given_together_if_they_agree(place):
    assert place(max_retries=4, max_attempts=5).max_retries == 4


@pytest.mark.promise("S10")
@BOTH
def test_retries_and_attempts_that_disagree_are_refused(place):
    with pytest.raises(OptionError, match="max_retries=5 allows 6 runs and max_attempts=5 another number"):
        place(max_retries=5, max_attempts=5)


@pytest.mark.promise("S11")
def test_without_a_budget_the_application_decides():
    assert job().max_retries is None
    assert using().max_retries is None


# Options that do not exist


@pytest.mark.parametrize(
    ("place", "option", "hint"),
    [
        (job, "max_retires", "did you mean 'max_retries'"),
        (job, "Queue", "did you mean 'queue'"),
        (job, "delay", r"job\(\) has no option 'delay'"),
        (job, "idempotency_key", r"job\(\) has no option 'idempotency_key'"),
        (job, "at", r"job\(\) has no option 'at'"),
        (using, "dealy", "did you mean 'delay'"),
        (using, "uniqe_key", "did you mean 'unique_key'"),
        (using, "name", r"using\(\) has no option 'name'"),
        (using, "retry_on", r"using\(\) has no option 'retry_on'"),
        (using, "discard_on", r"using\(\) has no option 'discard_on'"),
        (using, "aliases", r"using\(\) has no option 'aliases'"),
        (using, "max_crashes", r"using\(\) has no option 'max_crashes'"),
        (using, "isolation", r"using\(\) has no option 'isolation'"),
        (using, "interrupt", r"using\(\) has no option 'interrupt'"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_a_hint(place, option, hint):
    with pytest.raises(OptionError, match=hint):
        place(**{option: 1})


# Only where a job is defined


def test_a_definition_has_plain_defaults():
    assert {name: value for name, value in asdict(job()).items() if value} == {
        "name": "send",
        "handler": "send",
        "queue": "default",
        "isolation": "thread",
        "interrupt": True,
        "unique_strategy": "ignore_new",
    }


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        ("name", "shop.send", "shop.send"),
        ("aliases", ("old", "older"), ("old", "older")),
        ("aliases", ["old"], ("old",)),
        ("retry_on", ValueError, (ValueError,)),
        ("retry_on", (ValueError, KeyError), (ValueError, KeyError)),
        ("retry_on", [ValueError], (ValueError,)),
        ("retry_on", (), ()),
        ("retry_on", None, None),
        ("discard_on", SystemExit, (SystemExit,)),
        ("discard_on", (), ()),
        ("max_crashes", 1, 1),
        ("isolation", "process", "process"),
        ("interrupt", False, False),
    ],
)
def test_an_option_of_a_definition_is_read(option, value, stored):
    assert getattr(job(**{option: value}), option) == stored


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("name", "<lambda>", InvalidName),
        ("name", "", InvalidName),
        ("name", None, InvalidName),
        ("aliases", "old", OptionError),
        ("aliases", ("ok", "not ok"), InvalidName),
        ("aliases", 5, OptionError),
        ("aliases", None, OptionError),
        ("retry_on", "ValueError", OptionError),
        ("retry_on", ValueError("x"), OptionError),
        ("retry_on", (ValueError, int), OptionError),
        ("discard_on", None, OptionError),
        ("discard_on", int, OptionError),
        ("max_crashes", 0, OptionError),
        ("max_crashes", 1001, OptionError),
        ("max_crashes", None, OptionError),
        ("isolation", "container", OptionError),
        ("isolation", None, OptionError),
        ("isolation", ["thread"], OptionError),
        ("interrupt", "no", OptionError),
    ],
)
def test_an_option_of_a_definition_that_makes_no_sense_is_refused(option, value, error):
    with pytest.raises(error):
        job(**{option: value})


def test_a_handler_without_a_proper_name_needs_one():
    with pytest.raises(InvalidName, match="<lambda>"):
        define("<lambda>", {})
    assert define("<lambda>", {"name": "send"}).name == "send"


def test_the_key_of_a_decorated_job_is_its_name():
    definition = job(name="shop.send")

    assert (definition.name, definition.handler) == ("shop.send", "shop.send")


@pytest.mark.promise("S17")
def test_a_custom_policy_may_be_given_where_a_job_is_defined():
    policy = Custom(lambda attempt, base: 1)

    assert job(retry=policy).retry is policy


def test_a_definition_cannot_be_changed():
    with pytest.raises(AttributeError):
        job().queue = "other"


# Only where a job is enqueued


def test_a_call_without_options_leaves_everything_to_the_definition():
    assert {name: value for name, value in asdict(using()).items() if value} == {"key_scope": "job"}


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        ("delay", "5m", 300.0),
        ("delay", 0, 0.0),
        ("at", NOON, 1_893_499_200_000_000),
        ("unique_key", "welcome:42", "welcome:42"),
        ("unique_key", None, ""),
        ("unique_strategy", "cancel_existing", "cancel_existing"),
        ("idempotency_key", "order-1", "order-1"),
        ("idempotency_ttl", "1h", 3600.0),
        ("idempotency_ttl", None, None),
        ("key_scope", "global", "global"),
    ],
)
def test_an_option_of_a_call_is_read(option, value, stored):
    assert getattr(using(**{option: value}), option) == stored


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("delay", -1, InvalidTime),
        ("delay", None, InvalidTime),
        ("delay", NOON, InvalidTime),
        ("at", datetime(2030, 1, 1), InvalidTime),  # noqa: DTZ001  naive on purpose
        ("at", 1_893_499_200, InvalidTime),
        ("at", "2030-01-01T00:00:00Z", InvalidTime),
        ("unique_key", "", InvalidName),
        ("unique_key", 42, InvalidName),
        ("unique_key", "a\nb", InvalidName),
        ("idempotency_key", "x" * 401, InvalidName),
        ("idempotency_ttl", -1, InvalidTime),
        ("unique_strategy", "replace", OptionError),
        ("key_scope", "queue", OptionError),
    ],
)
def test_an_option_of_a_call_that_makes_no_sense_is_refused(option, value, error):
    with pytest.raises(error):
        using(**{option: value})


def test_a_delay_and_an_instant_contradict_each_other():
    with pytest.raises(OptionError, match="give delay or at, not both"):
        using(delay=5, at=NOON)


@pytest.mark.promise("S17")
@pytest.mark.parametrize("policy", [NoDelay(), Fixed(30), Exponential()])
def test_a_portable_policy_may_be_given_with_a_call(policy):
    assert using(retry=policy).retry == policy


class HomeMade(RetryPolicy, frozen=True, tag="home_made"):
    """A policy of the user's own class: it cannot be read where it is not known."""


@pytest.mark.promise("S17")
@pytest.mark.parametrize("policy", [Custom(lambda attempt, base: 1), HomeMade()], ids=["Custom", "own class"])
def test_a_policy_that_cannot_travel_is_refused_with_a_call(policy):
    with pytest.raises(OptionError, match=r"cannot travel with a job: give it to @jobs\.job"):
        using(retry=policy)
