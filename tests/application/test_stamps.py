"""`jobs.stamp`: what the caller knows travels with the job."""

import asyncio
import sqlite3
import threading
from contextvars import ContextVar

import pytest

from onward import Onward, OptionError, PayloadTooLarge
from onward.errors import DefinitionError

request_id: ContextVar[str] = ContextVar("request_id", default="none")


@pytest.fixture
def work(jobs):
    @jobs.job
    def work(n: int = 0) -> None: ...

    return work


@pytest.fixture
def stamped(jobs):
    """The jobs that the stamp was called for."""
    called = []

    @jobs.stamp
    def stamp(job: str) -> dict[str, object]:
        called.append(job)
        return {"request": request_id.get(), "thread": threading.get_ident()}

    return called


HERE = threading.get_ident


@pytest.mark.promise("S53")
def test_a_stamp_adds_to_the_meta_of_every_way_to_enqueue(jobs, work, stamped):
    request_id.set("r1")

    handles = [
        work.enqueue(1),
        work.using(delay=60).enqueue(1),
        jobs.enqueue(work, 1),
        jobs.enqueue("elsewhere", {"n": 1}),
        *work.enqueue_many([(1,), (2,)]),
        *jobs.enqueue_many("elsewhere", [{}, {}]),
        asyncio.run(work.aenqueue(1)),
        *asyncio.run(work.aenqueue_many([(1,)])),
    ]

    expected = {"request": "r1", "thread": HERE()}
    assert [handle.record().meta for handle in handles] == [expected] * 10
    assert stamped == ["work"] * 3 + ["elsewhere"] + ["work"] * 2 + ["elsewhere"] * 2 + ["work"] * 2


@pytest.mark.promise("S53")
def test_a_job_of_the_builder_is_stamped(open_app):
    class Note:
        def check(self, payload: object) -> None: ...

        def run(self, ctx: object) -> None: ...

    jobs = open_app(handlers={"note": Note()}, queue_handlers={"default": ["note"]})
    jobs.stamp(lambda job: {"for": job})

    handle = jobs.define("note", "x").meta({"own": 1}).dispatch()

    assert handle.record().meta == {"for": "note", "own": 1}


@pytest.mark.promise("S53")
def test_a_job_of_a_callers_transaction_is_stamped(tmp_path):
    with Onward(f"sqlite:///{tmp_path / 'jobs.db'}").connect() as jobs:
        jobs.stamp(lambda job: {"for": job})

        @jobs.job
        def work() -> None: ...

        connection = sqlite3.connect(tmp_path / "jobs.db")
        with connection, jobs.transaction(connection) as tx:
            handles = [tx.enqueue(work), tx.enqueue("elsewhere", {}), *tx.enqueue_many(work, [()])]
        connection.close()

        assert [handle.record().meta["for"] for handle in handles] == ["work", "elsewhere", "work"]


def test_a_stamp_is_called_in_the_context_of_each_caller_even_if_one_thread_commits_for_all(jobs, work, stamped):
    def enqueue(number):
        request_id.set(f"r{number}")
        handles[number] = work.enqueue(number)

    handles = {}
    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {number: handle.record().meta["request"] for number, handle in handles.items()} == {
        number: f"r{number}" for number in range(8)
    }


@pytest.mark.promise("S53")
def test_the_callers_own_keys_win_and_then_the_later_stamp(jobs):
    jobs.stamp(lambda job: {"a": "first", "b": "first", "c": "first", "d": "first"})
    jobs.stamp(lambda job: {"b": "second", "c": "second", "d": "second"})

    @jobs.job(meta={"c": "definition", "d": "definition"})
    def work() -> None: ...

    handle = work.using(meta={"d": "call"}).enqueue()

    assert handle.record().meta == {"a": "first", "b": "second", "c": "definition", "d": "call"}


def test_a_stamp_counts_from_its_registration_on_even_for_jobs_that_were_enqueued_before(jobs, work):
    before = work.enqueue(1)
    jobs.stamp(lambda job: {"tenant": "acme"})
    after = work.enqueue(1)

    assert (before.record().meta, after.record().meta) == ({}, {"tenant": "acme"})


def test_the_error_of_a_stamp_is_the_enqueues_and_nothing_is_stored(jobs, work):
    @jobs.stamp
    def stamp(job: str) -> dict[str, str]:
        raise LookupError("no tenant here")

    with pytest.raises(LookupError, match="no tenant here"):
        work.enqueue(1)
    with pytest.raises(LookupError, match="no tenant here"):
        work.enqueue_many([(1,), (2,)])

    assert jobs.list() == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "must be a mapping of text to plain values, not None"),
        ({"a": object()}, "must hold plain values"),
        ({"a": (1, 2)}, "would come back as"),
        ({1: "a"}, "would come back as"),
        ({"onward.trace": "x"}, "has the key 'onward.trace': keys that begin with 'onward.' are Onward's"),
    ],
)
def test_what_a_stamp_returns_is_checked_and_the_stamp_is_named(jobs, work, value, told):
    @jobs.stamp
    def tenant_of(job: str) -> dict[str, object]:
        return value

    with pytest.raises(OptionError, match=r"the stamp '.*tenant_of' returned for job 'work'.*") as error:
        work.enqueue(1)

    assert told in str(error.value)
    assert jobs.list() == []


def test_what_a_stamp_returns_counts_against_the_limit_of_a_job(open_app):
    jobs = open_app(max_payload=1_024)
    jobs.stamp(lambda job: {"much": "x" * 1_024})

    @jobs.job
    def work() -> None: ...

    with pytest.raises(PayloadTooLarge):
        work.enqueue()


def test_keys_of_onwards_own_are_refused_in_meta_everywhere(jobs, work):
    with pytest.raises(OptionError, match=r"meta has the key 'onward\.x'"):
        work.using(meta={"onward.x": 1})
    with pytest.raises(OptionError, match=r"meta has the key 'onward\.x'"):
        jobs.job(name="other", meta={"onward.x": 1})(lambda: None)


def test_dead_letters_and_replayed_jobs_are_not_stamped_again(open_app, clock):
    jobs = open_app(dead_letter_queue="dead")
    calls = []

    @jobs.stamp
    def stamp(job: str) -> dict[str, int]:
        calls.append(job)
        return {"call": len(calls)}

    @jobs.job
    def work() -> None:
        raise ValueError("no")

    handle = work.enqueue()
    jobs.drain("default")
    (copy,) = jobs.list(queue="dead")
    jobs.retry(handle.id)

    assert calls == ["work"]
    assert copy.meta == {}
    assert handle.record().meta == {"call": 1}


def test_the_ticks_of_a_schedule_are_not_stamped(jobs, work, stamped):
    jobs.schedules.create("s", "@every 40s", work.call(1))

    assert jobs.schedules.tick() == 1
    assert [record.meta for record in jobs.list(job="work")] == [{}]
    assert stamped == []


class TestRefusals:
    def test_an_async_stamp_is_refused(self, jobs):
        async def stamp(job: str) -> dict[str, str]:
            return {}

        with pytest.raises(DefinitionError, match="must return its mapping at once"):
            jobs.stamp(stamp)

    def test_a_stamp_of_other_parameters_is_refused(self, jobs):
        with pytest.raises(DefinitionError, match="is called with the job's name and nothing else"):
            jobs.stamp(lambda: {"a": 1})

    def test_what_cannot_be_called_is_refused(self, jobs):
        with pytest.raises(OptionError, match="decorates a function of the job's name"):
            jobs.stamp({"a": 1})
