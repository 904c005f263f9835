"""What people ask of jobs: cancel, retry, pause, reap; and that a race with a worker has one winner."""

import pytest

from onward import Fixed, JobContext, NoDelay, Retry, Snooze
from onward.backend import Claim
from onward.errors import InvalidName
from onward.telemetry import JobCancelled, JobRescued, QueuePaused, QueueResumed


@pytest.fixture
def work(jobs):
    @jobs.job(max_retries=2, retry=Fixed(60))
    def work(fails: bool = False):
        if fails:
            raise RuntimeError

    return work


class TestCancelling:
    @pytest.mark.parametrize("state", ["available", "scheduled", "retryable"])
    def test_a_waiting_job_is_cancelled_at_once_and_never_runs(self, jobs, work, state, clock):
        handle = work.using(delay=60 if state == "scheduled" else 0).enqueue(state == "retryable")
        if state == "retryable":
            jobs.drain()
        assert handle.state() == state

        assert jobs.cancel(handle.id, "not needed") == "cancelled"
        clock.advance(3600)
        assert jobs.drain() == 0
        record = jobs.get(handle.id)
        assert (record.state, record.reason) == ("cancelled", "not needed")

    @pytest.mark.parametrize("ending", ["completed", "discarded", "cancelled"])
    def test_a_finished_job_cannot_be_cancelled(self, jobs, work, ending):
        handle = work.using(max_retries=0).enqueue(ending == "discarded")
        if ending == "cancelled":
            jobs.cancel(handle.id)
        jobs.drain()

        assert jobs.cancel(handle.id) is None
        assert handle.state() == ending

    def test_a_job_that_is_not_there_cannot_be_cancelled(self, jobs):
        assert jobs.cancel("0" * 32) is None

    @pytest.mark.promise("F87")
    def test_a_running_job_is_only_asked(self, jobs, work, claim_elsewhere):
        handle = work.enqueue()
        claim_elsewhere(jobs)

        assert jobs.cancel(handle.id) == "executing"
        record = jobs.get(handle.id)
        assert (record.state, record.cancel_requested) == ("executing", True)

    @pytest.mark.promise("F87")
    def test_a_success_that_comes_first_wins(self, jobs):
        @jobs.job
        def work(ctx: JobContext) -> str:
            jobs.cancel(ctx.id)
            return "done all the same"

        handle = work.enqueue()

        assert jobs.process_once().status == "acked"
        assert handle.result() == "done all the same"

    @pytest.mark.promise("F87")
    @pytest.mark.parametrize("how", [RuntimeError(), Retry(after=5), Snooze(5)], ids=lambda how: type(how).__name__)
    def test_a_job_that_was_asked_and_does_not_succeed_is_cancelled(self, jobs, how):
        @jobs.job(max_retries=5)
        def work(ctx: JobContext):
            jobs.cancel(ctx.id, "enough")
            raise how

        handle = work.enqueue()
        result = jobs.process_once()

        record = jobs.get(handle.id)
        assert (result.status, record.state, record.reason) == ("cancelled", "cancelled", "enough")

    @pytest.mark.promise("F87", "S30")
    def test_a_cancelled_run_counts_as_cancelled_and_not_as_failed(self, jobs, listen):
        heard = listen(jobs)

        @jobs.job(max_retries=5)
        def work(ctx: JobContext):
            jobs.cancel(ctx.id)
            raise RuntimeError

        work.enqueue()
        jobs.process_once()

        count = jobs.metrics.count
        assert (count("jobs_cancelled"), count("jobs_failed"), count("jobs_requeued")) == (1, 0, 0)
        assert len(heard(JobCancelled)) == 1

    def test_a_job_that_was_asked_and_crashes_is_cancelled(self, jobs, work, claim_elsewhere, clock, listen):
        heard = listen(jobs)
        handle = work.enqueue()
        claim_elsewhere(jobs)
        jobs.cancel(handle.id)
        clock.advance(31)
        jobs.reap()

        assert handle.state() == "cancelled"
        assert [event.id for event in heard(JobCancelled)] == [handle.id]
        assert heard(JobRescued) == []
        assert jobs.metrics.count("jobs_cancelled") == 1

    @pytest.mark.promise("F86")
    def test_a_replayed_job_does_not_remember_that_it_was_to_be_cancelled(self, jobs, work, claim_elsewhere):
        handle = work.enqueue()
        (lease,) = claim_elsewhere(jobs)
        jobs.cancel(handle.id)
        jobs.backend.nack(lease, 0)
        assert handle.state() == "cancelled"

        jobs.retry(handle.id)
        assert not jobs.get(handle.id).cancel_requested
        jobs.drain()
        assert handle.state() == "completed"

    def test_a_running_handler_is_told_to_stop(self, open_app, eventually, in_threads):
        jobs = open_app(lease_for=1)

        @jobs.job
        def work(ctx: JobContext) -> bool:
            jobs.cancel(ctx.id)
            return eventually(lambda: ctx.cancelled)

        handle = work.enqueue()
        jobs.process_once()

        assert handle.result() is True


