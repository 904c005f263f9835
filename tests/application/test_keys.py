"""Keys: work that is done once, jobs that live once, jobs that run one at a time."""

import pytest

from onward import Discard, JobContext, NoDelay, Retry, Snooze
from onward.telemetry import JobDeduplicated, JobSnoozed


class TestAnIdempotencyKey:
    @pytest.mark.promise("S33")
    def test_a_second_job_whose_key_is_done_is_completed_without_running(self, jobs):
        ran = []

        @jobs.job
        def charge(order: int):
            ran.append(order)

        once = charge.using(idempotency_key="order-7")
        first = once.enqueue(7)
        jobs.drain()
        second = once.enqueue(7)
        result = jobs.process_once()

        record = jobs.get(second.id)
        assert (ran, result.status) == ([7], "skipped-idempotent")
        assert (record.state, record.attempts) == ("completed", 0)
        assert first.id in record.reason

    @pytest.mark.promise("S33", "S29")
    def test_a_skipped_job_is_counted_as_that_and_nothing_else(self, jobs, listen):
        heard = listen(jobs)

        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k")
        first = once.enqueue()
        jobs.drain()
        second = once.enqueue()
        jobs.drain()

        count = jobs.metrics.count
        assert (count("jobs_skipped_idempotent"), count("jobs_succeeded"), count("jobs_failed")) == (1, 1, 0)
        (event,) = heard(JobDeduplicated)
        assert (event.id, event.existing_id) == (second.id, first.id)

    @pytest.mark.promise("S33")
    def test_a_job_with_a_key_that_fails_twice_and_then_succeeds_runs_three_times(self, jobs):
        seen = []

        @jobs.job(max_retries=2, retry=NoDelay())
        def charge(ctx: JobContext):
            seen.append(ctx.attempt)
            if ctx.attempt < 3:
                raise RuntimeError

        handle = charge.using(idempotency_key="k").enqueue()
        jobs.drain()

        assert (seen, handle.state()) == ([1, 2, 3], "completed")

    @pytest.mark.promise("S33")
    @pytest.mark.parametrize(
        "how", [RuntimeError(), Discard(), Retry(after=60), Snooze(60)], ids=lambda how: type(how).__name__
    )
    def test_a_job_that_did_not_succeed_leaves_its_key_free(self, jobs, how):
        @jobs.job
        def charge(fails: bool):
            if fails:
                raise how

        once = charge.using(idempotency_key="k")
        once.enqueue(True)
        jobs.process_once()
        second = once.enqueue(False)
        jobs.drain()

        record = jobs.get(second.id)
        assert (record.state, record.attempts) == ("completed", 1)

    @pytest.mark.promise("S33")
    def test_a_job_that_crashed_leaves_its_key_free(self, jobs, crash_elsewhere):
        ran = []

        @jobs.job
        def charge():
            ran.append(1)

        charge.using(idempotency_key="k").enqueue()
        crash_elsewhere(jobs)
        jobs.drain()

        assert ran == [1]

    @pytest.mark.promise("S33")
    def test_a_job_that_meets_a_held_key_is_snoozed_and_burns_nothing(self, jobs, claim_elsewhere, listen):
        heard = listen(jobs)

        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k")
        once.enqueue()
        claim_elsewhere(jobs)
        second = once.enqueue()
        result = jobs.process_once()

        record = jobs.get(second.id)
        assert (result.status, record.state, record.attempts) == ("snoozed", "scheduled", 0)
        assert [event.delay for event in heard(JobSnoozed)] == [1]

    @pytest.mark.promise("S33")
    def test_a_job_that_waits_for_a_held_key_asks_less_and_less_often(self, jobs, claim_elsewhere, clock):
        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k")
        once.enqueue()
        claim_elsewhere(jobs)
        second = once.enqueue()
        waits = []
        for _ in range(7):
            jobs.process_once()
            waits.append((jobs.get(second.id).available_at - clock.now()).total_seconds())
            clock.advance(waits[-1])

        assert waits == [1, 2, 4, 8, 16, 30, 30]

    @pytest.mark.promise("S33")
    def test_a_job_that_waits_for_a_key_is_due_as_soon_as_the_key_is_done(self, jobs, claim_elsewhere):
        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k")
        once.enqueue()
        (held,) = claim_elsewhere(jobs)
        second = once.enqueue()
        jobs.process_once()
        jobs.backend.ack(held)

        assert jobs.process_once().status == "skipped-idempotent"
        assert second.state() == "completed"

    @pytest.mark.promise("S33")
    def test_two_jobs_never_share_a_key_by_accident(self, jobs):
        @jobs.job
        def charge() -> str:
            return "charged"

        @jobs.job
        def refund() -> str:
            return "refunded"

        handles = [job.using(idempotency_key="order-7").enqueue() for job in (charge, refund)]
        jobs.drain()

        assert [handle.result() for handle in handles] == ["charged", "refunded"]

    @pytest.mark.promise("S33")
    def test_two_jobs_share_a_key_if_they_ask_for_it(self, jobs):
        @jobs.job
        def charge(): ...

        @jobs.job
        def refund(): ...

        for job in (charge, refund):
            job.using(idempotency_key="order-7", key_scope="global").enqueue()
        jobs.drain()

        assert jobs.metrics.count("jobs_skipped_idempotent") == 1

    @pytest.mark.promise("S33")
    @pytest.mark.parametrize(("options", "ttl"), [({}, 86_400), ({"idempotency_ttl": "1h"}, 3_600)])
    def test_a_done_key_is_remembered_for_its_time_and_no_longer(self, jobs, clock, options, ttl):
        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k", **options)
        once.enqueue()
        jobs.drain()

        clock.advance(ttl - 1)
        once.enqueue()
        assert jobs.process_once().status == "skipped-idempotent"

        clock.advance(1)
        once.enqueue()
        assert jobs.process_once().status == "acked"

    @pytest.mark.promise("S33")
    @pytest.mark.parametrize(("options", "ttl"), [({}, 3_600), ({"idempotency_ttl": 60}, 60)])
    def test_the_application_says_how_long_a_done_key_is_remembered_unless_the_call_does(
        self, open_app, clock, options, ttl
    ):
        jobs = open_app(idempotency_ttl="1h")

        @jobs.job
        def charge(): ...

        once = charge.using(idempotency_key="k", **options)
        once.enqueue()
        jobs.drain()

        statuses = []
        for seconds in (ttl - 1, 1):
            clock.advance(seconds)
            once.enqueue()
            statuses.append(jobs.process_once().status)
        assert statuses == ["skipped-idempotent", "acked"]

    @pytest.mark.promise("S33")
    def test_the_time_of_a_key_in_the_configuration_file_holds_for_built_jobs_too(self, open_app, clock, tmp_path):
        (tmp_path / "onward.toml").write_text('idempotency_ttl = "1h"')
        jobs = open_app(handlers={"shell": {"allow": ["/bin/echo"]}}, queue_handlers={"default": ["shell"]})
        once = jobs.define("shell", ["/bin/echo"]).idempotency_key("k")
        once.dispatch()
        jobs.drain()

        clock.advance(3_600)
        once.dispatch()

        assert jobs.process_once().status == "acked"

    @pytest.mark.promise("S33", "F07")
    def test_a_late_success_that_was_fenced_off_does_not_mark_the_key_done(self, jobs, claim_elsewhere, clock):
        ran = []

        @jobs.job
        def charge():
            ran.append(1)

        charge.using(idempotency_key="k").enqueue()
        (late,) = claim_elsewhere(jobs)
        clock.advance(31)
        jobs.reap()

        assert jobs.backend.ack(late).lease_lost
        jobs.drain()
        assert ran == [1]


