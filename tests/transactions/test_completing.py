"""`with ctx.transaction() as conn`: what a handler writes, what it enqueues and its success are one commit, or nothing."""

import asyncio
import sqlite3
import threading
from contextlib import closing, suppress

import psycopg
import pymysql
import pytest

from onward import JobContext, JobTimeout, Onward, OptionError, State
from onward.backend import Session
from onward.base.failure import name_of
from onward.contract.transactions import in_the_way
from onward.errors import LeaseLost, TransactionError, TransactionTooLong
from tests.servers.databases import is_locked
from tests.servers.pgbouncer import pgbouncer
from tests.servers.proxy import proxy_to
from tests.waiting import eventually

WRITE = "INSERT INTO effects (label) VALUES ('{}')"


class TestOneCommit:
    def test_writes_children_and_the_success_are_committed_together(self, jobs, note, database, told):
        @jobs.job
        def pay(ctx: JobContext, label: str) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format(label))
                told.append(conn.enqueue(note, "receipt"))
                conn.enqueue_many(note, [("a",), ("b",)])
                conn.complete({"paid": label})
                assert database.effects() == []
                assert jobs.get(told[0].id) is None

        handle = pay.enqueue("42")
        jobs.drain()

        assert handle.result(timeout=5) == {"paid": "42"}
        assert database.effects() == ["42"]
        assert told[0].result(timeout=5) == "receipt"
        record = handle.record()
        assert (record.state, record.attempts, record.errors) == (State.COMPLETED, 1, ())
        assert jobs.metrics.count("jobs_succeeded") == 4

    def test_an_exception_in_the_block_undoes_all_of_it(self, jobs, note, database):
        @jobs.job(max_retries=1)
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format(ctx.attempt))
                conn.enqueue(note, "receipt")
                if ctx.attempt == 1:
                    raise ValueError("no")

        handle = pay.enqueue()
        jobs.drain()
        assert (handle.state(), database.effects()) == (State.RETRYABLE, [])
        assert jobs.counts()[State.COMPLETED] == 0

        jobs.retry(handle.id)
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["2"])
        assert jobs.counts()[State.COMPLETED] == 2

    def test_an_error_after_the_block_leaves_it_completed_and_is_recorded(self, jobs, database):
        @jobs.job(max_retries=3)
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("paid"))
                conn.complete("paid")
            raise RuntimeError("the mail server is away")

        handle = pay.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.result, record.attempts) == (State.COMPLETED, "paid", 1)
        assert [(error.kind, error.message) for error in record.errors] == [("RuntimeError", "the mail server is away")]
        assert database.effects() == ["paid"]
        assert jobs.drain() == 0
        assert jobs.metrics.count("jobs_succeeded") == 1
        assert jobs.metrics.count("jobs_failed") == 0

    @pytest.mark.parametrize("when", ["before the block", "after the block"])
    def test_a_time_out_that_its_handler_swallowed_is_recorded(self, jobs, database, when):
        def swallow_the_time_out():
            with suppress(JobTimeout):
                while True:
                    pass

        @jobs.job(timeout=0.5)
        def pay(ctx: JobContext) -> None:
            if when == "before the block":
                swallow_the_time_out()
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("paid"))
                conn.complete("paid")
            if when == "after the block":
                swallow_the_time_out()

        handle = pay.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.result, record.attempts) == (State.COMPLETED, "paid", 1)
        (error,) = record.errors
        assert (error.kind, error.attempt) == ("onward.errors.JobTimeout", 1)
        assert error.message.startswith("the job ran past its time-out of 0.5 s")
        assert jobs.metrics.count("jobs_overran") == 1
        assert database.effects() == ["paid"]

    def test_a_second_block_in_one_run_is_refused(self, jobs, database, told):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("first"))
            try:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format("second"))
            except TransactionError as error:
                told.append(str(error))

        handle = pay.enqueue()
        jobs.drain()

        assert "has already had its transaction" in told[0]
        assert (handle.state(), database.effects()) == (State.COMPLETED, ["first"])

    def test_without_a_word_there_is_no_result(self, jobs):
        @jobs.job
        def pay(ctx: JobContext) -> str:
            with ctx.transaction():
                pass
            return "not stored: it was completed before"

        handle = pay.enqueue()
        jobs.drain()

        assert handle.result(timeout=5) is None

    def test_a_result_that_cannot_be_stored_is_told(self, jobs):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.complete(object())

        handle = pay.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.result) == (State.COMPLETED, None)
        assert record.reason.startswith("no result: ")

    @pytest.mark.parametrize("verb", ["commit", "rollback", "close"])
    def test_the_transaction_is_not_the_handler_s_to_end(self, jobs, database, told, verb):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                for connection in (conn, conn.connection):
                    if verb != "close" or connection is conn:
                        try:
                            getattr(connection, verb)()
                        except (TransactionError, psycopg.ProgrammingError) as error:
                            told.append(error)
                raise KeyError("undo")

        pay.enqueue()
        jobs.drain()

        assert len(told) == (1 if verb == "close" else 2)
        assert database.effects() == []

    def test_a_worker_that_keeps_no_history_completes_too(self, open_app, database):
        jobs = open_app(retention={"completed": 0})

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("paid"))

        pay.enqueue()
        assert jobs.drain() == 1
        assert database.effects() == ["paid"]
        assert jobs.counts()[State.COMPLETED] == 0
        assert jobs.metrics.count("jobs_succeeded") == 1

    def test_in_a_worker_s_threads_and_in_async_handlers(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext, n: int) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format(n))

        @jobs.job
        async def pay_later(ctx: JobContext, n: int) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format(n))

        with jobs.worker(concurrency=4):
            handles = pay.enqueue_many([(n,) for n in range(20)])
            handles += pay_later.enqueue_many([(n,) for n in range(20, 30)])
            for handle in handles:
                handle.result(timeout=60)

        assert database.effects() == sorted(map(str, range(30)))
        assert jobs.metrics.count("jobs_succeeded") == 30

    def test_a_context_made_by_hand_has_no_store(self):
        context = JobContext(
            id="x", job="j", name="j", queue="q", attempt=1, max_retries=0, payload=b"{}", meta={}, delivery=1
        )
        with pytest.raises(TransactionError, match="made by hand"):
            context.transaction()


