"""`ctx.transaction(connection)`: the job is completed if and only if the handler's own transaction commits."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from onward import JobContext, JobTimeout, Onward, State
from onward.errors import LeaseLost, TransactionError
from tests.servers.databases import in_sqlite
from tests.transactions.test_drivers import TABLE, command_of
from tests.waiting import eventually

WRITE = "INSERT INTO effects (label) VALUES ('{}')"
AFTER = {
    ("psycopg", "postgres"),
    ("pymysql", "mariadb"),
    ("sqlite3", "sqlite"),
    ("sqlalchemy_session", "sqlite"),
    ("sqlalchemy_session", "postgres"),
    ("sqlalchemy_session", "mariadb"),
    ("sqlalchemy_async_session", "postgres"),
}


@pytest.mark.promise("A23")
@pytest.mark.parametrize(
    ("driver", "where", "when"),
    [(*each, "before") for each in TABLE] + [(*each, "after") for each in sorted(AFTER)],
)
def test_the_job_is_completed_if_and_only_if_the_transaction_commits(driver, where, when, request, tmp_path):
    database = request.getfixturevalue(f"{where}_database")
    command, environment = command_of(driver, where, database, tmp_path)
    command[2] = "tests.transactions.completing_program"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = subprocess.Popen([*command, when], text=True, env=environment, **pipes)
    try:
        assert program.stdout.readline() == "in the middle\n", program.communicate()[1]
    finally:
        program.kill()
        program.communicate()

    with Onward(database.url) as jobs:
        records = {record.payload["label"]: record for record in jobs.list(job="work")}
        jobs.backend.reap(owner=records["killed"].owner, started=[(records["killed"].id, 1)])
        found = {label: jobs.get(record.id) for label, record in records.items()}
        children = sorted(record.payload["label"] for record in jobs.list(job="note"))

    states = {label: record.state for label, record in found.items()}
    survivors = ["commit"] if when == "before" else ["commit", "killed"]
    killed = State.RETRYABLE if when == "before" else State.COMPLETED
    assert states == {"commit": State.COMPLETED, "rollback": State.DISCARDED, "killed": killed}
    assert database.effects() == children == survivors
    assert (found["killed"].delivery, found["killed"].crashes) == (1, 1 if when == "before" else 0)


@pytest.fixture
def engine(database):
    address = database.address
    engine = create_engine(address.get("pymysql") or address.get("psycopg") or address["sqlalchemy"])
    yield engine
    engine.dispose()


@pytest.fixture
def pay(jobs, engine, note):
    """A job that writes with SQLAlchemy, and enqueues a receipt."""

    @jobs.job(max_retries=1)
    def pay(ctx: JobContext, label: str) -> str:
        with Session(engine) as session, session.begin():
            with ctx.transaction(session) as tx:
                session.execute(text(WRITE.format(label)))
                tx.enqueue(note, label)
                tx.complete({"paid": label})
            assert jobs.get(ctx.id).state is State.EXECUTING
        return "too late"

    return pay


@pytest.mark.promise("A23")
class TestOneCommit:
    def test_writes_children_and_the_success_are_committed_together(self, jobs, pay, database):
        handle = pay.enqueue("42")
        jobs.drain()

        record = handle.record()
        assert (record.state, record.attempts, record.errors) == (State.COMPLETED, 1, ())
        assert record.result == {"paid": "42"}
        assert database.effects() == ["42"]
        assert jobs.counts()[State.COMPLETED] == 2
        assert jobs.metrics.count("jobs_succeeded") == 2

    def test_keys_are_confirmed_with_it(self, jobs, pay, database):
        first = pay.using(idempotency_key="once", single_instance=True).enqueue("1")
        second = pay.using(idempotency_key="once", single_instance=True).enqueue("2")
        jobs.drain()
        jobs.drain()

        assert (first.state(), second.state()) == (State.COMPLETED, State.COMPLETED)
        assert "done by job" in second.record().reason
        assert database.effects() == ["1"]

    def test_an_error_after_the_commit_leaves_it_completed_and_is_recorded(self, jobs, engine, database):
        @jobs.job(max_retries=3)
        def work(ctx: JobContext) -> None:
            with engine.begin() as connection, ctx.transaction(connection):
                connection.execute(text(WRITE.format("paid")))
            raise RuntimeError("the mail server is away")

        handle = work.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, record.attempts) == (State.COMPLETED, 1)
        assert [error.message for error in record.errors] == ["the mail server is away"]
        assert database.effects() == ["paid"]

    def test_progress_after_the_block_does_not_wait_for_the_own_transaction(self, jobs, engine, caplog):
        took = []

        @jobs.job(name=f"report-{engine.dialect.name}")  # the log says it once for each job
        def report(ctx: JobContext) -> bool:
            with engine.begin() as connection:
                with ctx.transaction(connection):
                    pass
                began = time.monotonic()
                ctx.progress(0.5)
                took.append(time.monotonic() - began)
            ctx.progress(1)
            return ctx.lost

        handle = report.enqueue()
        jobs.drain()

        assert handle.state() is State.COMPLETED
        assert took[0] < 5  # seconds; the locks of stores are waited for much longer
        assert "report it before the block" in caplog.text

    @pytest.mark.parametrize("where", ["in the block", "on the way in"])
    def test_after_a_block_that_failed_steps_go_on(self, jobs, engine, where):
        @jobs.job
        def work(ctx: JobContext) -> int:
            with engine.connect() as connection, suppress(KeyError, TransactionError):
                if where == "in the block":
                    connection.begin()
                with ctx.transaction(connection):
                    raise KeyError(where)
            return ctx.step("compensate", int)

        handle = work.enqueue()
        jobs.drain()

        assert handle.record().errors == ()
        assert handle.result() == 0

    @pytest.mark.parametrize("where", ["in the block", "after it"])
    def test_an_exception_before_the_commit_undoes_all_of_it(self, jobs, engine, note, database, where):
        @jobs.job
        def work(ctx: JobContext) -> None:
            with engine.begin() as connection:
                with ctx.transaction(connection) as tx:
                    connection.execute(text(WRITE.format("no")))
                    tx.enqueue(note, "no")
                    if where == "in the block":
                        raise KeyError(where)
                raise KeyError(where)

        handle = work.enqueue()
        jobs.drain()

        record = handle.record()
        assert (record.state, [error.kind for error in record.errors]) == (State.DISCARDED, ["KeyError"])
        assert (database.effects(), jobs.list(job="note")) == ([], [])

    def test_a_handler_that_forgets_the_commit_fails_and_nothing_stays_locked(self, jobs, engine, database):
        kept = []

        @jobs.job
        def work(ctx: JobContext) -> None:
            session = Session(engine)
            kept.append(session)
            session.execute(text(WRITE.format("no")))
            with ctx.transaction(session):
                pass

        handle = work.enqueue()
        jobs.drain()

        record = handle.record()
        assert record.state is State.DISCARDED
        assert "was not committed" in record.errors[0].message
        assert not kept[0].in_transaction()
        assert database.effects() == []

    def test_a_hook_may_commit(self, jobs, engine, database):
        current: ContextVar[Session] = ContextVar("current")

        @jobs.around
        def session(ctx: JobContext) -> Iterator[None]:
            with Session(engine) as session, session.begin():
                current.set(session)
                yield

        @jobs.job
        def work(ctx: JobContext, fails: bool) -> None:
            with ctx.transaction(current.get()):
                current.get().execute(text(WRITE.format(f"fails={fails}")))
            if fails:
                raise KeyError("no")

        good, bad = work.enqueue(fails=False), work.enqueue(fails=True)
        jobs.drain()

        assert (good.state(), bad.state()) == (State.COMPLETED, State.DISCARDED)
        assert database.effects() == ["fails=False"]

    def test_a_time_out_before_the_commit_undoes_all_of_it(self, jobs, engine, database):
        seen = []

        @jobs.job(timeout=0.5)
        def work(ctx: JobContext) -> None:
            with engine.begin() as connection:
                with ctx.transaction(connection):
                    connection.execute(text(WRITE.format("no")))
                try:
                    while True:
                        pass
                except JobTimeout:
                    seen.append("interrupted")
                    raise

        handle = work.enqueue()
        jobs.drain()

        assert (handle.state(), seen, database.effects()) == (State.DISCARDED, ["interrupted"], [])

    def test_a_lease_that_was_lost_meanwhile_rolls_it_back(self, jobs, open_app, engine, database):
        other, told = open_app(), []

        @jobs.job(max_retries=1)
        def work(ctx: JobContext) -> None:
            if ctx.delivery == 1:
                other.backend.reap(owner=jobs.get(ctx.id).owner)
            try:
                with engine.begin() as connection, ctx.transaction(connection):
                    connection.execute(text(WRITE.format(ctx.delivery)))
            except LeaseLost as error:
                told.append(str(error))
                raise

        handle = work.enqueue()
        jobs.drain()
        jobs.drain()

        assert (handle.state(), handle.record().delivery, database.effects()) == (State.COMPLETED, 2, ["2"])
        assert "is no longer this worker's" in told[0]

    def test_a_worker_settles_it_too(self, jobs, pay, database):
        with jobs.worker():
            handle = pay.enqueue("x")
            assert handle.result(30) == {"paid": "x"}
            (receipt,) = jobs.list(job="note")
            jobs.handle(receipt.id).result(30)

        assert jobs.metrics.count("jobs_succeeded") == 2
        assert database.effects() == ["x"]


@pytest.mark.promise("A23")
class TestAsync:
    @pytest.fixture(params=["sqlite", "postgres"])
    def database(self, request):
        return request.getfixturevalue(f"{request.param}_database")

    @pytest.fixture
    def address(self, database):
        return database.address.get("asyncpg") or database.address["sqlalchemy async"]

    def test_an_async_session_completes_its_job(self, jobs, note, database, address):
        @jobs.job
        async def pay(ctx: JobContext, fails: bool) -> None:
            engine = create_async_engine(address)
            try:
                async with AsyncSession(engine) as session, session.begin():
                    async with ctx.transaction(session) as tx:
                        await session.execute(text(WRITE.format(f"fails={fails}")))
                        handle = await tx.enqueue(note, "receipt")
                        record = await tx.get(handle.id)
                        tx.complete(record.payload)
                    if fails:
                        raise KeyError("no")
            finally:
                await engine.dispose()

        good, bad = pay.enqueue(fails=False), pay.enqueue(fails=True)
        with jobs.worker():
            assert good.result(30) == {"label": "receipt"}
            eventually(lambda: bad.state() is State.DISCARDED)

        assert bad.record().errors[0].kind == "KeyError"
        assert database.effects() == ["fails=False"]
        assert len(jobs.list(job="note")) == 1

    def test_one_that_is_left_open_is_rolled_back(self, jobs, database, address):
        kept = []

        @jobs.job
        async def pay(ctx: JobContext) -> None:
            session = AsyncSession(create_async_engine(address))
            kept.append(session)
            async with ctx.transaction(session):
                await session.execute(text(WRITE.format("no")))

        @jobs.job
        async def tidy_up() -> None:  # on the same event loop
            assert not kept[0].in_transaction()
            await kept[0].bind.dispose()

        handle, tidied = pay.enqueue(), tidy_up.enqueue()
        jobs.drain()

        assert "was not committed" in handle.record().errors[0].message
        assert tidied.state() is State.COMPLETED
        assert database.effects() == []


class TestRefusals:
    def _told(self, jobs, use):
        @jobs.job(name=f"use_{id(use)}")
        def work(ctx: JobContext) -> None:
            use(ctx)

        handle = work.enqueue()
        jobs.drain()
        assert handle.state() is State.DISCARDED
        return handle.record().errors[0].message

    def test_a_connection_that_commits_by_itself(self, jobs, engine):
        def use(ctx):
            with (
                engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
                ctx.transaction(connection),
            ):
                pass

        assert "commits every statement at once" in self._told(jobs, use)

    def test_another_database(self, jobs, tmp_path, database):
        folder = tmp_path / "other"
        folder.mkdir()
        other = in_sqlite(folder)
        with Onward(other.url).connect():
            pass
        engine = create_engine(other.address["sqlalchemy"])

        def use(ctx):
            with engine.begin() as connection, ctx.transaction(connection):
                connection.execute(text(WRITE.format("no")))

        told = self._told(jobs, use)
        assert "another" in told or "connection to a sqlite database" in told
        assert other.effects() == []
        engine.dispose()

    def test_what_makes_connections(self, jobs, engine):
        assert "with engine.begin() as connection" in self._told(jobs, lambda ctx: ctx.transaction(engine))
        told = self._told(jobs, lambda ctx: ctx.transaction(sessionmaker(engine)))
        assert "with make_session.begin() as session" in told

    def test_two_blocks_in_one_run(self, jobs, engine):
        def use(ctx):
            with engine.begin() as connection:
                with ctx.transaction(connection):
                    pass
                with ctx.transaction(connection):
                    pass

        assert "this run has already had its transaction" in self._told(jobs, use)

    def test_what_is_said_after_the_block(self, jobs, engine, note):
        def use(ctx):
            with engine.begin() as connection:
                with ctx.transaction(connection) as tx:
                    pass
                tx.enqueue(note, "x")

        assert "has ended" in self._told(jobs, use)

    def test_a_context_made_by_hand(self):
        ctx = JobContext(
            id="x", job="j", name="j", queue="q", attempt=1, max_retries=0, payload=b"{}", meta={}, delivery=1
        )
        with pytest.raises(TransactionError, match="made by hand"):
            ctx.transaction(object())


def test_a_plain_enqueue_in_the_block_is_refused_where_it_would_wait_for_itself(tmp_path):
    database = in_sqlite(tmp_path)
    engine = create_engine(database.address["sqlalchemy"])
    with Onward(database.url) as jobs:

        @jobs.job
        def note() -> None: ...

        @jobs.job
        def work(ctx: JobContext) -> None:
            with engine.begin() as connection, ctx.transaction(connection):
                connection.execute(text(WRITE.format("x")))
                note.enqueue()

        handle = work.enqueue()
        jobs.drain()

        assert "write lock" in handle.record().errors[0].message
    engine.dispose()
