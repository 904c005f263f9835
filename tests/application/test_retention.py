"""How long finished jobs are kept, and what becomes of jobs that were not started in time."""

from datetime import timedelta

import pytest

from onward import JobContext, NoDelay
from onward.backend import Settlement
from onward.errors import OptionError

DAY = 86_400


def one_of_each(jobs):
    """A completed, a cancelled and a discarded job."""

    @jobs.job
    def work(fails: bool = False):
        if fails:
            raise RuntimeError

    handles = {"completed": work.enqueue(), "cancelled": work.enqueue(), "discarded": work.enqueue(True)}
    handles["cancelled"].cancel()
    jobs.drain()
    return handles


def kept(jobs, handles):
    return {state for state, handle in handles.items() if jobs.get(handle.id) is not None}


class TestPruning:
    @pytest.mark.promise("F62", "S45")
    def test_completed_jobs_are_kept_a_day_cancelled_ones_a_week_dead_ones_for_ever(self, jobs, clock):
        handles = one_of_each(jobs)
        seen = []
        for days in (1, 0.001, 6, 1000):
            clock.advance(days * DAY)
            seen.append((jobs.prune(), kept(jobs, handles)))

        assert seen == [
            (0, {"completed", "cancelled", "discarded"}),
            (1, {"cancelled", "discarded"}),
            (1, {"discarded"}),
            (0, {"discarded"}),
        ]

    def test_each_state_can_have_a_retention_of_its_own(self, open_app, clock):
        jobs = open_app(retention={"completed": None, "discarded": "1h"})
        handles = one_of_each(jobs)
        clock.advance(8 * DAY)

        assert jobs.prune() == 2
        assert kept(jobs, handles) == {"completed"}

    @pytest.mark.promise("S24")
    def test_pruning_by_hand_takes_completed_jobs_only_and_only_those_before_the_instant(self, jobs, clock):
        handles = one_of_each(jobs)

        assert jobs.prune(older_than=clock.now()) == 0
        assert jobs.prune(older_than=clock.now() + timedelta(seconds=1)) == 1
        assert kept(jobs, handles) == {"cancelled", "discarded"}

    @pytest.mark.promise("F62")
    def test_pruning_goes_through_more_jobs_than_one_batch_holds(self, jobs, clock):
        @jobs.job
        def work(): ...

        work.enqueue_many([()] * 1_300)
        for record in jobs.list(limit=2_000)[::2]:
            jobs.cancel(record.id)
        jobs.drain()
        clock.advance(1)

        assert jobs.prune(older_than=clock.now()) == 650
        assert jobs.counts()["cancelled"] == 650

    def test_live_jobs_are_never_pruned(self, jobs, clock):
        @jobs.job
        def work(): ...

        handle = work.using(delay=10 * DAY).enqueue()
        clock.advance(9 * DAY)
        jobs.prune()

        assert handle.state() == "scheduled"


class TestARetentionOfNothing:
    @pytest.fixture
    def jobs(self, open_app):
        return open_app(retention={"completed": 0})

    @pytest.fixture
    def work(self, jobs):
        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext, secret: str) -> str:
            if ctx.attempt == 1:
                raise RuntimeError("once")
            return secret

        return work

    def test_payload_and_result_go_with_the_success(self, jobs, work):
        handle = work.enqueue("hunter2")
        jobs.drain()

        record = handle.record()
        assert (record.state, record.payload, record.result, record.raw) == ("completed", None, None, b"")
        assert handle.result() is None

    def test_what_is_left_is_neither_counted_nor_listed(self, jobs, work):
        work.enqueue("hunter2")
        jobs.drain()

        assert sum(jobs.counts().values()) == 0
        assert jobs.list() == []

    @pytest.mark.promise("F62")
    def test_what_is_left_goes_after_ten_minutes(self, jobs, work, clock):
        handle = work.enqueue("hunter2")
        jobs.drain()

        clock.advance(600)
        assert jobs.prune() == 0
        clock.advance(1)
        assert jobs.prune() == 1
        assert jobs.get(handle.id) is None

    def test_what_is_left_is_evidence_for_a_settlement_whose_answer_was_lost(self, jobs, work, claim_elsewhere):
        work.enqueue("hunter2")
        (lease,) = claim_elsewhere(jobs)
        ack = Settlement.ack(lease, b'"hunter2"', keep=False)
        jobs.backend.settle([ack])

        assert jobs.backend.settle([ack])[0].already_applied

    def test_dead_and_cancelled_jobs_are_kept_as_ever(self, jobs):
        handles = one_of_each(jobs)

        assert handles["discarded"].record().payload == {"fails": True}
        assert handles["cancelled"].record().payload == {}


