"""Where secrets are, by type and by value: named as they travel, and nothing left out."""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from onward import Secret
from onward.masking import masked, secret_values
from onward.secret_places import places_in, places_of

T = TypeVar("T")


@dataclass
class Order:
    number: int
    card: Secret[str]


class Renamed(msgspec.Struct, rename="camel"):
    card_number: Secret[str]


class InARow(msgspec.Struct, array_like=True):
    number: int
    card: Secret[str]


class Tree(msgspec.Struct):
    below: list["Tree"]
    pin: Secret[int] | None = None


class Plain(msgspec.Struct):
    below: list["Plain"]


class Box(msgspec.Struct, Generic[T]):
    inside: T


class Typed(TypedDict):
    card: Secret[bytes]


class Named(NamedTuple):
    number: int
    card: Secret[str]


class Model(pydantic.BaseModel):
    card: Secret[str] = pydantic.Field(alias="cardNumber")
    orders: list[Order] = []
    itself: "Model | None" = None


class Other(pydantic.BaseModel):
    pin: Secret[int]


class Either(pydantic.BaseModel):
    which: Model | Other


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (Secret, ("",)),
        (Secret[str] | None, ("",)),
        (Annotated[Secret[str], "a word"], ("",)),
        (list[Secret[str]], ("*",)),
        (dict[str, dict[str, Secret[str]]], ("*/*",)),
        (tuple[int, Secret[str]], ("*",)),
        (Order, ("card",)),
        (Renamed, ("cardNumber",)),
        (Renamed | int | None, ("cardNumber",)),
        (InARow, ("*",)),
        (Named, ("*",)),
        (Typed, ("card",)),
        (Tree, ("below/*", "pin")),
        (Box[Order], ("inside/card",)),
        (Box[int], ()),
        (Model, ("card", "cardNumber", "itself", "orders/*/card")),
        (Either, ("which",)),
        (Plain, ()),
        (Any, ()),
        (dict[str, Any], ()),
        ("no type", ()),
    ],
)
def test_a_type_tells_where_its_secrets_are(kind, places):
    assert places_of(kind) == places


def test_a_value_tells_where_its_secrets_are():
    value = {
        "a/b*~": Secret(1),
        "rows": ["x", Secret("y"), {"in": (Secret("z"),)}],
        "order": Order(7, Secret("4242")),
        "model": Other(pin=Secret(1234)),
        "box": Box({"deep": Secret("v")}),
    }

    assert places_in(value) == ("a~1b~2~0", "box", "model/pin", "order/card", "rows/1", "rows/2/in/0")


def test_of_more_than_a_letter_should_carry_everything_is_secret():
    assert places_in({str(number): Secret(number) for number in range(51)}) == ("",)
    assert len(places_in([Secret(number) for number in range(50)])) == 50


def test_what_is_at_a_place_is_masked_and_nothing_else():
    data = {"a/b": 1, "rows": [{"card": "x", "n": 1}, {"card": None, "n": 2}], "order": {"card": {"no": "y"}}, "*": 3}

    assert masked(data, ["a~1b", "rows/*/card", "order/card"]) == {
        "a/b": "***",
        "rows": [{"card": "***", "n": 1}, {"card": None, "n": 2}],
        "order": {"card": "***"},
        "*": 3,
    }
    assert list(secret_values(data, ["a~1b", "rows/0/card", "~2"])) == [1, "x", 3]
    assert masked([1, 2], ["1"]) == [1, "***"]
    assert masked("all of it", [""]) == "***"
