"""What a handler is told of its run, and what it may say while it runs."""

from datetime import timedelta

import pytest

from onward import BackendUnavailable, JobContext
from onward.client.record import Progress


def test_the_context_tells_everything_about_the_run(jobs, clock):
    seen = {}

    @jobs.job(queue="mail", max_retries=3, timeout=30, meta={"k": 1})
    def work(ctx: JobContext, n: int):
        seen.update({name: getattr(ctx, name) for name in ("id", "job", "name", "queue", "attempt", "max_retries")})
        seen.update(payload=ctx.payload, meta=ctx.meta, delivery=ctx.delivery, deadline=ctx.deadline)
        seen.update(cancelled=ctx.cancelled, lost=ctx.lost, last=ctx.is_last_attempt)

    handle = work.enqueue(7)
    jobs.drain()

    assert seen == {
        "id": handle.id,
        "job": "work",
        "name": "work",
        "queue": "mail",
        "attempt": 1,
        "max_retries": 3,
        "payload": {"n": 7},
        "meta": {"k": 1},
        "delivery": 1,
        "deadline": clock.now() + timedelta(seconds=30),
        "cancelled": False,
        "lost": False,
        "last": False,
    }


def test_progress_is_seen_while_the_job_runs_and_after(jobs):
    seen = []

    @jobs.job
    def work(ctx: JobContext):
        ctx.progress(0.25, "a quarter")
        seen.append(jobs.get(ctx.id).progress)
        ctx.progress(1)

    handle = work.enqueue()
    assert handle.record().progress is None
    jobs.drain()

    assert seen == [Progress(fraction=0.25, note="a quarter")]
    assert handle.record().progress == Progress(fraction=1, note=None)


def test_progress_of_a_run_that_lost_its_lease_is_not_recorded_and_the_handler_learns_it(jobs, clock):
    seen = []

    @jobs.job
    def work(ctx: JobContext):
        if ctx.delivery > 1:
            return
        ctx.progress(0.5)
        clock.advance(31)
        jobs.reap()
        seen.append(ctx.lost)
        ctx.progress(0.75)
        seen.append((ctx.lost, ctx.cancelled))
        seen.append(jobs.get(ctx.id).progress.fraction)

    work.enqueue()
    jobs.process_once()

    assert seen == [False, (True, True), 0.5]


BAD_REPORTS = {
    "note is a dict": (0.5, {"a": 1}),
    "note is bytes": (0.5, b"half"),
    "too much": (1.1, None),
    "nothing": (None, None),
    "nan": (float("nan"), None),
    "text": ("0.5", None),
}


@pytest.mark.parametrize(("fraction", "note"), BAD_REPORTS.values(), ids=BAD_REPORTS.keys())
def test_a_report_of_progress_that_makes_no_sense_does_not_fail_the_job(jobs, fraction, note):
    @jobs.job
    def work(ctx: JobContext) -> str:
        ctx.progress(0.25, "a quarter")
        ctx.progress(fraction, note)
        return "done"

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == "done"
    assert handle.record().errors == ()


def test_a_completed_job_has_come_all_the_way_and_keeps_its_last_note(jobs):
    @jobs.job
    def work(ctx: JobContext):
        ctx.progress(0.993, "row 993")

    handle = work.enqueue()
    jobs.drain()

    assert handle.record().progress == Progress(fraction=1, note="row 993")
    assert jobs.list()[0].progress == Progress(fraction=1, note="row 993")


def test_a_discarded_job_keeps_its_last_progress(jobs):
    @jobs.job
    def work(ctx: JobContext):
        ctx.progress(0.993, "row 993")
        raise RuntimeError

    handle = work.enqueue()
    jobs.drain()

    assert handle.record().progress == Progress(fraction=0.993, note="row 993")


@pytest.mark.parametrize("store", ["sqlite"])
def test_progress_in_a_transaction_that_has_the_one_write_lock_does_not_fail_the_job(jobs, caplog):
    @jobs.job(name="reports_in_its_transaction")
    def work(ctx: JobContext):
        with ctx.transaction() as conn:
            ctx.progress(0.5)
            conn.complete("done")

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() == "done"


@pytest.mark.promise("F60")
def test_a_note_that_no_store_accepts_does_not_fail_the_job(jobs):
    @jobs.job
    def work(ctx: JobContext):
        ctx.progress(0.5, "nul \x00 surrogate \ud800")

    handle = work.enqueue()
    jobs.drain()

    assert handle.record().progress.note == "nul \\x00 surrogate \\ud800"


@pytest.mark.promise("F70")
def test_a_store_that_is_away_for_a_moment_does_not_fail_a_job_that_reports_progress(open_app_on):
    class Away:
        def progress(self, lease, progress):
            raise BackendUnavailable("away for a moment")

    jobs = open_app_on(Away)

    @jobs.job
    def work(ctx: JobContext) -> bool:
        ctx.progress(0.5)
        return ctx.lost

    handle = work.enqueue()
    jobs.drain()

    assert handle.result() is False


def test_a_replayed_job_starts_without_progress(jobs):
    @jobs.job
    def work(ctx: JobContext):
        ctx.progress(0.5)
        raise RuntimeError

    handle = work.enqueue()
    jobs.drain()
    jobs.retry(handle.id)

    assert handle.record().progress is None
