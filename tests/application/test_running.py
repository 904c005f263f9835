"""Running jobs in this process: one cycle, all that is due, async handlers, and the lease that is kept meanwhile."""

import asyncio
import signal
import threading
import time
from datetime import timedelta

import pytest

from onward import BackendUnavailable, Discard, JobContext, NoDelay, Snooze
from onward.backend import Envelope
from onward.base.clock import SystemClock

SAID = {
    "acked": lambda jobs, ctx: None,
    "requeued": lambda jobs, ctx: 1 / 0,
    "dead-lettered": lambda jobs, ctx: Discard("no"),
    "snoozed": lambda jobs, ctx: Snooze(5),
    "cancelled": lambda jobs, ctx: jobs.cancel(ctx.id) and 1 / 0,
}


class TestOneCycle:
    def test_an_empty_queue_says_so(self, jobs):
        result = jobs.process_once()

        assert (result.status, result.attempts, result.error, result.id) == ("empty", 0, None, None)

    def test_a_success_says_so(self, jobs):
        @jobs.job
        def work(): ...

        handle = work.enqueue()
        result = jobs.process_once()

        assert (result.status, result.attempts, result.error, result.id) == ("acked", 1, None, handle.id)

    def test_a_failure_says_so_with_the_error(self, jobs):
        @jobs.job(max_retries=1)
        def work():
            raise ValueError("bad input")

        work.enqueue()
        result = jobs.process_once()

        assert (result.status, result.attempts) == ("requeued", 1)
        assert (result.error.kind, result.error.message) == ("ValueError", "bad input")

    @pytest.mark.parametrize("status", SAID)
    def test_each_outcome_of_a_run_has_its_word(self, jobs, status):
        @jobs.job(max_retries=5)
        def work(ctx: JobContext):
            return SAID[status](jobs, ctx)

        work.enqueue()

        assert jobs.process_once().status == status

    def test_a_run_that_lost_its_lease_has_its_word(self, jobs, clock):
        @jobs.job
        def work():
            clock.advance(31)
            jobs.reap()

        work.enqueue()

        assert jobs.process_once().status == "lease-lost"

    def test_what_is_not_run_has_its_words_too(self, jobs, clock):
        @jobs.job
        def work(): ...

        once = work.using(idempotency_key="k")
        once.enqueue()
        jobs.process_once()
        once.enqueue()
        assert jobs.process_once().status == "skipped-idempotent"

        jobs.enqueue("unknown_here")
        assert jobs.process_once().status == "parked"

        jobs.backend.enqueue([Envelope("0" * 32, "default", b"noise", job="?", enqueued_at=0, max_crashes=3)])
        assert jobs.process_once().status == "rejected"

    def test_only_the_queue_that_was_asked_for_is_served(self, jobs):
        @jobs.job(queue="mail")
        def work(): ...

        work.enqueue()

        assert jobs.process_once("default").status == "empty"
        assert jobs.process_once("mail").status == "acked"


