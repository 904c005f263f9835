"""What contenders on MariaDB share: the server that the bench started, and a database of each one's own."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pymysql

BATCH = 1000  # jobs in one call of a bulk interface


def url(database: str) -> str:
    return os.environ["BENCH_MYSQL"].replace("/jobs?", f"/{database}?")


def connect(database: str | None = None) -> Any:
    (socket,) = parse_qs(urlsplit(url("")).query)["unix_socket"]
    return pymysql.connect(unix_socket=socket, user="onward", database=database, autocommit=True, ssl_disabled=True)


def fresh(database: str) -> str:
    """An empty database, and where it is."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database}")
    return url(database)