class TestAUniqueKey:
    @pytest.mark.promise("S34", "F72")
    def test_a_second_job_with_a_live_key_is_answered_with_the_first(self, jobs):
        @jobs.job
        def sync(user: int): ...

        unique = sync.using(unique_key="user-7")
        first, second = unique.enqueue(7), unique.enqueue(7)

        assert (first.created, second.created) == (True, False)
        assert second.id == first.id
        assert jobs.counts()["available"] == 1

    @pytest.mark.promise("S34")
    def test_the_duplicate_is_told_as_an_event(self, jobs, listen):
        heard = listen(jobs)

        @jobs.job
        def sync(): ...

        unique = sync.using(unique_key="k")
        first = unique.enqueue()
        unique.enqueue()

        (event,) = heard(JobDeduplicated)
        assert event.existing_id == first.id

    @pytest.mark.promise("S34", "F71")
    def test_fifty_threads_that_enqueue_one_key_leave_one_job(self, jobs, in_threads):
        @jobs.job
        def sync(): ...

        unique = sync.using(unique_key="k")
        handles = in_threads(50, lambda _: unique.enqueue())

        assert len({handle.id for handle in handles}) == 1
        assert sum(handle.created for handle in handles) == 1
        assert jobs.counts()["available"] == 1

    @pytest.mark.promise("S34")
    @pytest.mark.parametrize("ending", ["completed", "discarded", "cancelled"])
    def test_a_finished_job_frees_its_key(self, jobs, ending):
        @jobs.job
        def sync(fails: bool):
            if fails:
                raise RuntimeError

        unique = sync.using(unique_key="k")
        first = unique.enqueue(ending == "discarded")
        if ending == "cancelled":
            first.cancel()
        jobs.drain()
        second = unique.enqueue(False)

        assert first.state() == ending
        assert second.created

    @pytest.mark.promise("S34", "F73")
    def test_a_job_that_crashed_too_often_frees_its_key(self, open_app, crash_elsewhere):
        jobs = open_app(max_crashes=1)

        @jobs.job
        def sync(): ...

        unique = sync.using(unique_key="k")
        unique.enqueue()
        crash_elsewhere(jobs)

        assert unique.enqueue().created

    @pytest.mark.promise("S34")
    @pytest.mark.parametrize("state", ["scheduled", "executing", "retryable"])
    def test_a_job_holds_its_key_for_as_long_as_it_lives(self, jobs, claim_elsewhere, state):
        @jobs.job(max_retries=1)
        def sync():
            raise RuntimeError

        first = sync.using(unique_key="k", delay=60 if state == "scheduled" else 0).enqueue()
        if state == "executing":
            claim_elsewhere(jobs)
        jobs.drain()
        second = sync.using(unique_key="k").enqueue()

        assert first.state() == state
        assert not second.created

    @pytest.mark.promise("S34")
    def test_a_waiting_job_is_replaced_if_that_is_asked_for(self, jobs):
        @jobs.job
        def sync(n: int) -> int:
            return n

        newest = sync.using(unique_key="k", unique_strategy="cancel_existing")
        first, second = newest.enqueue(1), newest.enqueue(2)
        jobs.drain()

        record = jobs.get(first.id)
        assert second.created
        assert (record.state, record.reason) == ("cancelled", f"replaced by {second.id}")
        assert second.result() == 2

    @pytest.mark.promise("S34")
    def test_a_running_job_that_is_replaced_is_asked_to_stop_and_gives_up_its_key(self, jobs, claim_elsewhere):
        @jobs.job
        def sync(): ...

        newest = sync.using(unique_key="k", unique_strategy="cancel_existing")
        first = newest.enqueue()
        (running,) = claim_elsewhere(jobs)
        second = newest.enqueue()

        assert second.created
        assert jobs.get(first.id).cancel_requested
        assert jobs.backend.nack(running, 0).state == "cancelled"
        assert sync.using(unique_key="k").enqueue().id == second.id

    @pytest.mark.promise("S34")
    def test_the_last_of_many_replacements_in_one_write_is_the_one_that_lives(self, jobs):
        @jobs.job
        def sync(n: int): ...

        newest = sync.using(unique_key="k", unique_strategy="cancel_existing")
        handles = newest.enqueue_many([(n,) for n in range(5)])

        assert [handle.state() for handle in handles] == ["cancelled"] * 4 + ["available"]

    @pytest.mark.promise("S34")
    def test_the_first_of_equal_keys_in_one_write_is_the_one_that_lives(self, jobs):
        @jobs.job
        def sync(n: int): ...

        handles = sync.using(unique_key="k").enqueue_many([(n,) for n in range(5)])

        assert {handle.id for handle in handles} == {handles[0].id}
        assert jobs.get(handles[0].id).payload == {"n": 0}

    @pytest.mark.promise("S34")
    def test_two_jobs_share_a_unique_key_only_if_they_ask_for_it(self, jobs):
        @jobs.job
        def sync(): ...

        @jobs.job
        def report(): ...

        own = [job.using(unique_key="k").enqueue().created for job in (sync, report)]
        common = [job.using(unique_key="k", key_scope="global").enqueue().created for job in (sync, report)]

        assert (own, common) == ([True, True], [True, False])


