"""Every way to put a job into the store, and what a handler is called with."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import ArgumentError, JobContext, Onward
from onward.errors import DefinitionError
from onward.telemetry import JobEnqueued


@pytest.fixture
def add(jobs):
    @jobs.job
    def add(x: int, y: int = 1) -> int:
        return x + y

    return add


def test_a_job_is_still_the_function_it_was(add):
    assert add(1, 2) == 3
    assert (add.name, add.__name__) == ("add", "add")


def test_positional_and_keyword_arguments_reach_the_handler(jobs, add):
    handles = [add.enqueue(1), add.enqueue(1, 2), add.enqueue(1, y=3), add.enqueue(y=4, x=1)]
    jobs.drain()

    assert [handle.result() for handle in handles] == [2, 3, 4, 5]


def test_a_job_that_was_enqueued_waits_in_its_queue(jobs, clock):
    @jobs.job(queue="mail", priority=7, meta={"team": "growth"})
    def send(to: str): ...

    record = send.enqueue("ada").record()

    assert (record.job, record.name, record.queue, record.state) == ("send", "send", "mail", "available")
    assert (record.priority, record.payload, record.meta) == (7, {"to": "ada"}, {"team": "growth"})
    assert record.enqueued_at == record.available_at == clock.now()
    assert (record.started_at, record.finished_at, record.owner, record.result) == (None, None, None, None)


def test_the_default_of_a_parameter_is_the_workers_and_does_not_travel(jobs, add):
    handle = add.enqueue(1)

    assert handle.record().payload == {"x": 1}


async def _enqueue_and_wait(jobs, add):
    handle = await add.aenqueue(1, y=2)
    by_name = await jobs.aenqueue("add", {"x": 2})
    await asyncio.to_thread(jobs.drain)
    return await handle.aresult(timeout=5), await by_name.aresult(timeout=5)


def test_the_async_face_enqueues_and_waits(jobs, add):
    assert asyncio.run(_enqueue_and_wait(jobs, add)) == (3, 3)


def test_a_blocking_enqueue_on_an_event_loop_warns_once_and_works(jobs, add, caplog):
    async def main():
        return [add.enqueue(1), add.enqueue(2)]

    handles = asyncio.run(main())

    assert [handle.state() for handle in handles] == ["available"] * 2
    assert [record.levelno for record in caplog.records if "aenqueue" in record.getMessage()] == [logging.WARNING]


def test_many_calls_are_enqueued_in_their_order(jobs, add):
    handles = add.enqueue_many([(1,), (2, 2), add.call(3, y=3), [4]])
    jobs.drain()

    assert [handle.result() for handle in handles] == [2, 4, 6, 5]
    assert [record.id for record in jobs.list()] == [handle.id for handle in handles]


def test_enqueueing_nothing_is_fine(add):
    assert add.enqueue_many([]) == []


def test_many_calls_may_be_generated_and_may_be_many(jobs, add):
    handles = add.enqueue_many((n,) for n in range(2_500))

    assert len({handle.id for handle in handles}) == 2_500
    assert jobs.counts()["available"] == 2_500


def test_options_of_a_call_apply_to_every_one_of_many(jobs, add):
    add.using(queue="mail", delay=60).enqueue_many([(1,), (2,)])

    assert [(record.queue, record.state) for record in jobs.list()] == [("mail", "scheduled")] * 2


def test_options_are_added_to_those_said_before_and_the_last_word_counts(jobs, add, clock):
    base = add.using(queue="mail", priority=1, delay=60)
    record = base.using(priority=2, at=clock.now() + timedelta(hours=1)).enqueue(1).record()

    assert (record.queue, record.priority) == ("mail", 2)
    assert record.available_at == clock.now() + timedelta(hours=1)


def test_options_of_a_call_leave_the_job_alone(jobs, add):
    add.using(queue="mail", delay=60)

    assert add.enqueue(1).record().queue == "default"


@pytest.mark.parametrize(
    "delay", [90, 90.0, timedelta(seconds=90), "90s", "1m 30s"], ids=["int", "float", "timedelta", "s", "m s"]
)
def test_a_delay_can_be_said_in_many_ways(add, clock, delay):
    record = add.using(delay=delay).enqueue(1).record()

    assert record.available_at == clock.now() + timedelta(seconds=90)
    assert record.state == "scheduled"


def test_a_job_can_be_due_at_an_instant_of_any_time_zone(add, clock):
    from zoneinfo import ZoneInfo

    when = (clock.now() + timedelta(hours=5)).astimezone(ZoneInfo("America/New_York"))

    assert add.using(at=when).enqueue(1).record().available_at == when


def test_an_instant_in_the_past_is_due_at_once(jobs, add, clock):
    handle = add.using(at=clock.now() - timedelta(days=1)).enqueue(1)
    jobs.drain()

    assert handle.state() == "completed"


def test_meta_of_a_call_is_added_to_that_of_its_definition(jobs):
    seen = []

    @jobs.job(meta={"team": "growth", "cost": 1})
    def work(ctx: JobContext):
        seen.append(ctx.meta)

    handle = work.using(meta={"cost": 2, "trace": [1, {"a": None}]}).enqueue()
    jobs.drain()

    expected = {"team": "growth", "cost": 2, "trace": [1, {"a": None}]}
    assert seen == [expected]
    assert jobs.get(handle.id).meta == expected


def test_higher_priority_runs_sooner_and_equals_keep_their_order(jobs):
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)

    for n, priority in enumerate([0, 10, -5, 10, 0]):
        work.using(priority=priority).enqueue(n)
    jobs.drain()

    assert ran == [1, 3, 0, 4, 2]


def test_fifty_jobs_of_one_millisecond_keep_their_order(jobs):
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)

    for n in range(50):
        work.enqueue(n)
    jobs.drain()

    assert ran == list(range(50))


def test_a_job_known_by_name_here_gets_its_definitions_options(jobs):
    @jobs.job(queue="mail", max_retries=4, priority=3)
    def send(to: str): ...

    record = jobs.enqueue("send", {"to": "ada"}, priority=5).record()

    assert (record.queue, record.max_retries, record.priority) == ("mail", 4, 5)


def test_a_job_known_nowhere_here_gets_what_was_said(jobs):
    handle = jobs.enqueue("elsewhere.send", {"to": "ada"}, queue="mail", max_retries=2, meta={"k": 1})

    record = handle.record()
    assert (record.job, record.queue, record.payload) == ("elsewhere.send", "mail", {"to": "ada"})
    assert (record.max_retries, record.meta) == (2, {"k": 1})


def test_a_job_by_an_alias_is_enqueued_under_its_name_of_today(jobs):
    @jobs.job(aliases=("old",))
    def new(): ...

    assert jobs.enqueue("old").record().job == "new"


def test_a_job_may_be_given_another_name_than_its_function(jobs):
    @jobs.job(name="billing.charge")
    def charge() -> str:
        return "ok"

    handle = jobs.enqueue("billing.charge")
    jobs.drain()

    assert (charge.name, handle.result()) == ("billing.charge", "ok")


def test_each_enqueued_job_is_told_as_an_event(jobs, add, listen):
    heard = listen(jobs)
    handles = add.enqueue_many([(1,), (2,)])

    assert [(event.id, event.job, event.queue) for event in heard(JobEnqueued)] == [
        (handle.id, "add", "default") for handle in handles
    ]


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(msgspec.Struct):
    left: str
    right: bytes


class Address(pydantic.BaseModel):
    city: str
    since: date


ARGUMENTS = [
    (int, 7),
    (float, 1.5),
    (bool, False),
    (str, "grüße \x00 \U0001f4a9"),
    (bytes, b"\x00\xff"),
    (type(None), None),
    (int | None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[str, list[int]], {"a": [1]}),
    (dict[int, str], {1: "a"}),
    (datetime, datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)),
    (date, date(2030, 1, 1)),
    (timedelta, timedelta(days=1, seconds=2)),
    (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Pair, Pair("a", b"b")),
    (Address, Address(city="Basel", since=date(2020, 2, 2))),
    (list[Point], [Point(1), Point(2, 3)]),
]


@pytest.mark.parametrize(("kind", "value"), ARGUMENTS, ids=[str(kind) for kind, _ in ARGUMENTS])
def test_an_annotated_argument_arrives_as_what_it_was(jobs, kind, value):
    arrived = []

    @jobs.job
    def work(given: kind):
        arrived.append(given)

    work.enqueue(value)
    jobs.drain()

    assert arrived == [value]
    assert type(arrived[0]) is type(value)


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "text", [1, [2]], {"a": {"b": None}}])
def test_plain_data_needs_no_annotation(jobs, value):
    arrived = []

    @jobs.job
    def work(given):
        arrived.append(given)

    work.enqueue(value)
    jobs.drain()

    assert arrived == [value]


def test_two_jobs_of_one_name_are_refused_where_the_second_is_defined(jobs):
    @jobs.job
    def work(): ...

    def another(): ...

    with pytest.raises(DefinitionError, match="already registered"):
        jobs.job(name="work")(another)


@pytest.mark.promise("F60", "F58")
@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()), st.lists))
def test_whatever_is_enqueued_arrives_as_it_was_or_is_refused(value):
    with Onward("sync://") as jobs:
        arrived = []

        @jobs.job
        def work(given):
            arrived.append(given)

        try:
            work.enqueue(value)
        except ArgumentError:
            assert arrived == []
        else:
            assert arrived == [value]