class TestAwaited:
    def test_what_talks_to_the_store_is_awaited(self, jobs, note, database):
        @jobs.job
        async def pay(ctx: JobContext, label: str) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format(label))
                assert list((await conn.execute("SELECT label FROM effects")).fetchall()) == [(label,)]
                child = await conn.enqueue(note, "receipt")
                await conn.enqueue_many(note, [("a",), ("b",)])
                assert await conn.run(lambda connection: connection.cursor() is not None)
                assert jobs.get(child.id) is None
                conn.complete({"paid": label})

        handle = pay.enqueue("42")
        jobs.drain()

        assert handle.result(timeout=5) == {"paid": "42"}
        assert database.effects() == ["42"]
        assert jobs.counts()[State.COMPLETED] == 4

    def test_an_exception_undoes_all_of_it(self, jobs, note, database):
        @jobs.job
        async def pay(ctx: JobContext) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format("x"))
                await conn.enqueue(note, "receipt")
                raise ValueError("no")

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects(), jobs.list(job="note")) == (State.DISCARDED, [], [])

    def test_a_handler_that_is_cancelled_in_the_block_has_done_nothing(self, jobs, database):
        @jobs.job(timeout=0.1)
        async def pay(ctx: JobContext) -> None:
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format("x"))
                await asyncio.Event().wait()

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.DISCARDED, [])
        assert handle.record().errors[0].kind == "onward.errors.JobTimeout"

    @pytest.mark.parametrize("step", ["begin", "commit"])
    def test_a_cancellation_in_the_middle_of_our_own_code_waits_for_its_end(self, jobs, database, step):
        """What was committed is completed, and what was begun is rolled back, though no thread waits for it any more."""
        reached, go_on = threading.Event(), threading.Event()
        begin = jobs.backend.begin

        def slowly(**options):
            completion = begin(**options)
            commit = completion.commit

            def pause():
                reached.set()
                assert go_on.wait(60)

            def commit_slowly():
                pause()
                commit()

            if step == "begin":
                pause()
            else:
                completion.commit = commit_slowly
            return completion

        jobs.backend.begin = slowly

        @jobs.job
        async def pay(ctx: JobContext) -> None:
            me = asyncio.current_task()

            async def cancel():
                await asyncio.to_thread(reached.wait, 60)
                me.cancel()
                await asyncio.sleep(0)
                go_on.set()

            canceller = asyncio.create_task(cancel())
            async with ctx.transaction() as conn:
                await conn.execute(WRITE.format("x"))
            await canceller

        handle = pay.enqueue()
        jobs.drain()

        happened = step == "commit"
        assert handle.state() is (State.COMPLETED if happened else State.DISCARDED)
        assert database.effects() == (["x"] if happened else [])
        assert [error.kind for error in handle.record().errors] == ["asyncio.exceptions.CancelledError"]
        del jobs.backend.begin
        jobs.enqueue("note")  # the lock was not kept

    def test_waiting_for_own_transaction_raises_at_once(self, sqlite_database, told):
        with Onward(sqlite_database.url) as jobs:

            @jobs.job
            async def pay(ctx: JobContext) -> None:
                async with ctx.transaction():
                    with pytest.raises(TransactionError, match=r"conn\.enqueue"):
                        await jobs.aenqueue("note")
                    told.append("refused")
                await jobs.aenqueue("note")

            handle = pay.enqueue()
            jobs.drain()
            assert (handle.state(), told) == (State.COMPLETED, ["refused"])


