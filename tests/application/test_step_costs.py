"""What steps cost: nothing where there are none, one write each, and one read in a run that comes again."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from onward import AsyncJobContext, JobContext, NoDelay


@pytest.fixture
def asked():
    return Counter()


@pytest.fixture
def jobs(open_app_on, asked):
    class Counting:
        def note(self, lease, name, value):
            asked["note"] += 1
            return super().note(lease, name, value)

        def notes(self, job_id):
            asked["notes"] += 1
            return super().notes(job_id)

    return open_app_on(Counting)


@pytest.mark.promise("S69")
def test_a_job_without_steps_asks_nothing_of_notes_in_any_run(jobs, asked):
    @jobs.job(max_retries=2, retry=NoDelay())
    def work(ctx: JobContext) -> None:
        if ctx.attempt < 3:
            raise ConnectionError

    work.enqueue()
    assert jobs.drain() == 3

    assert asked == {}


@pytest.mark.promise("S69")
def test_a_step_is_one_write_and_a_run_that_comes_again_one_read(jobs, asked):
    @jobs.job(max_retries=2, retry=NoDelay())
    def work(ctx: JobContext) -> None:
        for number in range(5):
            ctx.step(f"n-{number}", int)
        if ctx.attempt < 3:
            raise ConnectionError

    work.enqueue()
    jobs.process_once()
    assert asked == {"note": 5}
    jobs.drain()

    assert asked == {"note": 5, "notes": 2}


@pytest.mark.promise("S69")
def test_a_sleep_is_no_write_of_its_own_and_a_wait_one_read(jobs, asked, clock):
    @jobs.job
    async def work(ctx: AsyncJobContext) -> None:
        await ctx.sleep("nap", 60)
        await ctx.wait_for("go", timeout=60)

    handle = work.enqueue()
    jobs.drain()
    assert asked == {}
    clock.advance(60)
    jobs.drain()
    assert asked == {"notes": 2}  # one for the sleep, and the wait looks once more
    jobs.signal(handle.id, "go")
    jobs.drain()

    assert asked == {"notes": 3}
    assert handle.state() == "completed"


class TestStatements:
    """Of SQLite, as the connection ran them."""

    @pytest.fixture
    def store(self):
        return "sqlite"

    @pytest.fixture
    def traced(self, open_app):
        jobs = open_app()
        jobs.connect()
        statements = []
        with jobs.backend._connections.tidying() as writer, jobs.backend._reading() as reading:
            for connection in (writer, reading._connection):
                connection.set_trace_callback(statements.append)
        return jobs, statements

    @pytest.mark.promise("S69")
    def test_no_statement_of_a_job_without_steps_names_notes(self, traced):
        jobs, statements = traced

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            if ctx.attempt == 1:
                raise ConnectionError

        handle = work.enqueue()
        jobs.drain()
        jobs.cancel(work.using(delay=60).enqueue().id)

        assert handle.state() == "completed"
        assert len(statements) > 10
        assert [sql for sql in statements if "onward_notes" in sql] == []

    @pytest.mark.promise("S69")
    def test_a_step_is_one_transaction_of_one_statement(self, traced):
        jobs, statements = traced
        seen = []

        @jobs.job
        def work(ctx: JobContext) -> None:
            before = len(statements)
            ctx.step("x", int)
            seen.extend(statements[before:])

        work.enqueue()
        jobs.drain()

        assert [sql.split()[0] for sql in seen] == ["BEGIN", "INSERT", "COMMIT"]

    def test_no_byte_is_left_when_the_jobs_are_gone(self, traced, url, clock):
        jobs, _ = traced

        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.step("x", int)

        work.enqueue_many([()] * 5)
        jobs.drain()
        clock.advance(60)
        assert jobs.prune(older_than=1) == 5

        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("SELECT count(*) FROM onward_notes").fetchone() == (0,)