class TestExpiry:
    @pytest.fixture
    def work(self, jobs):
        @jobs.job(expires="1h")
        def work(): ...

        return work

    def test_a_job_not_started_in_time_is_cancelled_and_does_not_run(self, jobs, work, clock):
        handle = work.enqueue()
        clock.advance(3600)

        assert jobs.drain() == 0
        record = jobs.get(handle.id)
        assert (record.state, record.reason, record.attempts) == ("cancelled", "expired", 0)

    def test_a_job_started_in_time_runs(self, jobs, work, clock):
        handle = work.enqueue()
        clock.advance(3599)
        jobs.drain()

        assert handle.state() == "completed"

    def test_a_call_may_name_another_length_or_an_instant(self, jobs, work, clock):
        soon = work.using(expires=10).enqueue()
        later = work.using(expires=clock.now() + timedelta(hours=2)).enqueue()
        clock.advance(3600)
        jobs.drain()

        assert (soon.state(), later.state()) == ("cancelled", "completed")

    def test_a_delayed_job_can_expire_before_it_is_due(self, jobs, work, clock):
        handle = work.using(delay="2h").enqueue()
        clock.advance(2 * 3600)
        jobs.drain()

        assert handle.state() == "cancelled"

    def test_a_job_that_is_retried_too_late_expires(self, jobs, clock):
        @jobs.job(max_retries=5, expires=60)
        def failing():
            raise RuntimeError

        handle = failing.enqueue()
        jobs.process_once()
        clock.advance(60)
        jobs.drain()

        record = jobs.get(handle.id)
        assert (record.state, record.reason, record.attempts) == ("cancelled", "expired", 1)

    def test_expired_jobs_hold_up_no_other(self, jobs, work, clock):
        work.enqueue_many([()] * 30)
        clock.advance(3600)
        fresh = work.enqueue()

        assert jobs.process_once().status == "acked"
        assert fresh.state() == "completed"


class TestByAge:
    def test_an_age_may_be_a_length_of_time(self, jobs, clock):
        handles = one_of_each(jobs)
        clock.advance(2 * DAY)

        assert jobs.prune(older_than="3d") == 0
        assert jobs.prune(older_than=timedelta(days=1)) == 1
        assert kept(jobs, handles) == {"cancelled", "discarded"}

    def test_completed_jobs_before_an_instant(self, jobs, clock):
        handles = one_of_each(jobs)
        clock.advance(2 * DAY)

        assert jobs.prune(completed_before=clock.now() - timedelta(days=3)) == 0
        assert jobs.prune(completed_before=clock.now()) == 1
        assert kept(jobs, handles) == {"cancelled", "discarded"}
        with pytest.raises(OptionError, match="leave out older_than and state"):
            jobs.prune(completed_before=clock.now(), state="cancelled")

    def test_states_and_queue_narrow_what_goes(self, jobs, clock):
        handles = one_of_each(jobs)
        clock.advance(2 * DAY)

        assert jobs.prune(older_than="1d", state="discarded", queue="elsewhere") == 0
        assert jobs.prune(older_than="1d", state=["discarded", "cancelled"]) == 2
        assert kept(jobs, handles) == {"completed"}

    def test_without_an_age_queue_and_state_narrow_the_retention(self, jobs, clock):
        handles = one_of_each(jobs)
        clock.advance(8 * DAY)

        assert jobs.prune(state="cancelled", queue="default") == 1
        assert kept(jobs, handles) == {"completed", "discarded"}

    def test_a_dry_run_removes_nothing_and_tells_of_queues_and_states(self, jobs, clock):
        handles = one_of_each(jobs)
        clock.advance(2 * DAY)

        told = jobs.prune(older_than="1d", state=["completed", "discarded", "cancelled"], dry_run=True)

        assert told == 3
        assert told.by_queue == {("default", state): 1 for state in ("cancelled", "completed", "discarded")}
        assert kept(jobs, handles) == {"completed", "cancelled", "discarded"}

    def test_only_finished_states_can_be_pruned(self, jobs):
        with pytest.raises(OptionError, match=r"not those that are executing.*jobs\.cancel"):
            jobs.prune(state="executing")
        with pytest.raises(OptionError, match="there is no state 'complete'"):
            jobs.prune(state="complete")

    def test_dead_letters_can_be_purged_by_age(self, jobs, clock):
        first = one_of_each(jobs)
        clock.advance(2 * DAY)

        @jobs.job
        def broken():
            raise RuntimeError

        second = {"discarded": broken.enqueue()}
        jobs.drain()

        told = jobs.dead_letters.purge(older_than="1d", dry_run=True)
        assert (told, told.by_queue) == (1, {("default", "discarded"): 1})
        assert jobs.dead_letters.purge(older_than="1d") == 1
        assert "discarded" not in kept(jobs, first)
        assert "discarded" in kept(jobs, second)

    def test_named_dead_letters_that_are_too_young_stay(self, jobs, clock):
        handles = one_of_each(jobs)
        ids = [each.id for each in jobs.dead_letters.list()]

        assert jobs.dead_letters.purge(ids, older_than="1d") == 0
        assert jobs.dead_letters.purge(ids, dry_run=True) == 1
        assert jobs.dead_letters.purge(ids) == 1
        assert kept(jobs, handles) == {"completed", "cancelled"}
