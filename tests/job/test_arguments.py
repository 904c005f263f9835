"""Calls as payloads: what fits the signature comes back as it was; what does not is refused where it was written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import ArgumentError
from onward.job.arguments import Arguments, decode_result, encode_value


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GOOD = "good"


@dataclass
class Point:
    x: float
    y: float | None = None


@dataclass(slots=True, frozen=True)
class Slotted:
    x: float | None


class Parcel(msgspec.Struct):
    to: str
    at: Point


class User(pydantic.BaseModel):
    name: str
    born: date
    tags: list[str] = []


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    user_id: int = pydantic.Field(alias="userId")


class Moody(pydantic.BaseModel):
    x: int

    @pydantic.model_serializer
    def serialise(self):
        raise KeyError("not today")


class Options(TypedDict, total=False):
    retries: int
    when: datetime


class Pair(NamedTuple):
    left: int
    right: str


def taking(annotation):
    """The codec of a job with one parameter of this type."""

    def send(value): ...

    send.__annotations__["value"] = annotation
    return Arguments(send, "send")


def plain():
    """The codec of a job with one parameter of no type."""

    def send(value): ...

    return Arguments(send, "send")


def there_and_back(arguments, value):
    (arrived,), _ = arguments.unpack(arguments.pack((value,), {}))
    return arrived


# What fits comes back as it was


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 2**70),
        (float, 0.1),
        (bool, True),
        (str, "é\x00\n\U0001f600"),
        (bytes, b"\x00\xff"),
        (type(None), None),
        (datetime, datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
        (date, date(2030, 1, 2)),
        (time, time(3, 4, 5)),
        (timedelta, timedelta(days=1, microseconds=1)),
        (UUID, UUID(int=42)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (Size, Size.SMALL),
        (Mood, Mood.GOOD),
        (Literal["a", "b"], "b"),
        (Point, Point(1.5, None)),
        (Slotted, Slotted(1.5)),
        (Parcel, Parcel("me", Point(1.0, 2.0))),
        (User, User(name="Ada", born=date(1815, 12, 10), tags=["first"])),
        (Aliased, Aliased(userId=5)),
        (Options, {"retries": 1, "when": datetime(2030, 1, 1, tzinfo=UTC)}),
        (Pair, Pair(1, "a")),
        (Optional[int], None),  # noqa: UP045  users write it so
        (int | None, 5),
        (list[Point], [Point(1.0), Point(2.0, 3.0)]),
        (list[User], [User(name="Ada", born=date(1815, 12, 10))]),
        (dict[str, list[datetime]], {"a": [datetime(2030, 1, 1, tzinfo=UTC)]}),
        (dict[int, str], {1: "a"}),
        (dict[UUID, Decimal], {UUID(int=1): Decimal(1)}),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (list, [1, "a", None, {"b": [True]}]),
        (dict, {"a": [1, {"b": 2.5}]}),
        (dict[str, Any], {"a": [1, {"b": 2.5}]}),
        (Any, {"a": [1, {"b": None}]}),
        (Annotated[int, msgspec.Meta(gt=0)], 1),
    ],
    ids=repr,
)
def test_an_annotated_argument_comes_back_as_it_was(annotation, value):
    arrived = there_and_back(taking(annotation), value)

    assert arrived == value
    assert type(arrived) is type(value)


def test_a_whole_number_is_a_float_where_a_float_is_wanted():
    assert there_and_back(taking(float), 5) == 5.0


def test_a_tuple_is_a_sequence_and_arrives_as_a_list():
    assert there_and_back(taking(Sequence[int]), (1, 2)) == [1, 2]


def test_a_word_of_an_enumeration_is_text_where_text_is_wanted():
    assert there_and_back(taking(str), Mood.GOOD) == "good"


def test_a_mapping_arrives_as_a_dict():
    assert there_and_back(taking(Mapping[str, int]), {"a": 1}) == {"a": 1}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_plain_value_comes_back_without_an_annotation(value):
    assert there_and_back(plain(), value) == value


@pytest.mark.promise("F58", "F60")
@given(
    st.recursive(
        st.none()
        | st.floats()
        | st.text(st.characters())
        | st.binary()
        | st.datetimes()
        | st.integers()
        | st.complex_numbers(),
        lambda inner: (
            st.lists(inner)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
            | st.sets(st.integers())
        ),
        max_leaves=8,
    )
)
def test_any_value_without_an_annotation_comes_back_as_it_was_or_is_refused(value):
    arguments = plain()

    try:
        payload = arguments.pack((value,), {})
    except ArgumentError:
        return

    (arrived,), _ = arguments.unpack(payload)
    assert arrived == value
    assert type(arrived) is type(value)


# The shape of a call


def every_kind(first, /, second, third=3, *, fourth, fifth="five"): ...


EVERY_KIND = Arguments(every_kind, "every_kind")


def test_each_parameter_arrives_the_way_the_signature_wants_it():
    payload = EVERY_KIND.pack((1, 2), {"fourth": 4})

    assert EVERY_KIND.unpack(payload) == ((1, 2, 3), {"fourth": 4, "fifth": "five"})


def test_positional_parameters_may_be_named():
    payload = EVERY_KIND.pack((1,), {"third": 30, "second": 20, "fourth": 4})

    assert EVERY_KIND.unpack(payload)[0] == (1, 20, 30)


def test_a_keyword_only_parameter_may_lack_a_default_behind_one_that_has_it():
    def send(a=1, *, b, c=3, d): ...

    arguments = Arguments(send, "send")

    assert arguments.unpack(arguments.pack((), {"b": 2, "d": 4})) == ((1,), {"b": 2, "c": 3, "d": 4})


def test_the_payload_is_an_object_by_parameter_name():
    assert msgspec.json.decode(EVERY_KIND.pack((1, 2), {"fourth": 4})) == {"first": 1, "second": 2, "fourth": 4}


def test_a_default_is_not_in_the_payload():
    assert b"fifth" not in EVERY_KIND.pack((1, 2), {"fourth": 4})


def test_a_value_that_was_given_travels_even_if_it_is_the_default():
    payload = EVERY_KIND.pack((1, 2, 3), {"fourth": 4, "fifth": "five"})

    assert msgspec.json.decode(payload)["fifth"] == "five"
    assert msgspec.json.decode(payload)["third"] == 3


def test_the_worker_s_own_default_applies_to_what_was_not_given():
    def newer(first, /, second, third=33, *, fourth, fifth="newer"): ...

    payload = EVERY_KIND.pack((1, 2), {"fourth": 4})

    assert Arguments(newer, "every_kind").unpack(payload) == ((1, 2, 33), {"fourth": 4, "fifth": "newer"})


@pytest.mark.parametrize("default", [[], {}, set(), [1], {"a": [1]}, Point(1.0), User(name="a", born=date(1, 1, 1))])
def test_a_mutable_default_is_not_shared_between_runs(default):
    def send(value=default): ...

    arguments = Arguments(send, "send")
    (first,), _ = arguments.unpack(b"{}")
    (second,), _ = arguments.unpack(b"{}")

    assert first == second == default
    assert first is not second
    assert first is not default


def test_a_job_without_parameters_has_an_empty_payload():
    def send(): ...

    arguments = Arguments(send, "send")

    assert arguments.pack((), {}) == b"{}"
    assert arguments.unpack(b"{}") == ((), {})


def test_names_that_mean_something_elsewhere_are_plain_names_here():
    def send(name, self, cls, args, kwargs, queue, delay, _private): ...

    arguments = Arguments(send, "send")

    assert arguments.unpack(arguments.pack(tuple(range(8)), {}))[0] == tuple(range(8))


# Calls that do not fit


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ((), {}, "first"),
        ((1,), {"fourth": 4}, "second"),
        ((1, 2), {}, "fourth"),
        ((1, 2), {"fourth": 4, "sixth": 6}, "sixth"),
        ((1, 2), {"second": 2, "fourth": 4}, "second"),
        ((1, 2, 3, 4), {"fourth": 4}, "takes 3 positional arguments, 4 were given"),
    ],
)
def test_a_call_that_does_not_fit_names_the_job_and_the_argument(args, kwargs, complaint):
    with pytest.raises(ArgumentError, match=complaint) as raised:
        EVERY_KIND.pack(args, kwargs)

    assert "every_kind" in str(raised.value)
    assert isinstance(raised.value, TypeError)


def test_a_misspelt_argument_is_answered_with_the_right_spelling():
    with pytest.raises(ArgumentError, match="did you mean 'fourth'"):
        EVERY_KIND.pack((1, 2), {"forth": 4})


WRONG = [
    (int, "5"),
    (int, 5.5),
    (int, True),
    (int, None),
    (float, "0.5"),
    (float, Decimal("0.5")),
    (bool, 1),
    (str, 5),
    (str, b"bytes"),
    (str, datetime(2030, 1, 1, tzinfo=UTC)),
    (str, UUID(int=1)),
    (str, Decimal(1)),
    (str, Colour.RED),
    (str | None, b"bytes"),
    (list[str], [b"bytes"]),
    (dict[str, str], {"a": b"bytes"}),
    (dict[str, int], {1: 1}),
    (dict, {1: "a"}),
    (dict, {"a": datetime(2030, 1, 1, tzinfo=UTC)}),
    (dict[str, Any], {"a": [UUID(int=1)]}),
    (dict, Point(1.0)),
    (list, [datetime(2030, 1, 1, tzinfo=UTC)]),
    (bytes, "not base64!"),
    (datetime, "yesterday"),
    (datetime, date(2030, 1, 1)),
    (UUID, "42"),
    (Colour, "green"),
    (Literal["a"], "b"),
    (Point, {"y": 1}),
    (Point, Point("x")),
    (list[int], [1, "2"]),
    (dict[str, int], {"a": "b"}),
    (Options, {"retries": "many"}),
    (tuple[int, str], (1, "a", 2)),
    (User, {"name": "Ada"}),
    (Annotated[int, msgspec.Meta(gt=0)], 0),
]


@pytest.mark.promise("F58")
@pytest.mark.parametrize(("annotation", "value"), WRONG, ids=repr)
def test_a_value_of_the_wrong_type_is_refused_by_name(annotation, value):
    with pytest.raises(ArgumentError, match=r"(?s)^send: .*value") as raised:
        taking(annotation).pack((value,), {})

    assert isinstance(raised.value, TypeError)


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        [(1, 2)],
        {"a": (1, 2)},
        {1: "a"},
        {"a": {1: "b"}},
        {1, 2},
        frozenset({1}),
        datetime(2030, 1, 1, tzinfo=UTC),
        [date(2030, 1, 1)],
        UUID(int=1),
        Decimal(1),
        b"bytes",
        Colour.RED,
        Mood.GOOD,
        Point(1.0),
        Parcel("me", Point(1.0)),
        User(name="Ada", born=date(1815, 12, 10)),
    ],
    ids=repr,
)
def test_a_value_that_would_come_back_changed_is_refused_with_the_fix(value):
    with pytest.raises(ArgumentError, match=r"^send: value=.* would come back as .*: annotate the parameter"):
        plain().pack((value,), {})


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    "value",
    [object(), print, lambda: None, iter([]), 1j, Point, Moody(x=1)],
    ids=["object", "builtin", "lambda", "iterator", "complex", "class", "model that raises"],
)
@pytest.mark.parametrize("annotation", [None, Any, object, list, Moody])
def test_a_value_without_a_json_form_is_refused_by_name(annotation, value):
    arguments = plain() if annotation is None else taking(annotation)

    with pytest.raises(ArgumentError, match=r"^send: .*value"):
        arguments.pack((value,), {})


@pytest.mark.promise("F58")
def test_an_integer_of_too_many_digits_is_refused():
    with pytest.raises(ArgumentError, match="value"):
        plain().pack((10**5000,), {})


# Numbers that JSON has no word for


@pytest.mark.promise("F58", "F60")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("annotation", "wrap"),
    [
        (float, lambda number: number),
        (float | None, lambda number: number),
        (Any, lambda number: number),
        (Any, lambda number: [{"a": number}]),
        (list[float | None], lambda number: [1.0, number]),
        (dict[str, float | None], lambda number: {"a": number}),
        (dict, lambda number: {"a": [number]}),
        (tuple[float | None, int], lambda number: (number, 1)),
        (set[float | None], lambda number: {number}),
        (Point, Point),
        (Point, lambda number: Point(1.0, number)),
        (Slotted, Slotted),
        (Parcel, lambda number: Parcel("me", Point(1.0, number))),
        (list[Slotted], lambda number: [Slotted(number)]),
    ],
)
def test_a_number_that_is_not_finite_is_refused_wherever_it_hides(annotation, wrap, number):
    with pytest.raises(ArgumentError, match=r"^send: .*value"):
        taking(annotation).pack((wrap(number),), {})


def test_nothing_is_not_taken_for_a_number():
    assert there_and_back(taking(dict[str, float | None]), {"a": None, "b": 1.5}) == {"a": None, "b": 1.5}


# Text that is not text


@pytest.mark.promise("F58", "F60")
@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", ["\ud800"], {"\ud800": 1}], ids=ascii)
def test_a_lone_surrogate_is_refused(value):
    with pytest.raises(ArgumentError, match=r"value.*a lone surrogate"):
        plain().pack((value,), {})


# Depth


@pytest.mark.promise("F58")
@pytest.mark.parametrize("depth", [64, 500, 600, 900, 990, 1_000, 1_100, 100_000])
@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "dicts"])
@pytest.mark.parametrize("annotation", [Any, list | dict])
def test_nesting_that_is_too_deep_is_refused(annotation, wrap, depth):
    with pytest.raises(ArgumentError, match=r"^send: .*nested too deeply"):
        taking(annotation).pack((nested(wrap, depth),), {})


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "dicts"])
def test_nesting_of_sixty_four_levels_comes_back(wrap):
    value = nested(wrap, 63)  # in the object that every payload is

    assert there_and_back(plain(), value) == value


def nested(wrap, depth):
    value = None
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.promise("F58")
def test_a_value_that_contains_itself_is_refused():
    value = []
    value.append(value)

    with pytest.raises(ArgumentError, match="nested too deeply"):
        plain().pack((value,), {})


@pytest.mark.promise("F57")
def test_deep_nesting_in_a_payload_given_by_name_is_refused():
    with pytest.raises(ArgumentError, match="nested too deeply"):
        plain().check(b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


# Payloads given by name


def test_a_payload_that_fits_passes_the_check():
    taking(int).check(b'{"value":5}')


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    "payload", [b"{}", b'{"value":"5"}', b'{"value":5,"more":1}', b"[5]", b"null", b"", b"{", b'{"value":\xff}']
)
def test_a_payload_that_does_not_fit_fails_the_check(payload):
    with pytest.raises(ArgumentError, match=r"^send: "):
        taking(int).check(payload)


@pytest.mark.promise("F58")
def test_an_unknown_name_fails_the_check_beside_keyword_only_parameters_too():
    with pytest.raises(ArgumentError, match="sixth"):
        EVERY_KIND.check(b'{"first":1,"second":2,"fourth":4,"sixth":6}')


# Results


@pytest.mark.promise("F59")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 5),
        (Point, Point(1.0, 2.0)),
        (list[User], [User(name="Ada", born=date(1815, 12, 10))]),
        (Aliased, Aliased(userId=5)),
        (datetime, datetime(2030, 1, 1, tzinfo=UTC)),
        (Any, {"a": [1]}),
    ],
    ids=repr,
)
def test_a_result_comes_back_as_the_type_that_the_handler_returns(kind, value):
    assert decode_result(encode_value(value), kind) == value


@pytest.mark.promise("F59")
@pytest.mark.parametrize("kind", [int, Point, User, object, Colour])
def test_a_result_that_does_not_fit_its_type_comes_back_as_plain_data(kind):
    assert decode_result(b'{"a":[1]}', kind) == {"a": [1]}


def test_no_result_is_none():
    assert decode_result(None, int) is None


@pytest.mark.promise("F59")
def test_a_result_without_a_json_form_raises():
    with pytest.raises(TypeError, match="object has no JSON form"):
        encode_value({"a": object()})


@pytest.mark.promise("F59", "F60")
@pytest.mark.parametrize("value", [math.nan, [math.inf], Point(1.0, -math.inf), {"a": Slotted(math.nan)}], ids=repr)
def test_a_result_with_a_number_that_is_not_finite_raises(value):
    with pytest.raises(ValueError, match="has no JSON form"):
        encode_value(value)