class TestLostLeases:
    def test_nothing_happens_if_the_job_was_given_back_before_the_block(self, jobs, open_app, database, told):
        other = open_app()

        @jobs.job(max_retries=1)
        def pay(ctx: JobContext) -> None:
            if ctx.delivery == 1:
                other.backend.reap(owner=jobs.get(ctx.id).owner)
            try:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format(ctx.delivery))
            except LeaseLost:
                told.append(ctx.lost)
                raise

        handle = pay.enqueue()
        jobs.drain()
        jobs.drain()

        assert told == [True]
        assert database.effects() == ["2"]
        assert handle.record().delivery == 2

    def test_an_adoption_by_the_worker_itself_is_not_a_loss(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            jobs.backend.open_session(Session(owner="successor"), adopts=jobs.get(ctx.id).owner)
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("once"))

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["once"])


@pytest.mark.promise("A12")
class TestSqlite:
    @pytest.fixture
    def database(self, sqlite_database):
        return sqlite_database

    def test_a_block_may_take_five_seconds_unless_told_otherwise(self, open_app):
        assert open_app().settings.transaction_timeout == 5

    def test_a_block_that_takes_too_long_is_rolled_back_and_says_so(self, open_app, database, told):
        jobs = open_app(transaction_timeout=0.2)

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("slow"))
                # Others get through as soon as its time is over, though it has not ended.
                eventually(lambda: not is_locked(database))
                with pytest.raises(TransactionTooLong):
                    conn.execute(WRITE.format("outside"))
                told.append("went on")

        handle = pay.enqueue()
        jobs.drain()

        assert told == ["went on"]
        record = handle.record()
        assert (record.state, record.errors[0].kind) == (State.DISCARDED, name_of(TransactionTooLong))
        assert "0.2 s" in record.errors[0].message
        assert "transaction_timeout" in record.errors[0].message
        assert database.effects() == []

    def test_a_statement_that_takes_too_long_is_interrupted(self, open_app, database):
        jobs = open_app(transaction_timeout=0.2)

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                ).fetchall()

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors[0].kind == name_of(TransactionTooLong)

    def test_its_length_is_at_most_a_third_of_a_lease(self, open_app, told):
        jobs = open_app(transaction_timeout=60, lease_for=1.2)

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                ).fetchall()

        handle = pay.enqueue()
        jobs.drain()

        assert "0.4 s" in handle.record().errors[0].message

    def test_waiting_for_own_transaction_raises_at_once(self, jobs, note, told):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction():
                for act in (
                    lambda: note.enqueue("x"),
                    lambda: jobs.cancel(ctx.id),
                    lambda: jobs.pause("mail"),
                ):
                    with pytest.raises(TransactionError, match=r"conn\.enqueue"):
                        act()
                    told.append("refused")
                ctx.progress(0.5)  # which never raises: it is not noted, and the log says so
            note.enqueue("after")

        handle = pay.enqueue()
        jobs.drain()

        assert told == ["refused"] * 3
        assert handle.record().progress is None
        assert handle.state() is State.COMPLETED
        assert [job.payload for job in jobs.list(job="note")] == [{"label": "after"}]
        assert in_the_way.get() is None

    def test_another_store_can_be_written_meanwhile(self, jobs, open_app, tmp_path):
        other = open_app(f"sqlite:///{tmp_path / 'other.db'}")

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction():
                other.enqueue("elsewhere")

        handle = pay.enqueue()
        jobs.drain()

        assert handle.state() is State.COMPLETED
        assert other.counts()[State.AVAILABLE] == 1

    @pytest.mark.parametrize("statement", ["COMMIT", "END", "ROLLBACK"])
    def test_no_statement_ends_it(self, jobs, database, told, statement):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                    conn.connection.execute(statement)
                with pytest.raises(TransactionError, match="executescript"):
                    conn.executescript("SELECT 1")
                with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                    conn.cursor().executescript("SELECT 1")
                told.append(conn.connection.in_transaction)
                conn.execute("SAVEPOINT mine")
                conn.execute(WRITE.format("y"))
                conn.execute("ROLLBACK TO mine")

        pay.enqueue()
        jobs.drain()

        assert told == [True]
        assert database.effects() == ["x"]

    def test_what_a_handler_tells_its_connection_about_rows_does_not_matter(self, jobs, note, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.connection.row_factory = lambda cursor, row: {"row": row}
                conn.connection.text_factory = bytes
                assert conn.enqueue(note.using(unique_key="k"), "x").created
                assert not conn.enqueue(note.using(unique_key="k"), "y").created
                assert conn.execute("SELECT 'text'").fetchone() == {"row": (b"text",)}

        handle = pay.enqueue()
        jobs.drain()

        assert handle.state() is State.COMPLETED, handle.record().errors


@pytest.mark.promise("A12")
class TestServers:
    """What others can do meanwhile, where a transaction does not keep them from writing."""

    @pytest.fixture(params=["postgres", "mariadb"])
    def database(self, request):
        return request.getfixturevalue(f"{request.param}_database")

    @pytest.fixture
    def server(self, request, database):
        return request.getfixturevalue("mariadb" if database.url.startswith("mysql") else "newest_postgres")

    def test_a_job_that_is_given_back_in_the_middle_is_rolled_back(self, jobs, open_app, database, told):
        other = open_app()

        @jobs.job(max_retries=1)
        def pay(ctx: JobContext) -> None:
            try:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format(ctx.delivery))
                    if ctx.delivery == 1:
                        other.backend.reap(owner=jobs.get(ctx.id).owner)
            except LeaseLost as error:
                told.append(str(error))
                raise

        handle = pay.enqueue()
        jobs.drain()
        jobs.drain()

        assert "nothing of it was committed" in told[0]
        assert (database.effects(), handle.record().delivery) == (["2"], 2)

    def test_other_writers_do_not_wait_for_a_slow_handler(self, jobs, open_app, database):
        """A12 (a): the fence is taken last, so renewals, sweeps and turns pass."""
        other = open_app()
        inside, go_on = threading.Event(), threading.Event()

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                inside.set()
                assert go_on.wait(60)

        handle = pay.enqueue()
        with jobs.worker():
            assert inside.wait(60)
            owner = jobs.get(handle.id).owner
            assert other.backend.extend(owner).alive
            assert other.backend.reap() == []
            assert other.cancel(handle.id) is State.EXECUTING
            go_on.set()
            handle.result(timeout=60)

        assert database.effects() == ["x"]

    def test_a_sweep_passes_over_what_is_about_to_be_committed(self, jobs, open_app):
        other = open_app()
        from onward.backend import Claim, Settlement
        from onward.testing.contract.builders import an_envelope

        jobs.backend.enqueue([an_envelope()])
        (lease,) = jobs.backend.claim(Claim(queues=("default",), owner="worker"))
        tx = jobs.backend.begin(at_most=60)
        assert tx.settle(Settlement.ack(lease)).applied

        assert other.backend.reap(owner="worker") == []
        tx.commit()

        assert jobs.get(lease.envelope.id).state is State.COMPLETED
        assert other.backend.reap() == []

    def test_a_sweep_finds_what_was_about_to_be_committed_and_was_not(self, jobs, open_app):
        other = open_app()
        from onward.backend import Claim, Settlement
        from onward.testing.contract.builders import an_envelope

        jobs.backend.enqueue([an_envelope()])
        (lease,) = jobs.backend.claim(Claim(queues=("default",), owner="worker"))
        tx = jobs.backend.begin(at_most=60)
        tx.settle(Settlement.ack(lease))
        assert other.backend.reap(owner="worker") == []
        tx.roll_back()

        (reaped,) = other.backend.reap()

        assert (reaped.id, reaped.to) == (lease.envelope.id, State.RETRYABLE)

    @pytest.mark.promise("F26", "F28")
    def test_a_commit_whose_answer_is_lost_is_found_to_have_happened(self, open_app, server, database, told):
        with proxy_to(server) as proxy:
            jobs = open_app(proxy.url)

            @jobs.job(max_retries=5)
            def pay(ctx: JobContext) -> None:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format("once"))
                    _before_commit(conn, proxy.lose_the_next_answer)
                told.append("went on")

            handle = pay.enqueue()
            jobs.drain()

        with open_app(database.url) as jobs:
            record = jobs.get(handle.id)
        assert told == ["went on"]
        assert (record.state, record.attempts, record.errors) == (State.COMPLETED, 1, ())
        assert database.effects() == ["once"]

    @pytest.mark.promise("F26", "F28")
    def test_a_commit_that_did_not_arrive_did_not_happen(self, open_app, server, database):
        with proxy_to(server) as proxy:
            jobs = open_app(proxy.url)

            @jobs.job(max_retries=5)
            def pay(ctx: JobContext) -> None:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format(ctx.attempt))
                    if ctx.attempt == 1:
                        _before_commit(conn, proxy.cut)

            handle = pay.enqueue()
            jobs.drain()
            record = handle.record()
            assert (record.state, record.errors[0].kind) == (State.RETRYABLE, "onward.errors.BackendUnavailable")
            assert database.effects() == []
            jobs.retry(handle.id)
            jobs.drain()

            assert handle.state() is State.COMPLETED
        assert database.effects() == ["2"]

    def test_a_plain_enqueue_in_the_block_is_a_transaction_of_its_own(self, jobs, note):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction():
                note.enqueue("audit")
                raise KeyError

        pay.enqueue()
        jobs.drain()

        assert [job.payload for job in jobs.list(job="note")] == [{"label": "audit"}]


