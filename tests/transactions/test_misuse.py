"""Handlers that do with their transaction what they should not: each is told, and nothing is half done."""

import asyncio
import sqlite3
import threading
from contextlib import closing, suppress

import psycopg
import pymysql
import pytest

from onward import JobContext, JobDiscardedError, State
from onward.base import interruption
from onward.errors import JobTimeout, TransactionError

pytestmark = pytest.mark.promise("A12")

WRITE = "INSERT INTO effects (label) VALUES ('{}')"


class TestAfterTheBlock:
    def test_its_connection_is_no_longer_joined(self, jobs, note, database, told):
        """It may be another handler's by then: a job that was accepted there would be lost, or be that one's."""

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("in the block"))
            for act in (
                lambda: conn.execute(WRITE.format("after it")),
                lambda: conn.enqueue(note, "after it"),
                lambda: conn.enqueue_many(note, [("after it",)]),
                lambda: conn.complete("too late"),
                lambda: conn.cursor,
                lambda: conn.connection,
            ):
                with pytest.raises(TransactionError, match="has ended"):
                    act()
                told.append("refused")

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert (told, database.effects(), jobs.list(job="note")) == (["refused"] * 6, ["in the block"], [])

    def test_nor_where_it_was_awaited(self, jobs, note, database, told):
        @jobs.job
        async def pay(ctx: JobContext) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format("in the block"))
            for act in (
                lambda: conn.execute(WRITE.format("after it")),
                lambda: conn.enqueue(note, "after it"),
                lambda: conn.run(lambda connection: connection.cursor()),
            ):
                with pytest.raises(TransactionError, match="has ended"):
                    await act()
                told.append("refused")

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert (told, database.effects(), jobs.list(job="note")) == (["refused"] * 3, ["in the block"], [])


class TestEndingIt:
    @pytest.mark.parametrize("statement", ["COMMIT", " commit work", "rollback", "START TRANSACTION"])
    def test_statements_that_would_are_refused(self, jobs, note, database, statement):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                conn.enqueue(note, "child")
                conn.execute(statement)

        handle = pay.enqueue()
        jobs.drain()

        assert "leaving the block commits it" in handle.record().errors[0].message
        assert (handle.state(), database.effects(), jobs.list(job="note")) == (State.DISCARDED, [], [])

    def test_a_savepoint_is_the_handler_s(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("kept"))
                conn.execute("SAVEPOINT mine")
                conn.execute(WRITE.format("undone"))
                conn.execute("ROLLBACK TO SAVEPOINT mine")

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["kept"])


class TestEndingItPastUs:
    """An SQLite file's own connection refuses it; a server's does what it is told."""

    @pytest.fixture(params=["postgres", "mariadb"])
    def database(self, request):
        return request.getfixturevalue(f"{request.param}_database")

    @pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "ROLLBACK AND CHAIN"])
    def test_it_is_noticed_and_the_job_is_not_completed(self, jobs, note, database, statement):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.enqueue(note, "child")
                conn.connection.cursor().execute(statement)
                conn.execute(WRITE.format("after it"))

        handle = pay.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.errors[0].kind) == (State.DISCARDED, "onward.errors.TransactionError")
        assert "has ended its transaction" in record.errors[0].message
        assert database.effects() == []


class TestSwallowingOnPostgres:
    @pytest.fixture
    def database(self, postgres_database):
        return postgres_database

    def test_an_error_after_which_postgresql_takes_nothing_more(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                with suppress(psycopg.errors.DivisionByZero):
                    conn.execute("SELECT 1/0")

        handle = pay.enqueue()
        jobs.drain()

        error = handle.record().errors[0]
        assert (error.kind, database.effects()) == ("onward.errors.TransactionError", [])
        assert "conn.transaction()" in error.message

    def test_an_error_within_a_savepoint(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                with suppress(psycopg.errors.DivisionByZero), conn.transaction():
                    conn.execute("SELECT 1/0")

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["x"])


class TestSwallowingOnMariaDB:
    @pytest.fixture
    def database(self, mariadb_database):
        return mariadb_database

    def test_a_deadlock_that_undid_all_of_it(self, jobs, database):
        database.query("CREATE TABLE IF NOT EXISTS pairs (n int PRIMARY KEY, v int)")
        database.query("REPLACE INTO pairs VALUES (1, 0), (2, 0)")
        has_second = threading.Event()

        def in_the_way():
            with closing(database.connect()) as other, other.cursor() as cursor:
                # It has written more, so it is not the one to be undone.
                cursor.execute("INSERT INTO effects VALUES " + ", ".join(["('other')"] * 100))
                cursor.execute("UPDATE pairs SET v = 1 WHERE n = 2")
                has_second.set()
                cursor.execute("UPDATE pairs SET v = 1 WHERE n = 1")
                other.rollback()

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute("UPDATE pairs SET v = 1 WHERE n = 1")
                thread = threading.Thread(target=in_the_way)
                thread.start()
                assert has_second.wait(60)
                with pytest.raises(pymysql.err.OperationalError, match="Deadlock"):
                    conn.execute("UPDATE pairs SET v = 1 WHERE n = 2")
                thread.join(60)
                conn.execute(WRITE.format("after it"))

        handle = pay.enqueue()
        jobs.drain()

        error = handle.record().errors[0]
        assert (error.kind, database.effects()) == ("onward.errors.TransactionError", [])
        assert "deadlock" in error.message


class TestSwallowingOnSqlite:
    @pytest.fixture
    def database(self, sqlite_database):
        return sqlite_database

    @pytest.mark.parametrize("goes_on", [True, False])
    def test_a_conflict_that_rolls_all_of_it_back(self, jobs, database, goes_on):
        database.query("CREATE TABLE once (n INTEGER PRIMARY KEY)")
        database.query("INSERT INTO once VALUES (1)")

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("before"))
                with suppress(sqlite3.IntegrityError):
                    conn.execute("INSERT OR ROLLBACK INTO once VALUES (1)")
                if goes_on:
                    with pytest.raises(sqlite3.DatabaseError):
                        conn.execute(WRITE.format("after"))
                    with pytest.raises(TransactionError, match="rolled everything back"):
                        conn.enqueue("note", {"label": "x"})

        handle = pay.enqueue()
        jobs.drain()

        error = handle.record().errors[0]
        assert (error.kind, database.effects(), jobs.list(job="note")) == ("onward.errors.TransactionError", [], [])
        assert "let that error leave the block" in error.message