class TestDraining:
    def test_everything_due_in_every_queue_is_run(self, jobs):
        @jobs.job
        def work(): ...

        handles = [work.using(queue=queue).enqueue() for queue in ("a", "b", "c", "a")]

        assert jobs.drain() == 4
        assert {handle.state() for handle in handles} == {"completed"}

    def test_only_named_queues_are_run_if_some_are_named(self, jobs):
        @jobs.job
        def work(): ...

        handles = [work.using(queue=queue).enqueue() for queue in ("a", "b", "c")]

        assert jobs.drain("c", "a") == 2
        assert [handle.state() for handle in handles] == ["completed", "available", "completed"]

    def test_jobs_that_jobs_enqueue_are_run_too_even_in_queues_not_seen_before(self, jobs):
        ran = []

        @jobs.job
        def work(depth: int):
            ran.append(depth)
            if depth:
                work.using(queue=f"depth-{depth}").enqueue(depth - 1)

        work.enqueue(5)

        assert jobs.drain() == 6
        assert ran == [5, 4, 3, 2, 1, 0]

    def test_a_retry_without_delay_is_run_in_the_same_drain(self, jobs):
        @jobs.job(max_retries=3, retry=NoDelay())
        def work():
            raise RuntimeError

        handle = work.enqueue()

        assert jobs.drain() == 4
        assert handle.state() == "discarded"

    def test_what_is_due_later_is_left_alone(self, jobs):
        @jobs.job(max_retries=3)
        def work(fails: bool):
            if fails:
                raise RuntimeError

        later, retried = work.using(delay=3600).enqueue(False), work.enqueue(True)

        assert jobs.drain() == 1
        assert (later.state(), retried.state()) == ("scheduled", "retryable")

    def test_draining_nothing_ends_at_once(self, jobs):
        assert jobs.drain() == 0

    def test_threads_that_drain_together_run_every_job_once(self, jobs, in_threads):
        ran = []

        @jobs.job
        def work(n: int):
            ran.append(n)

        work.enqueue_many([(n,) for n in range(200)])
        cycles = in_threads(4, lambda _: jobs.drain())

        assert sorted(ran) == list(range(200))
        assert sum(cycles) == 200


