"""Which functions can become jobs, as far as their parameters go."""

import functools
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from onward.errors import DefinitionError
from onward.job.arguments import Arguments
from onward.job.context import JobContext

if TYPE_CHECKING:
    from somewhere import Unknown


def test_a_context_first_is_filled_in_and_not_passed():
    def send(ctx: JobContext, value: int): ...

    arguments = Arguments(send, "send")

    assert arguments.takes_context
    assert arguments.unpack(arguments.pack((5,), {})) == ((5,), {})


def test_a_context_is_known_by_its_type_and_not_by_its_name():
    def send(ctx: dict[str, int], value): ...

    assert not Arguments(send, "send").takes_context


def test_a_subclass_of_the_context_is_a_context():
    class OurContext(JobContext):
        pass

    def send(whatever: OurContext): ...

    assert Arguments(send, "send").takes_context


def test_an_annotation_in_quotes_is_resolved():
    def send(ctx: "JobContext", at: "datetime"): ...

    arguments = Arguments(send, "send")

    assert arguments.takes_context
    assert arguments.unpack(b'{"at":"2030-01-01T00:00:00Z"}')[0][0].year == 2030


def test_an_async_function_has_parameters_too():
    async def send(value: int): ...

    arguments = Arguments(send, "send")

    assert arguments.unpack(arguments.pack((5,), {})) == ((5,), {})


def _star(*values): ...
def _double_star(**values): ...
def _context_second(value: int, ctx: JobContext): ...
def _two_contexts(ctx: JobContext, again: JobContext): ...
def _context_by_keyword(*, ctx: JobContext, value: int): ...
def _context_star(*ctx: JobContext): ...
def _context_double_star(**ctx: JobContext): ...
def _perhaps_a_context(ctx: JobContext | None): ...
def _unresolvable(value: "Unknown"): ...
def _no_such_attribute(value: "datetime.nothing"): ...
def _no_expression(value: "1 +"): ...  # noqa: F722
def _two_texts(value: str | datetime): ...
def _unresolvable_return(value: int) -> "Unknown": ...


class _Callable:
    def __call__(self, value: int): ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (_star, r"\*values has no name to travel under: take a list instead"),
        (_double_star, r"\*\*values cannot be checked: take a dict instead"),
        (_context_second, "a JobContext must be the first parameter, not 'ctx'"),
        (_two_contexts, "a JobContext must be the first parameter, not 'again'"),
        (_context_by_keyword, "a JobContext must be the first parameter"),
        (_context_star, "ctx"),
        (_context_double_star, "ctx"),
        (_perhaps_a_context, "JobContext"),
        (_unresolvable, "cannot be resolved .*'Unknown'.*not under TYPE_CHECKING"),
        (_unresolvable_return, "cannot be resolved .*'Unknown'"),
        (_no_such_attribute, "cannot be resolved"),
        (_no_expression, "cannot be resolved"),
        (_two_texts, "cannot travel as JSON: .*union"),
        (functools.partial(_star, 1), "."),
        (_Callable(), "."),
        (dict, "."),
    ],
)
def test_a_function_that_cannot_be_a_job_is_refused_when_it_is_defined(function, complaint):
    with pytest.raises(DefinitionError, match=complaint) as raised:
        Arguments(function, "send")

    assert str(raised.value).startswith("job 'send': ")


@pytest.mark.parametrize("name", ["send", "shop.send", "shop:send-all", "_send"])
def test_any_job_name_will_do(name):
    def function(value: Any): ...

    arguments = Arguments(function, name)

    assert arguments.unpack(arguments.pack((1,), {})) == ((1,), {})