class TestASingleInstance:
    @pytest.mark.promise("S35")
    def test_a_second_one_waits_while_the_first_runs(self, jobs, claim_elsewhere):
        @jobs.job(single_instance=True)
        def rebuild(): ...

        rebuild.enqueue_many([(), ()])
        claim_elsewhere(jobs)
        result = jobs.process_once()

        assert (result.status, result.attempts) == ("snoozed", 0)

    @pytest.mark.promise("S35")
    def test_twenty_of_them_run_one_after_the_other_with_few_snoozes(self, jobs, in_threads, clock):
        running, most = [], []

        @jobs.job(single_instance=True)
        def rebuild(n: int) -> int:
            running.append(n)
            most.append(len(running))
            running.remove(n)
            return n

        handles = rebuild.enqueue_many([(n,) for n in range(20)])

        def help_out(_):
            while any(handle.state() != "completed" for handle in handles):
                if jobs.process_once().status == "empty":
                    clock.advance(0.1)

        in_threads(4, help_out)

        assert max(most) == 1
        assert [jobs.get(handle.id).attempts for handle in handles] == [1] * 20
        assert jobs.metrics.count("jobs_snoozed") <= 60

    @pytest.mark.promise("S35")
    def test_drained_by_one_they_never_meet(self, jobs):
        @jobs.job(single_instance=True)
        def rebuild(n: int): ...

        rebuild.enqueue_many([(n,) for n in range(20)])
        jobs.drain()

        assert jobs.counts()["completed"] == 20
        assert jobs.metrics.count("jobs_snoozed") == 0

    @pytest.mark.promise("S35")
    def test_the_end_of_one_makes_the_next_due(self, jobs, claim_elsewhere):
        """Else twenty of them would sleep for minutes between runs of nothing."""

        @jobs.job(single_instance=True)
        def rebuild(n: int): ...

        rebuild.enqueue_many([(n,) for n in range(20)])
        (running,) = claim_elsewhere(jobs)
        jobs.drain()
        assert jobs.counts()["scheduled"] == 19

        jobs.backend.ack(running)
        jobs.drain()

        assert jobs.counts()["completed"] == 20
        assert jobs.metrics.count("jobs_snoozed") == 19

    @pytest.mark.promise("S35")
    def test_one_that_crashed_keeps_no_other_waiting(self, jobs, claim_elsewhere, clock):
        @jobs.job(single_instance=True)
        def rebuild(n: int): ...

        rebuild.enqueue_many([(1,), (2,)])
        claim_elsewhere(jobs)
        clock.advance(31)
        jobs.reap()
        jobs.drain()

        assert jobs.counts()["completed"] == 2

    @pytest.mark.promise("S35")
    def test_other_jobs_are_not_held_up(self, jobs, claim_elsewhere):
        @jobs.job(single_instance=True)
        def rebuild(): ...

        @jobs.job(single_instance=True)
        def other(): ...

        rebuild.enqueue()
        claim_elsewhere(jobs)
        handle = other.enqueue()
        jobs.drain()

        assert handle.state() == "completed"

    @pytest.mark.promise("S35")
    def test_a_call_may_ask_for_it_and_a_call_may_do_without(self, jobs, claim_elsewhere):
        @jobs.job
        def plain(): ...

        @jobs.job(single_instance=True)
        def rebuild(): ...

        plain.using(single_instance=True).enqueue()
        rebuild.enqueue()
        claim_elsewhere(jobs, limit=2)
        plain.using(single_instance=True).enqueue()
        free = rebuild.using(single_instance=False).enqueue()
        jobs.drain()

        assert free.state() == "completed"
        assert jobs.metrics.count("jobs_snoozed") == 1
