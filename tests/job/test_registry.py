"""Names and the code they stand for, and which of them each queue allows."""

import pytest

from onward.errors import ArgumentError, DefinitionError, InvalidName, OptionError
from onward.job.context import JobContext
from onward.job.definition import define
from onward.job.registry import FunctionEntry, HandlerEntry, Registry


class Echo:
    """A handler named by key."""

    def check(self, payload):
        if payload != "hello":
            raise ArgumentError("echo takes 'hello'")

    def run(self, ctx):
        return ctx.payload


def an_entry(name="send", function=None, **options):
    return FunctionEntry(define(name, options), function or (lambda: None))


def a_context(payload=b"{}"):
    return JobContext(
        id="a",
        job="send",
        name="send",
        queue="mail",
        attempt=1,
        max_retries=0,
        payload=payload,
        meta={},
        delivery=1,
    )


# Finding


def test_a_job_is_found_by_its_name():
    registry, entry = Registry(), an_entry()

    registry.add(entry)

    assert registry.find("send") is entry


@pytest.mark.promise("F56")
def test_a_job_is_found_by_each_of_its_former_names():
    registry, entry = Registry(), an_entry(aliases=["post", "mail.send"])

    registry.add(entry)

    assert registry.find("post") is registry.find("mail.send") is entry


@pytest.mark.promise("F56")
@pytest.mark.parametrize("name", ["unknown", "", "os.system", "builtins:print", "send\x00", "__import__"])
def test_a_name_that_was_not_registered_stands_for_nothing(name):
    registry = Registry()
    registry.add(an_entry())

    assert registry.find(name) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({"aliases": ["post"]}, {"name": "post"}),
        ({}, {"name": "post", "aliases": ["send"]}),
        ({"aliases": ["post"]}, {"name": "other", "aliases": ["post"]}),
    ],
)
def test_a_name_that_is_taken_is_refused(first, second):
    registry = Registry()
    registry.add(an_entry(**first))

    with pytest.raises(DefinitionError, match="is already registered"):
        registry.add(an_entry(**second))


def test_a_refused_registration_leaves_nothing_behind():
    registry = Registry()
    registry.add(an_entry())

    with pytest.raises(DefinitionError):
        registry.add(an_entry("other", aliases=["send"]))

    assert list(registry) == ["send"]


def test_the_names_come_in_order():
    registry = Registry()
    for name in ("b", "a", "c"):
        registry.add(an_entry(name))

    assert list(registry) == ["a", "b", "c"]


def test_the_queues_are_those_of_the_jobs_the_allowed_ones_and_default():
    registry = Registry({"ops": ["shell"]})
    registry.add(an_entry(queue="mail"))

    assert registry.queues() == ["default", "mail", "ops"]


# Allowing


def test_a_decorated_job_runs_on_any_queue():
    registry, entry = Registry(), an_entry()

    assert registry.refusal(entry, "send", "mail") is None


def test_a_handler_by_key_runs_nowhere_unless_it_is_named():
    registry, entry = Registry({"mail": ["send"]}), HandlerEntry("echo", Echo())

    assert "queue_handlers does not name it" in registry.refusal(entry, "echo", "ops")
    assert "queue_handlers lists send" in registry.refusal(entry, "echo", "mail")


def test_a_handler_by_key_runs_where_it_is_named():
    registry, entry = Registry({"ops": ["echo"]}), HandlerEntry("echo", Echo())

    assert registry.refusal(entry, "echo", "ops") is None


def test_a_queue_that_is_listed_takes_nothing_else():
    registry, entry = Registry({"ops": ["echo"], "shut": []}), an_entry()

    assert "not allowed on queue 'ops': queue_handlers lists echo" in registry.refusal(entry, "send", "ops")
    assert "queue_handlers lists nothing" in registry.refusal(entry, "send", "shut")


def test_a_job_that_is_allowed_is_allowed_under_its_former_names_too():
    registry, entry = Registry({"mail": ["send"]}), an_entry(aliases=["post"])

    assert registry.refusal(entry, "post", "mail") is None


@pytest.mark.parametrize("allowed", ["shell", 5, None])
def test_what_is_allowed_must_be_a_list(allowed):
    with pytest.raises(OptionError, match="a list of names"):
        Registry({"ops": allowed})


def test_what_is_allowed_must_be_on_a_queue_that_can_exist():
    with pytest.raises(InvalidName):
        Registry({"o ps": ["shell"]})


# Calling


def test_a_function_is_called_with_its_arguments():
    entry = an_entry(function=lambda a, b=2: (a, b))

    assert entry.invoke(None, b'{"a":1}') == (1, 2)


def test_a_function_that_asks_for_a_context_gets_it_first():
    def send(ctx: JobContext, value: int):
        return ctx.id, value

    assert an_entry(function=send).invoke(a_context(), b'{"value":5}') == ("a", 5)


def test_an_async_function_is_known_as_one():
    async def send(): ...

    assert an_entry(function=send).is_async
    assert not an_entry().is_async


@pytest.mark.parametrize(("annotation", "returns"), [(int, int), (None, type(None)), ("int", int)])
def test_what_a_function_returns_is_known(annotation, returns):
    def send(): ...

    send.__annotations__["return"] = annotation

    assert an_entry(function=send).returns is returns


@pytest.mark.promise("F58")
def test_a_payload_by_name_is_checked_against_the_function():
    def send(value: int): ...

    with pytest.raises(ArgumentError, match="value"):
        an_entry(function=send).check(b'{"value":"five"}')


@pytest.mark.promise("F58")
def test_a_payload_for_a_handler_is_checked_by_it():
    entry = HandlerEntry("echo", Echo())

    entry.check(b'"hello"')
    with pytest.raises(ArgumentError, match="echo takes 'hello'"):
        entry.check(b'"bye"')


def test_a_handler_by_key_is_plain_code_that_wants_its_context():
    entry = HandlerEntry("echo", Echo())

    assert (entry.is_async, entry.takes_context, entry.denied_by_default) == (False, True, True)
    assert (entry.definition.name, entry.definition.handler) == ("echo", "echo")


def test_a_handler_is_called_with_the_context():
    assert HandlerEntry("echo", Echo()).invoke(a_context(b'"hello"'), b'"hello"') == "hello"
