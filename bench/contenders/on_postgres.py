"""What contenders on PostgreSQL share: the server that the bench started, and a database of each one's own."""

from __future__ import annotations

import os

import psycopg

from bench.contenders.aio import BATCH, Producer, forever, producing

__all__ = ["BATCH", "Producer", "forever", "fresh", "producing", "rest", "url"]


def url(database: str) -> str:
    return os.environ["BENCH_POSTGRES"].replace("/postgres?", f"/{database}?")


def fresh(database: str) -> str:
    """An empty database, and where it is."""
    with psycopg.connect(url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return url(database)


def rest(database: str) -> None:
    """What a server does now and then, done now: it is not part of anybody's figures."""
    with psycopg.connect(url(database), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
