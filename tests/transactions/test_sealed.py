"""Jobs that are sealed before they are stored, and jobs as the caller's own transaction sees them."""

import asyncio

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from onward import State
from onward.errors import TransactionError


@pytest.fixture
def session(database):
    address = database.address
    engine = create_engine(address.get("psycopg2") or address.get("pymysql") or address["sqlalchemy"])
    with Session(engine) as session:
        yield session
    engine.dispose()


@pytest.mark.promise("F90")
def test_sealed_jobs_are_stored_with_the_transaction(jobs, note, session):
    sealed = note.sealed_many([("a",), ("b",)])
    jobs.connect()

    with session.begin(), jobs.transaction(session) as tx:
        answers = tx.put(sealed)
        assert [answer.id for answer in answers] == [envelope.id for envelope in sealed]
        assert all(answer.created for answer in answers)
        assert [answer.created for answer in tx.put(sealed)] == [False, False]
        assert tx.put([]) == []
        assert jobs.get(sealed[0].id) is None

    jobs.drain()
    assert [jobs.handle(envelope.id).result() for envelope in sealed] == ["a", "b"]
    assert jobs.metrics.count("jobs_enqueued") == 2


def test_a_job_is_seen_in_the_transaction_that_enqueued_it(jobs, note, session):
    jobs.connect()
    ended = note.enqueue("before")
    jobs.drain()

    with session.begin(), jobs.transaction(session) as tx:
        handle = tx.enqueue(note.using(meta={"tenant": "acme"}, delay=60, priority=7), "größe")
        record = tx.get(handle.id)
        assert (record.state, record.payload, record.meta) == (State.SCHEDULED, {"label": "größe"}, {"tenant": "acme"})
        assert (record.priority, record.enqueued_at) == (7, handle.enqueued_at)
        assert jobs.get(handle.id) is None
        assert tx.get(ended.id) == ended.record()
        assert tx.get("no such job") is None

    assert handle.record() == record


def test_failed_runs_are_seen_there_too(jobs, session):
    @jobs.job
    def fails() -> None:
        raise ValueError("no")

    handle = fails.enqueue()
    jobs.drain()

    with session.begin(), jobs.transaction(session) as tx:
        assert tx.get(handle.id) == handle.record()
        assert tx.get(handle.id).errors[0].kind == "ValueError"


def test_after_the_block_nothing_is_shown(jobs, note, session):
    jobs.connect()
    with session.begin():
        with jobs.transaction(session) as tx:
            pass
        with pytest.raises(TransactionError, match="has ended"):
            tx.get("x")
        with pytest.raises(TransactionError, match="has ended"):
            tx.put([])


class TestAsync:
    @pytest.fixture(params=["sqlite", "postgres"])
    def database(self, request):
        return request.getfixturevalue(f"{request.param}_database")

    def test_the_same_is_awaited(self, jobs, note, database):
        jobs.connect()
        sealed = note.sealed_many([("a",)])

        async def work():
            engine = create_async_engine(database.address.get("asyncpg") or database.address["sqlalchemy async"])
            async with AsyncSession(engine) as session, session.begin(), jobs.transaction(session) as tx:
                (answer,) = await tx.put(sealed)
                record = await tx.get(answer.id)
            await engine.dispose()
            return record

        record = asyncio.run(work())

        assert record == jobs.get(sealed[0].id)


@pytest.mark.parametrize("kind", ["engine", "sessionmaker"])
def test_what_makes_connections_is_refused_with_the_way_to_one(jobs, session, kind):
    from sqlalchemy.orm import sessionmaker

    makers = {
        "engine": (session.get_bind(), "with engine.begin() as connection"),
        "sessionmaker": (sessionmaker(session.get_bind()), "with make_session.begin() as session"),
    }
    maker, fix = makers[kind]

    with pytest.raises(TransactionError, match=fix.replace("(", r"\(").replace(")", r"\)")):
        jobs.transaction(maker)
