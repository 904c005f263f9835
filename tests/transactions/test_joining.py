"""`jobs.transaction(connection)`: what it takes, what it refuses, and what becomes of what is enqueued."""

import asyncio
import sqlite3
from contextlib import closing

import aiosqlite
import asyncpg
import psycopg
import pymysql
import pytest
import sqlalchemy

from onward import ArgumentError, JobContext, Onward, State
from onward.errors import JobNotFound, TransactionError
from tests.waiting import eventually


@pytest.fixture
def note(jobs):
    @jobs.job
    def note(label: str, times: int = 1) -> str:
        return label * times

    return note


@pytest.fixture
def connection(database):
    with closing(database.connect()) as connection:
        yield connection


class TestEnqueueing:
    def test_a_job_runs_once_its_transaction_is_committed(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            handle = tx.enqueue(note, "hello", times=2)
        assert jobs.drain() == 0

        connection.commit()

        assert jobs.drain() == 1
        assert handle.result(timeout=5) == "hellohello"

    def test_leaving_the_block_commits_nothing_and_an_error_in_it_rolls_nothing_back(self, jobs, note, connection):
        with pytest.raises(KeyError), jobs.transaction(connection) as tx:  # noqa: PT012
            tx.enqueue(note, "kept")
            raise KeyError
        with jobs.transaction(connection) as tx:
            tx.enqueue(note, "too")
        assert jobs.counts()[State.AVAILABLE] == 0

        connection.commit()

        assert jobs.counts()[State.AVAILABLE] == 2

    @pytest.mark.promise("S34")
    def test_keys_made_of_the_arguments_come_with_the_job(self, jobs, connection):
        @jobs.job(unique_key="user:{user_id}")
        def sync(user_id: int): ...

        before = sync.enqueue(1)
        with jobs.transaction(connection) as tx:
            handles = [
                *tx.enqueue_many(sync, [(1,), (2,), (2,)]),
                tx.enqueue(sync, 3),
                tx.enqueue("sync", {"user_id": 3}),
            ]
        connection.commit()

        assert [handle.created for handle in handles] == [False, True, False, True, False]
        assert handles[0].id == before.id

    def test_a_job_that_is_looked_for_before_its_commit_is_not_found_and_told_why(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            handle = tx.enqueue(note, "hello")

        with pytest.raises(JobNotFound, match="the transaction that enqueued it is not committed"):
            handle.state()

        connection.commit()
        assert handle.state() == "available"

    def test_options_come_with_the_job(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            first = tx.enqueue(note.using(queue="mail", delay=60, unique_key="k", priority=3), "later")
            second = tx.enqueue(note.using(unique_key="k"), "again")
        connection.commit()

        assert (second.created, second.id) == (False, first.id)
        record = first.record()
        assert (record.queue, record.state, record.priority) == ("mail", State.SCHEDULED, 3)

    def test_many_at_once(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            handles = tx.enqueue_many(note, [("a",), note.call("b", times=3)])
            assert tx.enqueue_many(note, []) == []
        connection.commit()
        jobs.drain()

        assert [handle.result(timeout=5) for handle in handles] == ["a", "bbb"]

    def test_by_name(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            handle = tx.enqueue("note", {"label": "x"}, queue="mail")
            elsewhere = tx.enqueue("known_elsewhere")
        connection.commit()

        assert (handle.record().queue, elsewhere.record().job) == ("mail", "known_elsewhere")

    def test_what_is_wrong_with_a_call_is_said_before_anything_is_written(self, jobs, note, connection, database):
        with jobs.transaction(connection) as tx:
            with pytest.raises(ArgumentError):
                tx.enqueue(note, 42)
            with pytest.raises(ArgumentError):
                tx.enqueue_many(note, [("fine",), ("wrong", "type")])
            tx.enqueue(note, "fine")  # the caller's transaction is unharmed
        connection.commit()

        assert [job.payload for job in jobs.list()] == [{"label": "fine"}]

    def test_a_worker_hears_of_it_after_the_commit(self, jobs, note, connection):
        with jobs.worker():
            with jobs.transaction(connection) as tx:
                handle = tx.enqueue(note, "soon")
            connection.commit()

            assert handle.result(timeout=30) == "soon"

    def test_a_delay_is_measured_by_the_store(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            handle = tx.enqueue(note.using(delay=0.2), "late")
        connection.commit()

        with jobs.worker():
            assert handle.result(timeout=30) == "late"

    def test_no_event_tells_of_what_was_not_seen_to_be_committed(self, jobs, note, connection):
        from onward.telemetry import JobEnqueued

        told = []
        jobs.on(JobEnqueued, told.append)
        with jobs.transaction(connection) as tx:
            tx.enqueue(note, "x")
        connection.rollback()
        note.enqueue("y")

        eventually(lambda: told)
        assert len(told) == 1


class TestRefusing:
    def test_what_is_no_connection(self, jobs):
        with pytest.raises(TransactionError, match="psycopg, asyncpg"):
            jobs.transaction("sqlite:///shop.db")

    def test_a_store_without_transactions(self, connection):
        with Onward("memory://") as jobs, pytest.raises(TransactionError, match="use a sqlite://"):
            jobs.transaction(connection)

    def test_a_block_that_has_ended(self, jobs, note, connection):
        with jobs.transaction(connection) as tx:
            pass
        with pytest.raises(TransactionError, match="has ended"):
            tx.enqueue(note, "late")

    def test_a_connection_to_another_kind_of_database(self, jobs, database, tmp_path):
        other = (
            sqlite3.connect(tmp_path / "x.db")
            if database.url.startswith("postgresql")
            else _psycopg_look_alike("postgresql")
        )
        with pytest.raises(TransactionError, match="can only join"):
            jobs.transaction(other)

    def test_a_transaction_that_its_caller_has_ended(self, jobs, note, database):
        """Statements would be committed one by one from there on, and a job is stored by several."""
        with closing(database.connect()) as connection:
            _begin_by_hand(connection)
            with jobs.transaction(connection) as tx:
                first = tx.enqueue(note, "in it")
                connection.cursor().execute("COMMIT")
                with pytest.raises(TransactionError, match="in no transaction"):
                    tx.enqueue(note, "after it")

        assert [job.id for job in jobs.list()] == [first.id]

    def test_the_transaction_of_a_handler(self, jobs, note):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                with pytest.raises(TransactionError, match=r"conn\.enqueue"):
                    jobs.transaction(conn)
                with jobs.transaction(conn.connection) as tx:
                    tx.enqueue(note, "through the driver")

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert [job.payload for job in jobs.list(job="note")] == [{"label": "through the driver"}]

    def test_awaiting_what_blocks(self, jobs, connection):
        async def wrong():
            async with jobs.transaction(connection):
                pass

        with pytest.raises(TransactionError, match="write `with "):
            asyncio.run(wrong())


def _begin_by_hand(connection):
    """On a connection that commits every statement at once."""
    match connection:
        case sqlite3.Connection():
            connection.isolation_level = None
        case psycopg.Connection():
            connection.autocommit = True
        case pymysql.connections.Connection():
            connection.autocommit(True)
    connection.cursor().execute("BEGIN")


def _psycopg_look_alike(vendor):
    """What Django hands out, as far as it is looked at."""
    return type("Connection", (), {"vendor": vendor, "in_atomic_block": True})()


class TestSqlite:
    def test_another_file(self, tmp_path, sqlite_database):
        with (
            Onward(f"sqlite:///{tmp_path / 'other.db'}") as jobs,
            closing(sqlite_database.connect()) as connection,
            jobs.transaction(connection) as tx,
            pytest.raises(TransactionError, match=r"shop\.db and the jobs are in .*other\.db"),
        ):
            tx.enqueue("note")

    @pytest.mark.promise("F55")
    def test_a_file_that_is_only_attached(self, tmp_path, sqlite_database):
        """SQLite commits each file by itself: a job there could come without what its caller wrote, or the other way."""
        with (
            Onward(sqlite_database.url) as jobs,
            closing(sqlite3.connect(tmp_path / "own.db")) as connection,
        ):
            connection.execute("ATTACH ? AS jobs", (sqlite_database.address["file"],))
            with (
                pytest.raises(TransactionError, match=r"own\.db and the jobs are in .*shop\.db"),
                jobs.transaction(connection) as tx,
            ):
                tx.enqueue("note")
            connection.rollback()

            assert jobs.list() == []

    def test_a_database_in_memory(self, sqlite_database):
        with (
            Onward(sqlite_database.url) as jobs,
            closing(sqlite3.connect(":memory:")) as connection,
            jobs.transaction(connection) as tx,
            pytest.raises(TransactionError, match="in memory"),
        ):
            tx.enqueue("note")

    def test_a_connection_that_commits_at_once(self, sqlite_database):
        with (
            Onward(sqlite_database.url) as jobs,
            closing(sqlite3.connect(sqlite_database.address["file"], isolation_level=None)) as connection,
            pytest.raises(TransactionError, match="BEGIN IMMEDIATE"),
            jobs.transaction(connection),
        ):
            pass

    def test_an_awaited_connection_that_is_not_awaited(self, sqlite_database):
        async def wrong():
            with Onward(sqlite_database.url) as jobs:
                async with aiosqlite.connect(sqlite_database.address["file"]) as connection:
                    with pytest.raises(TransactionError, match="async with"), jobs.transaction(connection):
                        pass
                async with aiosqlite.connect(sqlite_database.address["file"], isolation_level=None) as connection:
                    with pytest.raises(TransactionError, match="BEGIN IMMEDIATE"):
                        async with jobs.transaction(connection):
                            pass

        asyncio.run(wrong())


class TestPostgres:
    def test_a_connection_that_commits_at_once(self, postgres_database):
        with (
            Onward(postgres_database.url) as jobs,
            psycopg.connect(postgres_database.url, autocommit=True) as connection,
            pytest.raises(TransactionError, match=r"connection\.transaction"),
            jobs.transaction(connection),
        ):
            pass

    def test_an_asyncpg_connection_without_a_transaction(self, postgres_database):
        async def wrong():
            address = postgres_database.address["driver"]
            connection = await asyncpg.connect(host=address["host"], user=address["user"], database=address["dbname"])
            try:
                with Onward(postgres_database.url) as jobs, pytest.raises(TransactionError, match="no transaction"):
                    async with jobs.transaction(connection):
                        pass
            finally:
                await connection.close()

        asyncio.run(wrong())

    def test_an_engine_that_commits_at_once(self, postgres_database):
        engine = sqlalchemy.create_engine(postgres_database.address["psycopg"], isolation_level="AUTOCOMMIT")
        with (
            Onward(postgres_database.url) as jobs,
            engine.connect() as connection,
            pytest.raises(TransactionError, match="AUTOCOMMIT"),
            jobs.transaction(connection),
        ):
            pass
        engine.dispose()

    def test_a_connection_that_looks_into_another_schema(self, postgres_database):
        with (
            Onward(postgres_database.url) as jobs,
            psycopg.connect(postgres_database.url, options="-c search_path=pg_catalog") as connection,
            jobs.transaction(connection) as tx,
            pytest.raises(TransactionError, match="has no tables of the jobs"),
        ):
            tx.enqueue("note")

    @pytest.mark.promise("F90")
    def test_another_database_that_has_such_tables_too(self, postgres_database):
        postgres_database.query("DROP SCHEMA IF EXISTS elsewhere CASCADE")
        postgres_database.query("CREATE SCHEMA elsewhere")
        elsewhere = f"{postgres_database.url}&options=-csearch_path%3Delsewhere"
        with (
            Onward(postgres_database.url) as jobs,
            Onward(elsewhere).connect() as others,
            psycopg.connect(elsewhere) as connection,
        ):
            with pytest.raises(TransactionError, match="finds other tables"), jobs.transaction(connection) as tx:
                tx.enqueue("note")
            with others.transaction(connection) as tx:
                tx.enqueue("note")
            connection.commit()

            assert (jobs.counts()[State.AVAILABLE], others.counts()[State.AVAILABLE]) == (0, 1)

    def test_errors_of_the_driver_are_the_caller_s(self, postgres_database):
        """He may have code that tries again after a serialisation failure: it must see what it knows."""
        with (
            Onward(postgres_database.url) as jobs,
            psycopg.connect(postgres_database.url) as connection,
            jobs.transaction(connection) as tx,
        ):
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("SELECT 1/0")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                tx.enqueue("note")
            connection.rollback()

    def test_a_mysql_connection_is_known_without_a_server(self, postgres_database):
        connection = pymysql.connections.Connection(defer_connect=True)
        with (
            Onward(postgres_database.url) as jobs,
            pytest.raises(TransactionError, match="connection to a mysql database"),
        ):
            jobs.transaction(connection)


class TestMariaDB:
    @pytest.mark.promise("F90")
    def test_another_database_that_has_such_tables_too(self, mariadb_database):
        mariadb_database.query("CREATE DATABASE elsewhere")
        try:
            with (
                Onward(mariadb_database.url) as jobs,
                Onward(mariadb_database.url.replace("/jobs?", "/elsewhere?")).connect(),
                closing(
                    pymysql.connect(**{**mariadb_database.address["driver"], "database": "elsewhere"})
                ) as connection,
                jobs.transaction(connection) as tx,
                pytest.raises(TransactionError, match="in the database elsewhere"),
            ):
                tx.enqueue("note")
        finally:
            mariadb_database.query("DROP DATABASE elsewhere")

    def test_a_connection_that_commits_at_once(self, mariadb_database):
        with (
            Onward(mariadb_database.url) as jobs,
            closing(pymysql.connect(**mariadb_database.address["driver"], autocommit=True)) as connection,
            pytest.raises(TransactionError, match=r"connection\.begin"),
            jobs.transaction(connection),
        ):
            pass
