"""The PostgreSQL backend keeps the contract, through one client and through two.

On the newest server; the old one is asked through a pooler (test_pgbouncer), and in `make proof` here, too (tests/pairs.py).
"""

from contextlib import closing

import psycopg
import pytest

from onward.testing.contract import BackendContract
from tests.servers.stores import WarmClients, emptied


@pytest.fixture(scope="module")
def clients(postgres):
    with closing(WarmClients(postgres.url())) as clients:
        yield clients


class TestPostgres(BackendContract):
    @pytest.fixture
    def url(self, postgres):
        return emptied(postgres)

    @pytest.fixture
    def open_client(self, url, clients, clock):
        with clients.lent(clock) as open_client:
            yield open_client

    @pytest.fixture
    def backend(self, open_client):
        return open_client()

    @pytest.fixture
    def lose_session(self, url):
        def lose(owner):
            with psycopg.connect(url) as connection:
                connection.execute("DELETE FROM onward_sessions WHERE owner = %s", (owner,))

        return lose

    @pytest.fixture
    def damage_schedule(self, url):
        def damage(name):
            with psycopg.connect(url) as connection:
                connection.execute(
                    "UPDATE onward_schedules SET version = 2 ^ 62, seen_at = -1 WHERE name = %s", (name,)
                )

        return damage
