"""What a handler returns is what `result()` gives back, as the type it says it returns."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from onward import JobContext


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


class Pair(msgspec.Struct):
    left: str
    right: int


class Address(pydantic.BaseModel):
    city: str
    since: date


RESULTS = [
    (int, 7),
    (float, 1.5),
    (bool, True),
    (str, "grüße \x00"),
    (bytes, b"\x00\xff"),
    (type(None), None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[str, Point], {"a": Point(1, 2)}),
    (datetime, datetime(2030, 1, 1, tzinfo=UTC)),
    (date, date(2030, 1, 1)),
    (timedelta, timedelta(minutes=5)),
    (UUID, UUID(int=5)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Pair, Pair("a", 1)),
    (Address, Address(city="Basel", since=date(2020, 2, 2))),
    (list[Address], [Address(city="Bern", since=date(2021, 1, 1))]),
    (Any, {"a": [1, None]}),
]


@pytest.mark.parametrize(("kind", "value"), RESULTS, ids=[str(kind) for kind, _ in RESULTS])
def test_an_annotated_result_comes_back_as_what_it_was(jobs, kind, value):
    @jobs.job
    def work() -> kind:
        return value

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == value
    assert type(handle.result()) is type(value)


def test_a_result_without_annotation_comes_back_as_plain_data(jobs):
    @jobs.job
    def work():
        return Point(1, 2)

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == {"x": 1, "y": 2}


def test_a_result_that_is_not_what_was_promised_comes_back_as_plain_data(jobs):
    @jobs.job
    def work() -> int:
        return "not a number"

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == "not a number"


def test_a_handle_made_from_an_id_gives_plain_data(jobs):
    @jobs.job
    def work() -> Point:
        return Point(1, 2)

    handle = work.enqueue()
    jobs.drain()

    assert jobs.get(handle.id).result == {"x": 1, "y": 2}


class CannotBeTold:
    def __repr__(self):
        raise RuntimeError


def endless():
    values = []
    values.append(values)
    return values


UNSTORABLE = {
    "object": object,
    "untold": CannotBeTold,
    "endless": endless,
    "surrogate": lambda: "\ud800",
    "key": lambda: {1j: 2},
    "function": lambda: print,
}


@pytest.mark.promise("F59")
@pytest.mark.parametrize("make", UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_a_result_that_cannot_be_stored_does_not_undo_the_success(jobs, make):
    @jobs.job
    def work():
        return make()

    handle = work.enqueue()
    result = jobs.process_once()

    record = handle.record()
    assert (result.status, record.state, record.result) == ("acked", "completed", None)
    assert record.reason.startswith("no result: ")


@pytest.mark.promise("F59")
def test_a_result_larger_than_the_limit_does_not_undo_the_success(open_app):
    jobs = open_app(max_payload=1024)

    @jobs.job
    def work() -> str:
        return "x" * 2000

    handle = work.enqueue()
    jobs.drain()

    record = handle.record()
    assert (record.state, record.result) == ("completed", None)
    assert record.reason == "no result: it takes 2,002 bytes and the limit is 1,024"


def test_why_says_that_a_job_whose_result_could_not_be_stored_has_completed(open_app):
    jobs = open_app(max_payload=1024)

    @jobs.job
    def work() -> str:
        return "x" * 2000

    handle = work.enqueue()
    jobs.drain()

    reason = jobs.why(handle.id)
    assert reason.code == "completed"
    assert reason.text.startswith("It completed at ")
    assert reason.text.endswith(", with no result: it takes 2,002 bytes and the limit is 1,024.")


@pytest.mark.promise("F59")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_result_that_json_has_no_word_for_is_not_passed_off_as_another(jobs, number):
    @jobs.job
    def work() -> list[float]:
        return [1.0, number]

    handle = work.enqueue()
    jobs.drain()

    record = handle.record()
    assert (record.state, record.result) == ("completed", None)
    assert "no JSON form" in record.reason


def warnings_of(caplog):
    return [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]


FIX = "annotate the function with the type that it returns, or return plain data"
CHANGED = {
    "tuple": ((1, 2), "what it returns is of type tuple and comes back as list"),
    "datetime": (datetime(2030, 1, 1, tzinfo=UTC), "what it returns is of type datetime and comes back as str"),
    "set": ({1}, "what it returns is of type set and comes back as list"),
    "bytes": (b"x", "what it returns is of type bytes and comes back as str"),
    "Decimal": (Decimal("1.1"), "what it returns is of type Decimal and comes back as str"),
    "dataclass": (Point(1, 2), "what it returns is of type Point and comes back as dict"),
    "model": (
        Address(city="Basel", since=date(2020, 2, 2)),
        "what it returns is of type Address and comes back as dict",
    ),
    "keys": ({1: "a"}, "a key of what it returns is of type int and comes back as str"),
    "deep": ({"a": [1, (2, 3)]}, "what it returns['a'][1] is of type tuple and comes back as list"),
}


@pytest.mark.promise("F59")
@pytest.mark.parametrize(("value", "told"), CHANGED.values(), ids=CHANGED.keys())
def test_a_result_that_comes_back_as_something_else_is_told_once(jobs, caplog, value, told):
    @jobs.job
    def work():
        return value

    work.enqueue_many([(), (), ()])
    jobs.drain()

    assert warnings_of(caplog) == [f"job work: {told}: {FIX}"]


@pytest.mark.parametrize(("kind", "value"), RESULTS, ids=[str(kind) for kind, _ in RESULTS])
def test_a_result_that_comes_back_as_what_it_was_is_not_told(jobs, caplog, kind, value):
    @jobs.job
    def work() -> kind:
        return value

    work.enqueue()
    jobs.drain()

    assert warnings_of(caplog) == []


class Level(StrEnum):
    HIGH = "high"


@dataclass(eq=False)
class Incomparable:
    x: int


@pytest.mark.parametrize(
    "value",
    [None, 1, "a", [1, "b", None], {"a": 1.5}, {"a": {"b": [True, {}]}}, OrderedDict(a=1), Level.HIGH, [[Level.HIGH]]],
    ids=repr,
)
def test_a_result_without_annotation_that_is_as_good_when_it_comes_back_is_not_told(jobs, caplog, value):
    @jobs.job
    def work():
        return value

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == value
    assert warnings_of(caplog) == []


def test_a_result_that_cannot_be_compared_is_not_told(jobs, caplog):
    @jobs.job
    def work() -> list[Incomparable]:
        return [Incomparable(1)]

    work.enqueue()
    jobs.drain()

    assert warnings_of(caplog) == []


@pytest.mark.promise("F59")
def test_a_result_that_cannot_be_stored_is_told_once_for_each_job(jobs, caplog):
    @jobs.job
    def one():
        return object()

    @jobs.job
    def other():
        return object()

    one.enqueue_many([(), ()])
    other.enqueue()
    jobs.drain()

    assert sorted(warnings_of(caplog)) == [
        f"job {name} is completed with no result: TypeError: object has no JSON form: pass plain data, a dataclass or a "
        f"pydantic model (return plain data, or a reference to it)"
        for name in ("one", "other")
    ]


@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.promise("F59")
def test_the_result_of_a_transaction_is_told_too(jobs, caplog):
    @jobs.job
    def work(ctx: JobContext) -> list[int]:
        with ctx.transaction() as conn:
            conn.complete((1, "two"))
        return []

    work.enqueue()
    jobs.drain()

    assert warnings_of(caplog) == [f"job work: what it returns is of type tuple and comes back as list: {FIX}"]
