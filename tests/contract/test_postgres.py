"""The PostgreSQL backend keeps the contract, through one client and through two, on an old server and on the newest."""

from contextlib import ExitStack, closing

import psycopg
import pytest

from onward.backends.postgres import PostgresBackend
from onward.testing.contract import BackendContract
from tests.servers.stores import emptied


class TestPostgres(BackendContract):
    @pytest.fixture
    def url(self, postgres):
        return emptied(postgres)

    @pytest.fixture
    def open_client(self, url, clock):
        with ExitStack() as clients:
            yield lambda: clients.enter_context(closing(PostgresBackend.from_url(url, clock=clock)))

    @pytest.fixture
    def backend(self, open_client):
        return open_client()

    @pytest.fixture
    def lose_session(self, url):
        def lose(owner):
            with psycopg.connect(url) as connection:
                connection.execute("DELETE FROM onward_sessions WHERE owner = %s", (owner,))

        return lose
