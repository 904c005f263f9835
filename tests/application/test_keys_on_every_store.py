"""Keys, through the application, on every store that keeps them."""

import pytest

from onward.errors import KeyInUse
from tests.application.every_store import redis_server, store, url  # noqa: F401

ECHO = ["/bin/echo", "hello"]


class TestANamedJob:
    @pytest.fixture
    def jobs(self, open_app):
        return open_app(handlers={"shell": {"allow": ["/bin/echo"]}}, queue_handlers={"default": ["shell"]})

    @pytest.fixture
    def echo(self, jobs):
        return jobs.define("shell", ECHO)

    @pytest.mark.promise("S35")
    def test_another_name_is_another_single_instance(self, jobs, echo, claim_elsewhere):
        echo.named("backup").single_instance().dispatch()
        claim_elsewhere(jobs)

        other = echo.named("report").single_instance().dispatch()

        assert jobs.process_once().status == "acked"
        assert other.state() == "completed"

    @pytest.mark.promise("S35")
    def test_the_same_name_is_the_same_single_instance(self, jobs, echo, claim_elsewhere):
        echo.named("backup").single_instance().dispatch()
        claim_elsewhere(jobs)

        echo.named("backup").single_instance().dispatch()

        assert jobs.process_once().status == "snoozed"

    @pytest.mark.promise("S35")
    def test_a_job_without_a_name_has_the_single_instance_of_its_handler(self, jobs, echo, claim_elsewhere):
        echo.single_instance().dispatch()
        claim_elsewhere(jobs)

        named = echo.named("backup").single_instance().dispatch()
        unnamed = echo.single_instance().dispatch()
        jobs.drain()

        assert (named.state(), unnamed.state()) == ("completed", "scheduled")

    @pytest.mark.promise("S33")
    def test_an_idempotency_key_belongs_to_the_name(self, jobs, echo):
        for name in ("backup", "report", "backup"):
            echo.named(name).idempotency_key("monday").dispatch()

        assert [jobs.process_once().status for _ in range(3)] == ["acked", "acked", "skipped-idempotent"]

    @pytest.mark.promise("S34")
    def test_a_unique_key_belongs_to_the_name(self, jobs, echo):
        created = [echo.named(name).unique_key("monday").dispatch().created for name in ("backup", "report", "backup")]

        assert created == [True, True, False]

    @pytest.mark.promise("S33", "S34")
    def test_a_global_key_is_one_for_all_names(self, jobs, echo):
        shared = echo.unique_key("monday").key_scope("global")

        assert [shared.named(name).dispatch().created for name in ("backup", "report")] == [True, False]


class TestAUniqueKeyOfTheArguments:
    @pytest.mark.promise("S34")
    @pytest.mark.parametrize("key", ["user:{user_id}", lambda user_id: f"user:{user_id}"], ids=["template", "function"])
    def test_calls_with_the_same_arguments_are_one_job(self, jobs, key):
        @jobs.job(unique_key=key)
        def sync(user_id: int): ...

        first = sync.enqueue(7)
        handles = [*sync.enqueue_many([(7,), (8,), (8,)]), jobs.enqueue("sync", {"user_id": 7})]

        assert [handle.created for handle in handles] == [False, True, False, False]
        assert handles[-1].id == first.id

    @pytest.mark.promise("S34")
    def test_the_newest_call_wins_if_the_decorator_says_so(self, jobs):
        @jobs.job(unique_key="user:{user_id}", unique_strategy="cancel_existing")
        def sync(user_id: int): ...

        handles = [sync.enqueue(7), *sync.enqueue_many([(7,), (8,), (7,)])]

        assert [handle.state() for handle in handles] == ["cancelled", "cancelled", "available", "available"]


class TestForgettingAKey:
    @pytest.fixture
    def charge(self, jobs):
        @jobs.job
        def charge(order: int): ...

        return charge

    @pytest.mark.promise("S33")
    def test_the_work_may_be_done_again(self, jobs, charge):
        once = charge.using(idempotency_key="order:42")
        once.enqueue(42)
        jobs.drain()

        assert jobs.forget("order:42", job=charge)

        once.enqueue(42)
        once.enqueue(42)
        assert [jobs.process_once().status for _ in range(2)] == ["acked", "skipped-idempotent"]

    @pytest.mark.promise("S33")
    def test_a_job_is_named_by_its_name_too_and_no_job_means_a_key_of_all(self, jobs, charge):
        charge.using(idempotency_key="a").enqueue(1)
        charge.using(idempotency_key="b", key_scope="global").enqueue(1)
        jobs.drain()

        assert [jobs.forget("a"), jobs.forget("b", job="charge")] == [False, False]
        assert [jobs.forget("a", job="charge"), jobs.forget("b")] == [True, True]
        assert [jobs.forget("a", job="charge"), jobs.forget("b")] == [False, False]

    @pytest.mark.promise("S33")
    def test_a_key_that_a_running_job_holds_is_refused_with_the_job(self, jobs, charge, claim_elsewhere):
        once = charge.using(idempotency_key="order:42")
        running = once.enqueue(42)
        (lease,) = claim_elsewhere(jobs)

        with pytest.raises(
            KeyInUse, match=rf"'order:42' of 'charge' is held by job {running.id}, which runs"
        ) as refused:
            jobs.forget("order:42", job=charge)

        assert refused.value.job_id == running.id
        jobs.backend.ack(lease)
        assert jobs.forget("order:42", job=charge)
