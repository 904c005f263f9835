"""What a test can ask about enqueued jobs, and what it is told when the answer is no."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from onward import ArgumentError, Onward, OptionError
from onward.testing import FakeClock, assert_enqueued, assert_not_enqueued


@dataclass
class Address:
    street: str
    since: datetime


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobs(clock):
    with Onward("memory://", clock=clock) as jobs:
        yield jobs


@pytest.fixture
def send(jobs):
    @jobs.job(queue="mail")
    def send(to: int, lang: str = "en", *, copies: int = 1): ...

    return send


def complaint(*args, **kwargs):
    """What a failing assertion says."""
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(*args, **kwargs)
    return str(caught.value)


class TestAJobThatIsThere:
    def test_it_is_found_by_the_job_itself_or_by_name(self, jobs, send):
        handle = send.enqueue(42)

        assert [record.id for record in assert_enqueued(jobs, send)] == [handle.id]
        assert [record.id for record in assert_enqueued(jobs, "send")] == [handle.id]

    def test_it_is_found_by_its_arguments_however_they_were_given(self, jobs, send):
        send.enqueue(42, "de")

        assert_enqueued(jobs, send, 42, lang="de")
        assert_enqueued(jobs, send, to=42, lang="de")
        assert_enqueued(jobs, "send", to=42, lang="de")

    def test_a_default_that_was_left_out_equals_one_that_was_said(self, jobs, send):
        send.enqueue(42)

        assert_enqueued(jobs, send, 42, lang="en", copies=1)
        assert_not_enqueued(jobs, send, 42, lang="de")

    def test_arguments_are_compared_as_they_travel(self, jobs):
        @jobs.job
        def move(to: Address, tags: tuple[str, ...] = ()): ...

        home = Address("Elm St", datetime(2030, 5, 6, tzinfo=UTC))
        move.enqueue(home, ("a", "b"))

        assert_enqueued(jobs, move, home, ("a", "b"))
        assert_enqueued(jobs, move, payload={"to": home})
        assert_not_enqueued(jobs, move, Address("Oak St", home.since), ("a", "b"))

    def test_a_part_of_the_payload_is_enough(self, jobs, send):
        send.enqueue(42, "de")

        assert_enqueued(jobs, send, payload={"lang": "de"})
        assert_not_enqueued(jobs, send, payload={"lang": "fr"})

    def test_a_payload_that_is_no_mapping_is_compared_as_a_whole(self, jobs):
        jobs.enqueue("elsewhere", [1, 2])

        assert_enqueued(jobs, "elsewhere", payload=[1, 2])
        assert_not_enqueued(jobs, "elsewhere", payload=[1])

    def test_one_that_its_handler_could_not_read_is_no_match_and_no_error(self, jobs):
        jobs.enqueue("late", {"to": "ada"})

        @jobs.job
        def late(to: int): ...

        assert_not_enqueued(jobs, late, 42)
        assert_enqueued(jobs, late, payload={"to": "ada"})

    def test_it_is_found_by_its_options(self, jobs, send, clock):
        send.using(queue="bulk", priority=5, delay="5m", meta={"tenant": 7, "by": "ada"}).enqueue(42)

        assert_enqueued(jobs, send, queue="bulk", priority=5, delay=timedelta(minutes=5), meta={"tenant": 7})
        assert_enqueued(jobs, send, at=clock.now() + timedelta(minutes=5))
        for other in (
            {"queue": "mail"},
            {"priority": 0},
            {"delay": "6m"},
            {"at": clock.now()},
            {"meta": {"tenant": 8}},
        ):
            assert_not_enqueued(jobs, send, **other)

    def test_it_can_be_due_at_once(self, jobs, send):
        send.enqueue(42)

        assert_enqueued(jobs, send, delay=0)
        assert_not_enqueued(jobs, send, delay=60)

    def test_jobs_are_counted(self, jobs, send):
        send.enqueue_many([(1,), (2,), (1,)])

        assert len(assert_enqueued(jobs, send, count=3)) == 3
        assert len(assert_enqueued(jobs, send, 1, count=2)) == 2

    def test_more_jobs_than_a_page_are_looked_at(self, jobs, send):
        send.enqueue_many([(number,) for number in range(1100)])

        assert_enqueued(jobs, send, count=1100)
        assert_enqueued(jobs, send, 1099)

    def test_one_that_a_running_job_enqueues_is_found(self, jobs, send):
        @jobs.job
        def greet():
            send.using(delay=60).enqueue(42)

        greet.enqueue()
        jobs.drain()

        assert_enqueued(jobs, send, 42, delay=60)

    def test_one_that_has_ended_is_found_only_if_that_is_asked(self, jobs, send):
        send.enqueue(42)
        jobs.drain()

        assert_not_enqueued(jobs, send)
        assert_enqueued(jobs, send, 42, finished=True)

    def test_jobs_that_ran_inside_enqueue_are_found_among_the_finished(self):
        with Onward("sync://") as jobs:

            @jobs.job
            def work(number: int): ...

            work.enqueue(1)

            assert_enqueued(jobs, work, 1, finished=True, count=1)


class TestAJobThatIsNotThere:
    def test_an_empty_store_says_so(self, jobs, send):
        assert complaint(jobs, send, 42) == "expected at least 1 of send(to=42), found 0\nnothing waits or runs"

    def test_what_was_enqueued_instead_is_listed_the_nearest_first(self, jobs, send):
        @jobs.job
        def other(to: int): ...

        other.enqueue(42)
        send.using(queue="bulk").enqueue(41, "en")
        send.using(delay="5m").enqueue(42, "en")

        assert complaint(jobs, send, 42, lang="de", queue="mail").splitlines() == [
            "expected at least 1 of send(to=42, lang='de') with queue 'mail', found 0",
            "enqueued:",
            "    send(to=42, lang='en') [queue mail, scheduled, due 0:05:00 after it was enqueued]: lang is 'en', not 'de'",
            (
                "    send(to=41, lang='en') [queue bulk, available]: "
                "to is 41, not 42; lang is 'en', not 'de'; queue is 'bulk', not 'mail'"
            ),
            "    other(to=42) [queue default, available]: another job; queue is 'default', not 'mail'",
        ]

    def test_arguments_that_only_one_side_gives_are_told(self, jobs, send):
        send.enqueue(42, copies=3)

        told = complaint(jobs, send, 42, lang="de")

        assert "lang was not given, not 'de'; copies=3 was given too" in told

    def test_a_wrong_count_lists_those_that_match(self, jobs, send):
        send.enqueue(42)

        assert complaint(jobs, send, count=2).splitlines() == [
            "expected 2 of send(…), found 1",
            "enqueued:",
            "    send(to=42) [queue mail, available]",
        ]

    def test_a_wrong_time_is_told(self, jobs, send):
        send.enqueue(42)

        assert "due at once, not 0:05:00 after it was enqueued" in complaint(jobs, send, delay="5m")

    def test_one_that_has_ended_is_hinted_at(self, jobs, send):
        send.enqueue(42)
        jobs.drain()

        assert "found 0 (1 that has ended: finished=True counts them too)" in complaint(jobs, send, 42)

    def test_a_long_list_is_cut(self, jobs, send):
        send.enqueue_many([(number,) for number in range(15)])

        lines = complaint(jobs, send, 99).splitlines()

        assert len(lines) == 2 + 10 + 1
        assert lines[-1] == "    and 5 more"

    def test_a_long_payload_is_cut(self, jobs):
        jobs.enqueue("elsewhere", {"text": "x" * 10_000})

        assert max(map(len, complaint(jobs, "elsewhere", text="y").splitlines())) < 400

    def test_one_that_should_not_be_there_is_shown(self, jobs, send):
        send.enqueue(42)

        with pytest.raises(AssertionError) as caught:
            assert_not_enqueued(jobs, send, 42)

        assert str(caught.value).splitlines() == [
            "expected no send(to=42), found 1",
            "enqueued:",
            "    send(to=42) [queue mail, available]",
        ]


class TestAQuestionThatMakesNoSense:
    def test_arguments_that_could_never_be_enqueued_are_an_error_and_no_pass(self, jobs, send):
        with pytest.raises(ArgumentError, match="no parameter 'language'"):
            assert_not_enqueued(jobs, send, 42, language="de")
        with pytest.raises(ArgumentError, match="no job can carry this value"):
            assert_not_enqueued(jobs, send, payload={"to": object()})

    def test_positional_arguments_need_the_job(self, jobs):
        with pytest.raises(OptionError, match="by name"):
            assert_enqueued(jobs, "send", 42)

    def test_a_plain_function_is_no_job(self, jobs):
        with pytest.raises(OptionError, match=r"@jobs\.job"):
            assert_enqueued(jobs, print)

    def test_delay_and_at_are_one_question(self, jobs, send, clock):
        with pytest.raises(OptionError, match="not both"):
            assert_enqueued(jobs, send, delay=1, at=clock.now())

    def test_an_option_that_is_also_a_parameter_is_refused(self, jobs):
        @jobs.job
        def route(queue: str, count: int = 1): ...

        with pytest.raises(OptionError, match=r"'queue' is an option here and a parameter of route"):
            assert_enqueued(jobs, route, queue="mail")

    def test_a_call_tells_arguments_and_options_apart(self, jobs):
        @jobs.job
        def route(queue: str, count: int = 1): ...

        route.using(queue="ops").enqueue("mail", count=7)

        assert_enqueued(jobs, route, route.call("mail", count=7), queue="ops", count=1)
        assert_not_enqueued(jobs, route, route.call("mail"), queue="ops")

    def test_a_call_holds_all_arguments(self, jobs, send):
        with pytest.raises(OptionError, match="put lang into"):
            assert_enqueued(jobs, send, send.call(42), lang="de")
