"""A server that restarts and sessions that are ended, while a worker works: nothing is lost, nothing is settled twice."""

import signal

import psycopg
import pytest

from tests.backends.restarting import Restarts
from tests.servers.postgres import postgres_server


class TestRestarts(Restarts):
    engine = "postgres"

    @pytest.fixture
    def own_server(self, postgres):
        with postgres_server(postgres.version) as server:
            yield server

    @pytest.fixture
    def own_url(self, own_server):
        return own_server.url()

    def restart(self, server, at):
        server.restart(signal.SIGINT if at % 2 else signal.SIGQUIT)

    def cut(self, server):
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'onward%'"
            )
