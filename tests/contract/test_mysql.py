"""The MySQL backend keeps the contract, through one client and through two, on a MariaDB server."""

from contextlib import ExitStack, closing

import pytest

from onward.backends.mysql import MySQLBackend
from onward.testing.contract import BackendContract


class TestMySQL(BackendContract):
    @pytest.fixture
    def url(self, mariadb):
        return mariadb.emptied()

    @pytest.fixture
    def open_client(self, url, clock):
        with ExitStack() as clients:
            yield lambda: clients.enter_context(closing(MySQLBackend.from_url(url, clock=clock)))

    @pytest.fixture
    def backend(self, open_client):
        return open_client()

    @pytest.fixture
    def lose_session(self, mariadb, url):
        def lose(owner):
            with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
                cursor.execute("DELETE FROM onward_sessions WHERE owner = %s", (owner,))

        return lose

    @pytest.fixture
    def damage_schedule(self, mariadb, url):
        def damage(name):
            with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE onward_schedules SET version = 1 << 62, booked_until = -1 WHERE name = %s", (name.encode(),)
                )

        return damage
