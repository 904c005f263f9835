"""Databases that hold both the jobs and a table of the user's own, by the ways in which drivers are told where they are."""

import sqlite3
from contextlib import closing

import psycopg
import pymysql

from tests.servers.stores import emptied

__all__ = ["Database", "in_mariadb", "in_postgres", "in_sqlite", "is_locked"]


class Database:
    """Its URL, its address for each kind of driver, and a connection past the backend."""

    def __init__(self, url, address, connect):
        self.url = url
        self.address = address
        self.connect = connect
        self.query("CREATE TABLE IF NOT EXISTS effects (label VARCHAR(100))")
        self.query("DELETE FROM effects")

    def query(self, statement):
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows

    def effects(self):
        return sorted(label for (label,) in self.query("SELECT label FROM effects"))


def in_sqlite(folder):
    file = str(folder / "shop.db")
    address = {
        "file": file,
        "sqlalchemy": f"sqlite:///{file}",
        "sqlalchemy async": f"sqlite+aiosqlite:///{file}",
        "django": {"ENGINE": "django.db.backends.sqlite3", "NAME": file},
    }
    return Database(f"sqlite:///{file}", address, lambda: sqlite3.connect(file))


def is_locked(database):
    """Whether a transaction has the write lock of an SQLite file."""
    try:
        with closing(sqlite3.connect(database.address["file"], timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    return False


def in_postgres(server):
    url, folder = emptied(server), str(server.folder)
    django = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "onward", "HOST": folder}
    address = {
        "driver": {"host": folder, "user": "onward", "dbname": "postgres"},
        "psycopg": f"postgresql+psycopg://onward@/postgres?host={folder}",
        "psycopg2": f"postgresql+psycopg2://onward@/postgres?host={folder}",
        "asyncpg": f"postgresql+asyncpg://onward@/postgres?host={folder}",
        "django": django,
    }
    return Database(url, address, lambda: psycopg.connect(url))


def in_mariadb(server):
    url, socket = server.emptied(), str(server.socket)
    django = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": "jobs",
        "USER": "onward",
        "OPTIONS": {"unix_socket": socket},
    }
    address = {
        "driver": {"unix_socket": socket, "user": "onward", "database": "jobs"},
        "pymysql": f"mysql+pymysql://onward@localhost/jobs?unix_socket={socket}",
        "mysqldb": f"mysql+mysqldb://onward@localhost/jobs?unix_socket={socket}",
        "django": django,
    }
    return Database(url, address, lambda: pymysql.connect(**address["driver"]))
