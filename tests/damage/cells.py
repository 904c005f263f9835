"""The cells of a store's tables, and how a person with write access puts a value into one."""

import sqlite3
from contextlib import closing
from typing import NamedTuple

import psycopg
import pymysql

from tests.damage.broker_cells import BROKER_CELLS
from tests.damage.redis_cells import RedisCells
from tests.damage.scenes import AUDIT_SCENES, LIMIT_SCENES, SCENES, stripes

# The tables that hold something in every shop of these tests, and the column that names the row to be damaged.
ROWS = {
    "jobs": "id",
    "finished": "id",
    "attempts": "job_id",
    "sessions": "owner",
    "queues": "name",
    "holds": "job_id",
    "schedules": "name",
    "audit": "ref",
    "flows": "id",
    "nodes": "flow",
    "additions": "flow",
    "members": "flow",
    "limits": "name",
    "gates": "lane",
    "stripes": "number",
}


# Every id that a table holds, but for tombstones.
ALL_IDS = "SELECT {id} FROM onward_jobs UNION SELECT {id} FROM onward_finished WHERE sealed IS NOT NULL"


class Cell(NamedTuple):
    table: str
    column: str

    def __str__(self):
        return f"{self.table}.{self.column}"


class CompanionCells:
    def __init__(self, store):
        self._file = store.file

    def columns(self, table):
        with closing(sqlite3.connect(self._file)) as connection:
            return [row[1] for row in connection.execute(f"PRAGMA table_info(onward_{table})")]

    def write(self, cell, row, value):
        """Whether the store took it.  Bytes go into a text column as text, which SQLite does not check."""
        cast = "CAST(? AS TEXT)" if isinstance(value, bytes) and self._is_text(cell) else "?"
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            try:
                found = connection.execute(
                    f"UPDATE onward_{cell.table} SET {cell.column} = {cast} WHERE {ROWS[cell.table]} = ?", (value, row)
                )
            except (sqlite3.Error, OverflowError):
                return False
            assert found.rowcount, f"there is no {row} in {cell.table}"
            return True

    def ids(self):
        """Bytes that are no text are escaped."""
        with closing(sqlite3.connect(self._file)) as connection:
            found = connection.execute(ALL_IDS.format(id="CAST(id AS BLOB)")).fetchall()
        return [job_id.decode("utf-8", "backslashreplace") for (job_id,) in found]

    def _is_text(self, cell):
        with closing(sqlite3.connect(self._file)) as connection:
            kinds = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info(onward_{cell.table})")}
        return kinds[cell.column] == "TEXT"


class SqliteCells(CompanionCells):
    SCENES = SCENES | LIMIT_SCENES | AUDIT_SCENES


class PostgresCells:
    SCENES = SCENES | LIMIT_SCENES | AUDIT_SCENES

    def __init__(self, store):
        self._url = store.url()

    def columns(self, table):
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position",
                (f"onward_{table}",),
            )
            return [name for (name,) in rows]

    def write(self, cell, row, value):
        with psycopg.connect(self._url) as connection:
            try:
                found = connection.execute(
                    f"UPDATE onward_{cell.table} SET {cell.column} = %s WHERE {ROWS[cell.table]} = %s", (value, row)
                )
            except (psycopg.Error, UnicodeError):
                connection.rollback()
                return False
            assert found.rowcount, f"there is no {row} in {cell.table}"
            return True

    def ids(self):
        with psycopg.connect(self._url) as connection:
            return [job_id for (job_id,) in connection.execute(ALL_IDS.format(id="id"))]


class MariaDBCells:
    SCENES = SCENES | LIMIT_SCENES | AUDIT_SCENES | {"stripes": stripes}

    def __init__(self, store):
        self._server = store._server

    def columns(self, table):
        with closing(self._server.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW COLUMNS FROM onward_{table}")
            return [row[0] for row in cursor.fetchall()]

    def write(self, cell, row, value):
        with closing(self._server.connect("jobs")) as connection, connection.cursor() as cursor:
            try:
                found = cursor.execute(
                    f"UPDATE onward_{cell.table} SET {cell.column} = %s WHERE {ROWS[cell.table]} = %s", (value, row)
                )
            except (pymysql.MySQLError, UnicodeError):
                return False
            connection.commit()
            return bool(found)

    def ids(self):
        with closing(self._server.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute(ALL_IDS.format(id="id"))
            return [job_id for (job_id,) in cursor.fetchall()]


CELLS = {
    "sqlite": SqliteCells,
    "postgres": PostgresCells,
    "mariadb": MariaDBCells,
    "redis": RedisCells,
    "companion": CompanionCells,
    **BROKER_CELLS,
}