@pytest.mark.promise("A12")
class TestMySQL:
    @pytest.fixture
    def database(self, mariadb_database):
        return mariadb_database

    def test_a_statement_that_commits_by_itself_is_noticed(self, jobs, database):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute("CREATE TABLE IF NOT EXISTS other (n int)")
                conn.execute(WRITE.format("x"))

        handle = pay.enqueue()
        jobs.drain()

        assert "has ended its transaction" in handle.record().errors[0].message
        assert database.effects() == []
        assert handle.state() is State.DISCARDED

    def test_a_session_of_the_caller_s_may_go_by_other_rules(self, jobs, note, database):
        with closing(pymysql.connect(**database.address["driver"], charset="latin1")) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
            with jobs.transaction(connection) as tx:
                first = tx.enqueue(note.using(unique_key="schlüssel"), "größer")
                again = tx.enqueue(note.using(unique_key="schlüssel"), "größer")
                many = tx.enqueue_many(note, [("ü",), ("100%",)])
            connection.commit()

        jobs.drain()
        assert (again.created, again.id) == (False, first.id)
        assert [handle.result(timeout=5) for handle in (first, *many)] == ["größer", "ü", "100%"]


@pytest.mark.promise("A12")
class TestPostgres:
    @pytest.fixture
    def database(self, postgres_database):
        return postgres_database

    def test_a_transaction_that_the_server_ended_is_a_failed_attempt(self, jobs, database):
        @jobs.job(max_retries=1)
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format(ctx.attempt))
                if ctx.attempt == 1:
                    pid = conn.connection.info.backend_pid
                    database.query(f"SELECT pg_terminate_backend({pid}, 5000)")

        handle = pay.enqueue()
        jobs.drain()
        assert (handle.state(), database.effects()) == (State.RETRYABLE, [])
        jobs.retry(handle.id)
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["2"])

    def test_a_constraint_that_is_checked_at_the_commit_fails_the_attempt(self, jobs, database):
        database.query("DROP TABLE IF EXISTS once")
        database.query("CREATE TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute("INSERT INTO once VALUES (1), (1)")

        handle = pay.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.errors[0].kind) == (State.DISCARDED, "onward.errors.BackendRefused")
        assert database.query("SELECT count(*) FROM once") == [(0,)]

    def test_nothing_that_a_handler_does_to_its_session_reaches_the_next(self, jobs, told):
        @jobs.job
        def spoil(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute("SET search_path TO pg_catalog")
                conn.execute("CREATE TEMPORARY TABLE mine (n int)")
                conn.execute("SELECT pg_advisory_lock(7)")
                conn.connection.row_factory = psycopg.rows.dict_row

        @jobs.job
        def look(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                told.append(conn.execute("SELECT current_setting('search_path'), to_regclass('mine')").fetchone())
                told.append(conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone())

        spoil.enqueue()
        look.enqueue()
        jobs.drain()

        assert told == [('"$user", public', None), (0,)]

    def test_behind_a_pooler(self, open_app, newest_postgres, database):
        with pgbouncer(newest_postgres) as url:
            jobs = open_app(f"{url}&pooler=transaction")

            @jobs.job
            def note() -> None: ...

            @jobs.job
            def pay(ctx: JobContext, n: int) -> None:
                with ctx.transaction() as conn:
                    conn.execute(WRITE.format(n))
                    conn.enqueue(note)

            pay.enqueue_many([(n,) for n in range(5)])
            jobs.drain()

            assert jobs.counts()[State.COMPLETED] == 10
            jobs.close()
        assert database.effects() == sorted(map(str, range(5)))

    def test_options_that_do_not_exist_are_refused_in_the_block_too(self, jobs, note, told):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn, pytest.raises(OptionError):
                conn.enqueue("note", {"label": "x"}, quueue="mail")

        handle = pay.enqueue()
        jobs.drain()

        assert handle.state() is State.COMPLETED


def _before_commit(conn, act):
    """Have something happen after the settlement, just before the commit is sent."""
    completion = conn._completion
    commit = completion.commit

    def late():
        act()
        commit()

    completion.commit = late
