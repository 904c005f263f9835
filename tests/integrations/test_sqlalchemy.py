"""Every kind of session that the guide names can be joined: a job goes with its commit, its rollback and its savepoint."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest
import sqlmodel
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as AsyncModelSession


@contextmanager
def scoped(engine):
    session = scoped_session(sessionmaker(engine))
    yield session
    session.remove()


@asynccontextmanager
async def async_scoped(engine):
    session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    yield session
    await session.remove()


SYNC = {
    "Session": Session,
    "scoped_session": scoped,
    "Connection": lambda engine: engine.connect(),
    "SQLModel's Session": sqlmodel.Session,
}
ASYNC = {
    "AsyncSession": AsyncSession,
    "async_scoped_session": async_scoped,
    "AsyncConnection": lambda engine: engine.connect(),
    "SQLModel's AsyncSession": AsyncModelSession,
}


@pytest.fixture
def store():
    return "sqlite"


@pytest.fixture
def send(jobs):
    @jobs.job
    def send(what: str) -> None: ...

    jobs.connect()
    return send


def found(jobs):
    return [job.payload["what"] for job in jobs.list()]


@pytest.mark.promise("F90")
@pytest.mark.parametrize("kind", SYNC)
def test_a_job_goes_with_the_transaction_of_a_session(jobs, send, url, kind):
    engine = create_engine(url)
    with SYNC[kind](engine) as session:
        enqueue(jobs, session, send, "rolled back")
        session.rollback()
        enqueue(jobs, session, send, "committed")
        with session.begin_nested() as savepoint:
            enqueue(jobs, session, send, "to the savepoint")
            savepoint.rollback()
        session.commit()
    engine.dispose()

    assert found(jobs) == ["committed"]


def enqueue(jobs, session, job, *args):
    with jobs.transaction(session) as tx:
        tx.enqueue(job, *args)


@pytest.mark.promise("F90")
@pytest.mark.parametrize("kind", ASYNC)
def test_a_job_goes_with_the_transaction_of_a_session_that_is_awaited(jobs, send, url, kind):
    async def run():
        engine = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
        async with ASYNC[kind](engine) as session:
            await aenqueue(jobs, session, send, "rolled back")
            await session.rollback()
            await aenqueue(jobs, session, send, "committed")
            savepoint = await session.begin_nested()
            await aenqueue(jobs, session, send, "to the savepoint")
            await savepoint.rollback()
            await session.commit()
        await engine.dispose()

    asyncio.run(run())

    assert found(jobs) == ["committed"]


async def aenqueue(jobs, session, job, *args):
    async with jobs.transaction(session) as tx:
        await tx.enqueue(job, *args)
