"""A program that writes and enqueues in one transaction, with the driver it is told to use, and is killed in the middle.

    python -m tests.transactions.program <driver> <url of the jobs> <address of the database, as JSON>

It commits one transaction, rolls back another, and waits in the middle of a third.
"""

import asyncio
import json
import sys

from onward import Onward

WRITE = "INSERT INTO effects (label) VALUES ('{}')"


class Undo(Exception):
    """How the second transaction ends."""


class Third:
    """One after the other: each transaction says what it is about, and how it ends."""

    def __init__(self, jobs, address):
        self.jobs = jobs
        self.address = address
        self.label = ""

        @jobs.job
        def note(label: str) -> None: ...

        self.note = note

    @property
    def write(self):
        return WRITE.format(self.label)

    def end(self):
        if self.label == "rollback":
            raise Undo
        if self.label == "killed":
            sys.stdout.write("in the middle\n")
            sys.stdout.flush()
            sys.stdin.read()


# PostgreSQL


def psycopg(it):
    import psycopg

    with psycopg.connect(**it.address) as connection:
        connection.execute(it.write)
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        it.end()


def psycopg_autocommit(it):
    import psycopg

    connection = psycopg.connect(**it.address, autocommit=True, row_factory=psycopg.rows.dict_row)
    with connection.transaction(), it.jobs.transaction(connection) as tx:
        connection.execute(it.write)
        tx.enqueue(it.note, it.label)
        it.end()


async def psycopg_async(it):
    import psycopg

    async with await psycopg.AsyncConnection.connect(**it.address) as connection:
        await connection.execute(it.write)
        async with it.jobs.transaction(connection) as tx:
            await tx.enqueue(it.note, it.label)
        it.end()


def psycopg2(it):
    import psycopg2

    connection = psycopg2.connect(**it.address)
    with connection, connection.cursor() as cursor:
        cursor.execute(it.write)
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        it.end()


async def asyncpg(it):
    import asyncpg

    address = {"database" if name == "dbname" else name: value for name, value in it.address.items()}
    connection = await asyncpg.connect(**address)
    async with connection.transaction():
        await connection.execute(it.write)
        async with it.jobs.transaction(connection) as tx:
            await tx.enqueue(it.note, it.label)
        it.end()


async def asyncpg_pool(it):
    import asyncpg

    address = {"database" if name == "dbname" else name: value for name, value in it.address.items()}
    async with (
        asyncpg.create_pool(**address, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
        it.jobs.transaction(connection) as tx,
    ):
        await tx.enqueue(it.note, it.label)
        await connection.execute(it.write)
        it.end()


# MySQL and MariaDB


def pymysql(it):
    import pymysql

    connection = pymysql.connect(**it.address)
    try:
        with connection.cursor() as cursor:
            cursor.execute(it.write)
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        it.end()
        connection.commit()
    except Undo:
        connection.rollback()


def mysqlclient(it):
    import MySQLdb

    connection = MySQLdb.connect(**it.address)
    try:
        cursor = connection.cursor()
        cursor.execute(it.write)
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        it.end()
        connection.commit()
    except Undo:
        connection.rollback()


# SQLite


def sqlite3(it):
    import sqlite3

    connection = sqlite3.connect(it.address["file"])
    with connection:
        connection.execute(it.write)
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        it.end()


def sqlite3_begun(it):
    import sqlite3

    connection = sqlite3.connect(it.address["file"], isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("BEGIN IMMEDIATE")
    try:
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        connection.execute(it.write)
        it.end()
        connection.execute("COMMIT")
    except Undo:
        connection.execute("ROLLBACK")


async def aiosqlite(it):
    import aiosqlite

    async with aiosqlite.connect(it.address["file"]) as connection:
        await connection.execute(it.write)
        async with it.jobs.transaction(connection) as tx:
            await tx.enqueue(it.note, it.label)
        try:
            it.end()
            await connection.commit()
        except Undo:
            await connection.rollback()


# SQLAlchemy


def sqlalchemy_connection(it):
    from sqlalchemy import create_engine, text

    with create_engine(it.address["sqlalchemy"]).begin() as connection:
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        connection.execute(text(it.write))
        it.end()


def sqlalchemy_session(it):
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session

    with Session(create_engine(it.address["sqlalchemy"])) as session, session.begin():
        with it.jobs.transaction(session) as tx:
            tx.enqueue(it.note, it.label)
        session.execute(text(it.write))
        it.end()


async def sqlalchemy_async_session(it):
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    async with AsyncSession(create_async_engine(it.address["sqlalchemy"])) as session, session.begin():
        async with it.jobs.transaction(session) as tx:
            await tx.enqueue(it.note, it.label)
        await session.execute(text(it.write))
        it.end()


# Django


def django(it):
    from django.conf import settings
    from django.db import connection, transaction

    if not settings.configured:
        settings.configure(DATABASES={"default": it.address["django"]}, DEBUG=True)
    with transaction.atomic():
        with it.jobs.transaction(connection) as tx:
            tx.enqueue(it.note, it.label)
        with connection.cursor() as cursor:
            cursor.execute(it.write)
        it.end()


DRIVERS = {
    act.__name__: act
    for act in (
        psycopg,
        psycopg_autocommit,
        psycopg_async,
        psycopg2,
        asyncpg,
        asyncpg_pool,
        pymysql,
        mysqlclient,
        sqlite3,
        sqlite3_begun,
        aiosqlite,
        sqlalchemy_connection,
        sqlalchemy_session,
        sqlalchemy_async_session,
        django,
    )
}


def main(driver, url, address):
    act = DRIVERS[driver]
    with Onward(url).connect() as jobs:
        it = Third(jobs, json.loads(address))
        for it.label in ("commit", "rollback", "killed"):
            try:
                made = act(it)
                if asyncio.iscoroutine(made):
                    asyncio.run(made)
            except Undo:
                pass


if __name__ == "__main__":
    main(*sys.argv[1:])
