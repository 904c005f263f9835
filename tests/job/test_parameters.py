"""Functions that cannot be jobs, and annotations that could not be read, are refused where they are defined."""

import functools
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from onward import ArgumentError, JobContext
from onward.errors import DefinitionError
from onward.job.arguments import Arguments, DoesNotFit


class Thing:
    def method(self, n: int) -> None: ...

    @classmethod
    def made(cls, n: int) -> None: ...

    def __call__(self, n: int) -> None: ...


def takes_self(self, n: int) -> None: ...


def takes_cls(cls, n: int) -> None: ...


@pytest.mark.parametrize("function", [Thing.method, Thing.made.__func__, takes_self, takes_cls])
def test_a_first_parameter_of_a_method_is_refused_with_the_fix(function):
    with pytest.raises(DefinitionError, match=r"does not travel: make a job of a function.*write `ctx: JobContext`"):
        Arguments(function, "work")


def test_a_bound_method_and_an_annotated_self_are_parameters_like_any_other():
    def odd(self: int) -> None: ...

    assert Arguments(Thing().method, "work").names == ("n",)
    assert Arguments(Thing.made, "work").names == ("n",)
    assert Arguments(odd, "work").names == ("self",)


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (Thing(), r"an object of Thing is no function: make a job of one that does the call, or of its method"),
        (Thing, r"the class Thing is no function: make a job of one that does the call$"),
        (functools.partial(Thing(), 1), r"an object of Thing is no function"),
    ],
)
def test_what_is_called_and_is_no_function_is_refused_in_our_words(called, told):
    with pytest.raises(DefinitionError, match=told):
        Arguments(called, "work")


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[int, pydantic.Field(ge=5)],
        list[Annotated[int, pydantic.Field(ge=5)]],
        Annotated[int, pydantic.Field(ge=5)] | None,
        pydantic.PositiveInt,
        pydantic.UUID4,
        pydantic.StrictInt,
    ],
)
def test_bounds_that_only_pydantic_would_check_are_refused(hint):
    def work(n: Any) -> None: ...

    work.__annotations__["n"] = hint

    with pytest.raises(DefinitionError, match=r"annotation of 'n' is pydantic's.*msgspec\.Meta\(ge=…\)"):
        Arguments(work, "work")


def test_bounds_of_msgspec_are_checked():
    def work(n: Annotated[int, msgspec.Meta(ge=5)]) -> None: ...

    arguments = Arguments(work, "work")

    assert arguments.unpack(arguments.pack((5,), {})) == ((5,), {})
    with pytest.raises(ArgumentError, match="Expected `int` >= 5"):
        arguments.pack((3,), {})


@pytest.mark.parametrize(
    ("hint", "fix"),
    [
        (pydantic.SecretStr, r"use onward\.Secret\[str\]"),
        (list[pydantic.SecretBytes], r"use onward\.Secret\[bytes\]"),
        (pydantic.HttpUrl, "take a str, or a pydantic model with that field"),
    ],
)
def test_types_of_pydantic_that_cannot_travel_are_refused_where_the_job_is_defined(hint, fix):
    def work(value: Any) -> None: ...

    work.__annotations__["value"] = hint

    with pytest.raises(DefinitionError, match=f"cannot travel, as 'value': {fix}"):
        Arguments(work, "work")


def test_a_model_of_pydantic_travels_whatever_its_fields_are():
    class Order(pydantic.BaseModel):
        url: pydantic.HttpUrl
        amount: pydantic.PositiveInt

    def work(ctx: JobContext, order: Order) -> None: ...

    arguments = Arguments(work, "work")
    order = Order(url="http://a.example/", amount=3)

    assert arguments.unpack(arguments.pack((order,), {})) == ((order,), {})


class TestPaths:
    @pytest.mark.parametrize("kind", [Path, PurePosixPath])
    def test_a_path_travels_as_its_text(self, kind):
        def work(path: Any, more: Any = None) -> None: ...

        work.__annotations__ |= {"path": kind, "more": list[kind] | None}
        arguments = Arguments(work, "work")
        payload = arguments.pack((kind("/srv/größe"), [kind("a"), kind("b/c")]), {})

        assert payload == '{"path":"/srv/größe","more":["a","b/c"]}'.encode()
        assert arguments.unpack(payload) == ((kind("/srv/größe"), [kind("a"), kind("b/c")]), {})

    def test_without_an_annotation_it_is_refused_with_the_fix(self):
        def work(path) -> None: ...

        with pytest.raises(ArgumentError, match="annotate the parameter with its type"):
            Arguments(work, "work").pack((Path("/srv"),), {})

    def test_what_is_no_text_does_not_fit(self):
        def work(path: Path) -> None: ...

        with pytest.raises(DoesNotFit, match="expected the text of a path, got an int"):
            Arguments(work, "work").unpack(b'{"path":3}')

    def test_bytes_that_are_no_text_are_refused(self):
        def work(path: Path) -> None: ...

        with pytest.raises(ArgumentError, match="not valid Unicode"):
            Arguments(work, "work").pack((Path("/srv/\udcff"),), {})