class TestRetrying:
    @pytest.mark.parametrize("state", ["scheduled", "retryable"])
    def test_a_waiting_job_is_made_due_now(self, jobs, work, state):
        handle = work.using(delay=60 if state == "scheduled" else 0).enqueue(state == "retryable")
        jobs.drain()
        assert handle.state() == state

        assert jobs.retry(handle.id)
        assert handle.state() == "available"

    def test_a_job_that_is_retried_by_hand_keeps_its_budget(self, jobs, work):
        handle = work.enqueue(True)
        for _ in range(3):
            jobs.process_once()
            jobs.retry(handle.id)

        record = jobs.get(handle.id)
        assert (record.state, len(record.errors)) == ("available", 3)

    @pytest.mark.parametrize("ending", ["discarded", "cancelled"])
    def test_a_dead_or_cancelled_job_lives_again(self, jobs, work, ending):
        handle = work.using(max_retries=0).enqueue(ending == "discarded")
        if ending == "cancelled":
            jobs.cancel(handle.id)
        jobs.drain()

        assert jobs.retry(handle.id)
        record = jobs.get(handle.id)
        assert (record.state, record.attempts, record.reason, record.finished_at) == ("available", 0, None, None)

    @pytest.mark.promise("F75")
    def test_a_running_job_cannot_be_retried(self, jobs, work, claim_elsewhere):
        handle = work.enqueue()
        (lease,) = claim_elsewhere(jobs)

        assert jobs.retry(handle.id) is False
        assert jobs.backend.ack(lease).applied

    def test_a_completed_job_cannot_be_retried(self, jobs, work):
        handle = work.enqueue()
        jobs.drain()

        assert jobs.retry(handle.id) is False
        assert handle.state() == "completed"

    def test_an_available_job_or_none_cannot_be_retried(self, jobs, work):
        assert jobs.retry(work.enqueue().id) is False
        assert jobs.retry("0" * 32) is False

    @pytest.mark.promise("F20")
    def test_a_late_worker_of_an_earlier_life_cannot_touch_the_new_one(self, open_app, claim_elsewhere, clock):
        jobs = open_app(max_crashes=1)

        @jobs.job
        def work(): ...

        handle = work.enqueue()
        (late,) = claim_elsewhere(jobs)
        clock.advance(31)
        jobs.reap()
        jobs.retry(handle.id)
        (fresh,) = claim_elsewhere(jobs, owner="fresh")

        for settle in (jobs.backend.ack, jobs.backend.release):
            assert settle(late).lease_lost
        assert handle.state() == "executing"
        assert jobs.backend.ack(fresh).applied


class TestPausing:
    def test_a_paused_queue_gives_nothing_until_it_is_resumed(self, jobs, work):
        handle = work.enqueue()
        assert jobs.pause("default") is True
        assert jobs.process_once().status == "empty"
        assert jobs.drain() == 0

        assert jobs.resume("default") is True
        jobs.drain()
        assert handle.state() == "completed"

    def test_pausing_twice_changes_nothing(self, jobs):
        assert [jobs.pause("mail"), jobs.pause("mail")] == [True, False]
        assert [jobs.resume("mail"), jobs.resume("mail")] == [True, False]

    def test_other_queues_go_on(self, jobs, work):
        jobs.pause("default")
        handle = work.using(queue="mail").enqueue()
        jobs.drain()

        assert handle.state() == "completed"

    def test_jobs_are_accepted_and_cancelled_as_ever(self, jobs, work):
        jobs.pause("default")
        handle = work.enqueue()

        assert jobs.cancel(handle.id) == "cancelled"

    def test_a_running_job_goes_on(self, jobs):
        @jobs.job
        def work():
            jobs.pause("default")

        handle = work.enqueue()
        jobs.drain()

        assert handle.state() == "completed"

    def test_it_is_told_when_it_changes_something(self, jobs, listen):
        heard = listen(jobs)
        for act in (jobs.pause, jobs.pause, jobs.resume, jobs.resume):
            act("mail")

        assert [type(event) for event in heard()] == [QueuePaused, QueueResumed]

    @pytest.mark.parametrize("store", ["sqlite"])
    def test_it_holds_for_everybody_and_across_restarts(self, open_app):
        first = open_app()
        first.pause("default")
        first.close()
        second = open_app()

        assert [(queue.name, queue.paused) for queue in second.queues()] == [("default", True)]