class TestAsyncHandlers:
    def test_an_async_handler_is_awaited(self, jobs):
        @jobs.job
        async def work(ctx: JobContext, n: int) -> int:
            await asyncio.sleep(0)
            return n + ctx.attempt

        handle = work.enqueue(1)
        jobs.drain()

        assert handle.result() == 2

    def test_all_of_them_share_one_loop(self, jobs):
        loops = set()

        @jobs.job
        async def work():
            loops.add(asyncio.get_running_loop())

        work.enqueue_many([(), ()])
        jobs.drain()

        assert len(loops) == 1

    def test_one_that_takes_too_long_is_cancelled_and_has_failed(self, jobs):
        cancelled = []

        @jobs.job(timeout=0.05, max_retries=1)
        async def work():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        handle = work.enqueue()

        assert jobs.process_once().status == "requeued"
        assert cancelled == [True]
        error = jobs.get(handle.id).errors[-1]
        assert (error.kind, error.message) == (
            "onward.errors.JobTimeout",
            "the job's task was cancelled at its time-out of 0.05 s",
        )

    def test_its_own_time_out_is_its_own(self, jobs):
        @jobs.job(timeout=60)
        async def work():
            raise TimeoutError("mine")

        handle = work.enqueue()
        jobs.drain()

        assert jobs.get(handle.id).errors[-1].message == "mine"

    def test_one_may_enqueue_and_await_other_jobs(self, jobs):
        @jobs.job
        async def child(n: int) -> int:
            return n

        @jobs.job
        async def parent() -> str:
            return (await child.aenqueue(7)).id

        handle = parent.enqueue()
        jobs.drain()

        assert jobs.handle(handle.result()).result() == 7

    def test_one_that_was_interrupted_is_ended_before_its_job_is_given_back(self, jobs, ctrl_c):
        """Ctrl-C reaches the thread that waits for the handler, not the handler."""
        started, ended = threading.Event(), []

        @jobs.job
        async def work(ctx: JobContext):
            if ctx.delivery > 1:
                return
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(jobs.get(ctx.id).state)

        handle = work.enqueue()
        main = threading.main_thread().ident
        threading.Thread(target=lambda: started.wait(20) and signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            jobs.drain()

        assert ended == ["executing"]
        record = jobs.get(handle.id)
        assert (record.state, record.attempts, record.interruptions) == ("available", 0, 1)
        jobs.drain()
        assert handle.state() == "completed"


class CountsExtensions:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extensions = []
        self.sessions = []

    def extend(self, owner, *, sample=None):
        renewal = super().extend(owner, sample=sample)
        self.extensions.append(owner)
        return renewal

    def open_session(self, session, **more):
        self.sessions.append(session.owner)
        return super().open_session(session, **more)


class TestTheLease:
    def test_a_handler_that_takes_longer_than_its_lease_keeps_it(self, open_app_on, eventually):
        jobs = open_app_on(CountsExtensions, lease_for=1, clock=SystemClock())

        @jobs.job
        def slow(ctx: JobContext) -> bool:
            begun = time.monotonic()
            eventually(lambda: time.monotonic() - begun > 1.2 and len(jobs.backend.extensions) >= 3)
            jobs.reap()
            return ctx.lost

        handle = slow.enqueue()

        assert jobs.process_once().status == "acked"
        assert handle.result() is False
        assert jobs.get(handle.id).crashes == 0

    def test_an_async_handler_keeps_it_too(self, open_app_on, eventually):
        jobs = open_app_on(CountsExtensions, lease_for=1, clock=SystemClock())

        @jobs.job
        async def slow() -> int:
            await asyncio.to_thread(eventually, lambda: len(jobs.backend.extensions) >= 2)
            return len(jobs.backend.extensions)

        handle = slow.enqueue()
        jobs.process_once()

        assert handle.result() >= 2

    def test_a_handler_whose_lease_was_lost_is_told(self, open_app, clock, eventually):
        jobs = open_app(lease_for=1)

        @jobs.job
        def slow(ctx: JobContext):
            clock.advance(2)
            jobs.reap()
            eventually(lambda: ctx.lost)

        slow.enqueue()

        assert jobs.process_once().status == "lease-lost"

    def test_quick_jobs_cost_no_renewals(self, open_app_on):
        jobs = open_app_on(CountsExtensions)

        @jobs.job
        def quick(): ...

        quick.enqueue_many([()] * 100)
        jobs.drain()

        assert jobs.backend.extensions == []

    def test_threads_that_start_together_share_one_session(self, open_app_on, in_threads):
        class Slow(CountsExtensions):
            def open_session(self, session, **more):
                time.sleep(0.02)  # so that the others are on their way, too
                return super().open_session(session, **more)

        jobs = open_app_on(Slow)
        in_threads(8, lambda _: jobs.process_once())

        assert len(jobs.backend.sessions) == 1

    def test_a_program_that_stood_still_renews_its_session_before_it_takes_a_job(self, jobs, clock):
        """Suspended longer than its lease, it would start jobs that the next sweep gives to another worker."""

        @jobs.job
        def work(ctx: JobContext) -> int:
            return len(jobs.reap())

        jobs.process_once()
        handle = work.enqueue()
        clock.advance(300)

        assert jobs.process_once().status == "acked"
        assert handle.result() == 0

    def test_a_session_that_was_reaped_is_replaced(self, jobs, clock):
        @jobs.job
        def work(): ...

        jobs.process_once()
        clock.advance(31)
        jobs.reap()
        work.enqueue()

        assert jobs.process_once().status == "acked"


class Flaky:
    """A store whose answers get lost, as often as `lost` says: the turn was made, and no answer comes."""

    lost_claims = 0
    lost_settlements = 0
    unheard_settlements = 0

    def turn(self, turn):
        cls = type(self)
        if turn.settlements and cls.unheard_settlements:
            cls.unheard_settlements -= 1
            raise BackendUnavailable("the store is away")
        result = super().turn(turn)
        if turn.settlements and cls.lost_settlements:
            cls.lost_settlements -= 1
            raise BackendUnavailable("the answer was lost")
        if result.leases and cls.lost_claims:
            cls.lost_claims -= 1
            raise BackendUnavailable("the answer was lost")
        return result


@pytest.fixture
def flaky(open_app_on, monkeypatch):
    jobs = open_app_on(Flaky)
    backend = type(jobs.backend)
    return jobs, lambda name, count=1: setattr(backend, name, count)


class TestALostAnswer:
    """The store did what it was asked, or did not: the worker cannot know.  No job may be stranded by that."""

    @pytest.mark.promise("F70")
    def test_a_job_whose_claim_was_not_heard_of_is_taken_again(self, flaky):
        jobs, lose = flaky

        @jobs.job
        def work(): ...

        handle = work.enqueue()
        lose("lost_claims")
        with pytest.raises(BackendUnavailable):
            jobs.process_once()
        assert handle.state() == "executing"

        assert jobs.process_once().status == "acked"
        record = jobs.get(handle.id)
        assert (record.state, record.attempts, record.crashes, record.interruptions) == ("completed", 1, 0, 1)

    @pytest.mark.promise("F70")
    def test_an_outcome_whose_answer_was_lost_is_told_again_and_counts_once(self, flaky):
        jobs, lose = flaky
        ran = []

        @jobs.job
        def work():
            ran.append(1)

        handle = work.enqueue()
        lose("lost_settlements")

        assert jobs.process_once().status == "acked"
        assert (ran, handle.state()) == ([1], "completed")
        assert jobs.metrics.count("jobs_succeeded") == 1

    @pytest.mark.promise("F70")
    def test_an_outcome_that_was_not_heard_is_told_again(self, flaky):
        jobs, lose = flaky
        ran = []

        @jobs.job(max_retries=1)
        def work():
            ran.append(1)
            raise RuntimeError

        handle = work.enqueue()
        lose("unheard_settlements", 3)

        assert jobs.process_once().status == "requeued"
        assert (ran, jobs.get(handle.id).attempts) == ([1], 1)

    @pytest.mark.promise("F70")
    def test_a_job_whose_outcome_could_not_be_told_at_all_is_given_back_unharmed(self, flaky, monkeypatch):
        monkeypatch.setattr("onward.worker.inline._PATIENCE", 0)
        jobs, lose = flaky

        @jobs.job
        def work(): ...

        handle = work.enqueue()
        lose("unheard_settlements")
        with pytest.raises(BackendUnavailable):
            jobs.process_once()
        assert handle.state() == "executing"

        assert jobs.process_once().status == "acked"
        record = jobs.get(handle.id)
        assert (record.attempts, record.crashes, record.interruptions) == (1, 0, 1)

    def test_a_neighbour_that_runs_meanwhile_keeps_its_lease(self, flaky, in_threads):
        """One thread's lost answer must not take away the job that another thread runs."""
        jobs, lose = flaky
        running, go_on = threading.Event(), threading.Event()

        @jobs.job
        def slow():
            running.set()
            go_on.wait(20)

        @jobs.job(queue="quick")
        def quick(): ...

        slow_handle, quick_handle = slow.enqueue(), quick.enqueue()

        def body(number):
            if number == 0:
                return jobs.process_once("default").status
            running.wait(20)
            lose("lost_claims")
            with pytest.raises(BackendUnavailable):
                jobs.process_once("quick")
            jobs.process_once("quick")
            go_on.set()
            return None

        statuses = in_threads(2, body)
        jobs.drain()

        assert statuses[0] == "acked"
        assert (slow_handle.state(), quick_handle.state()) == ("completed", "completed")
        assert jobs.get(slow_handle.id).attempts == 1


class TestClosing:
    def test_closing_twice_is_fine(self, open_app):
        jobs = open_app()
        jobs.close()
        jobs.close()

    @pytest.mark.parametrize("store", ["sqlite"])
    def test_a_closed_application_leaves_no_session_behind(self, open_app, clock):
        first, second = open_app(), open_app()
        first.process_once()
        first.close()
        clock.advance(timedelta(days=1))

        assert second.reap() == []

    @pytest.mark.parametrize("store", ["sqlite"])
    def test_a_job_may_outlive_the_application_that_enqueued_it(self, open_app):
        first = open_app()

        @first.job
        def work(): ...

        handle = work.enqueue()
        first.close()
        second = open_app()

        assert second.get(handle.id).state == "available"

    def test_a_closed_application_refuses_to_work(self, open_app):
        jobs = open_app()

        @jobs.job
        def work(): ...

        jobs.close()

        with pytest.raises(Exception, match="closed"):
            work.enqueue()
        with pytest.raises(Exception, match="closed"):
            jobs.process_once()
