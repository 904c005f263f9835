"""The PostgreSQL backend keeps the contract through a pooler that lends a session for one transaction at a time."""

from contextlib import closing

import psycopg
import pytest

from onward.testing.contract import BackendContract
from tests.servers.pgbouncer import pgbouncer
from tests.servers.postgres import postgres_server
from tests.servers.stores import WarmClients, emptied


@pytest.fixture(scope="module")
def server():
    # The pooler and the suite are the same for every version of the server: one is enough.
    with postgres_server("15") as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server):
    with pgbouncer(server) as url:
        yield url


@pytest.fixture(scope="module")
def clients(server, pooler):
    emptied(server)  # which makes the tables
    with closing(WarmClients(f"{pooler}&pooler=transaction")) as clients:
        yield clients


@pytest.mark.promise("F30")
@pytest.mark.second_of_a_pair("PostgreSQL 15 behind a pooler")
class TestPgBouncer(BackendContract):
    @pytest.fixture
    def url(self, server):
        return emptied(server)

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