class TestReaping:
    @pytest.mark.promise("S32")
    def test_the_job_of_a_dead_worker_is_given_back(self, jobs, work, claim_elsewhere, clock):
        handle = work.enqueue()
        claim_elsewhere(jobs)
        assert jobs.reap() == []

        clock.advance(31)
        (reaped,) = jobs.reap()

        assert (reaped.id, reaped.to, reaped.crashes) == (handle.id, "retryable", 1)
        jobs.drain()
        assert handle.state() == "completed"

    @pytest.mark.promise("S32", "S8")
    def test_a_job_that_kills_its_workers_is_given_up(self, open_app, crash_elsewhere, clock):
        jobs = open_app(max_crashes=2)

        @jobs.job(max_retries=9)
        def deadly(): ...

        handle = deadly.enqueue()
        for _ in range(2):
            crash_elsewhere(jobs)
            clock.advance(600)

        record = jobs.get(handle.id)
        assert (record.state, record.attempts, record.crashes) == ("discarded", 0, 2)
        assert record.reason.startswith("crashed 2 times")

    def test_a_job_may_allow_itself_fewer_crashes(self, jobs, crash_elsewhere):
        @jobs.job(max_crashes=1)
        def deadly(): ...

        handle = deadly.enqueue()
        crash_elsewhere(jobs)

        assert handle.state() == "discarded"

    def test_crashes_and_retries_are_counted_apart(self, jobs, crash_elsewhere, clock):
        @jobs.job(max_retries=2, retry=NoDelay())
        def unlucky(ctx: JobContext):
            if ctx.attempt <= 2:
                raise RuntimeError

        handle = unlucky.enqueue()
        crash_elsewhere(jobs)
        jobs.process_once()
        crash_elsewhere(jobs)
        clock.advance(600)
        jobs.drain()

        record = jobs.get(handle.id)
        assert (record.state, record.attempts, record.crashes) == ("completed", 3, 2)

    def test_rescues_are_counted_and_told(self, jobs, work, crash_elsewhere, listen):
        heard = listen(jobs)
        handle = work.enqueue()
        crash_elsewhere(jobs)

        assert jobs.metrics.count("jobs_crashed", "default") == 1
        assert [(event.id, event.crashes) for event in heard(JobRescued)] == [(handle.id, 1)]

    @pytest.mark.promise("F07")
    def test_a_run_that_lost_its_lease_changes_nothing(self, jobs, clock):
        """It took longer than its lease, another worker ran the job meanwhile, and now both come to an end."""

        @jobs.job
        def work(ctx: JobContext) -> int:
            if ctx.delivery == 1:
                clock.advance(31)
                jobs.reap()
                jobs.process_once()
            return ctx.delivery

        handle = work.enqueue()
        result = jobs.process_once()

        record = jobs.get(handle.id)
        assert result.status == "lease-lost"
        assert (record.state, record.result, record.attempts, record.crashes) == ("completed", 2, 1, 1)
        assert jobs.metrics.count("leases_lost") == 1
        assert jobs.metrics.count("jobs_succeeded") == 1


def test_the_jobs_of_dead_workers_can_be_given_back_one_queue_at_a_time(jobs, clock):
    mail, news = (jobs.enqueue("work", queue=queue) for queue in ("mail", "news"))
    for queue in ("mail", "news"):
        jobs.backend.claim(Claim(queues=(queue,), owner=f"dead-{queue}"))
    clock.advance(31)

    assert [each.id for each in jobs.reap(queue="mail")] == [mail.id]
    assert (mail.state(), news.state()) == ("retryable", "executing")
    assert jobs.metrics.count("jobs_crashed", "mail") == 1
    with pytest.raises(InvalidName):
        jobs.reap("a queue")