class TestAttaching:
    @pytest.fixture
    def database(self, sqlite_database):
        return sqlite_database

    @pytest.mark.promise("F55")
    def test_another_file_would_be_committed_by_itself_so_it_is_refused(self, jobs, database, tmp_path):
        other = tmp_path / "other.db"

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                    conn.connection.execute("ATTACH ? AS other", (str(other),))
                conn.execute(WRITE.format("x"))
                conn.execute(f"ATTACH '{other}' AS other")

        handle = pay.enqueue()
        jobs.drain()

        error = handle.record().errors[0]
        assert (error.kind, database.effects(), other.exists()) == ("onward.errors.TransactionError", [], False)
        assert "not part of this job's commit" in error.message


class TestManyAtOnce:
    @pytest.mark.promise("F29")
    def test_awaited_calls_wait_for_each_other(self, jobs, note, database, told):
        """A driver that is asked twice at once would give the one the other's answer."""

        @jobs.job
        async def pay(ctx: JobContext) -> None:
            async with ctx.transaction() as conn:

                async def asked(n: int) -> int:
                    return (await conn.execute(f"SELECT {n}")).fetchone()[0]

                told.extend(await asyncio.gather(*map(asked, range(50))))
                await asyncio.gather(*(conn.enqueue(note, str(n)) for n in range(5)))

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert told == list(range(50))
        assert len(jobs.list(job="note")) == 5

    def test_more_blocks_than_an_event_loop_has_threads(self, jobs, database):
        """Where one writes at a time all others wait for it, and must leave it a thread to go on with."""

        @jobs.job
        async def pay(ctx: JobContext, n: int) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format(n))
                await asyncio.sleep(0)
                await conn.execute(WRITE.format(n))

        with jobs.worker(concurrency=40):
            for handle in pay.enqueue_many([(n,) for n in range(40)]):
                handle.result(timeout=60)

        assert database.effects() == sorted(2 * [str(n) for n in range(40)])

    @pytest.mark.promise("F29")
    def test_a_call_that_was_cancelled_leaves_no_answer_for_the_next(self, jobs, database, told):
        @jobs.job
        async def pay(ctx: JobContext) -> None:
            async with ctx.transaction() as conn:
                running, go_on = threading.Event(), threading.Event()

                def slowly(connection):
                    cursor = connection.cursor()
                    running.set()
                    assert go_on.wait(60)
                    cursor.execute("SELECT 'first'")
                    return cursor.fetchone()

                first = asyncio.create_task(conn.run(slowly))
                await asyncio.to_thread(running.wait, 60)
                first.cancel()
                second = asyncio.create_task(conn.execute("SELECT 'second'"))
                await asyncio.sleep(0)
                go_on.set()
                told.append((await second).fetchone())
                with pytest.raises(asyncio.CancelledError):
                    await first

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert told == [("second",)]


@pytest.mark.parametrize("step", ["begin", "settle", "commit"])
def test_an_interruption_waits_until_it_is_known_what_became_of_it(jobs, database, step):
    """At its time-out a handler is interrupted wherever it is: also just after the commit, before its end was told."""
    begin = jobs.backend.begin

    def interrupted_after(act):
        def go(*args, **options):
            done = act(*args, **options)
            guard = interruption._own.guard
            assert guard.interrupt(guard._run, JobTimeout)
            return done

        return go

    def begun(**options):
        completion = begin(**options)
        if step != "begin":
            setattr(completion, step, interrupted_after(getattr(completion, step)))
        return completion

    jobs.backend.begin = interrupted_after(begun) if step == "begin" else begun

    @jobs.job
    def pay(ctx: JobContext) -> None:
        with ctx.transaction() as conn:
            conn.execute(WRITE.format("paid"))

    handle = pay.enqueue()
    with jobs.worker(), suppress(JobDiscardedError):
        handle.result(timeout=60)
    del jobs.backend.begin

    record, happened = handle.record(), step != "begin"
    assert [error.kind for error in record.errors] == ["onward.errors.JobTimeout"]
    assert record.state is (State.COMPLETED if happened else State.DISCARDED)
    assert database.effects() == (["paid"] if happened else [])
    assert jobs.metrics.count("jobs_succeeded") == happened
    jobs.enqueue("note")  # no lock was kept
