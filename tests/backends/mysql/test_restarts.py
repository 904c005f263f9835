"""A server that restarts and sessions that are ended, while a worker works: nothing is lost, nothing is settled twice."""

import signal

import pytest

from tests.backends.restarting import Restarts


class TestRestarts(Restarts):
    engine = "mariadb"

    @pytest.fixture
    def own_server(self, spare_server):
        return spare_server

    @pytest.fixture
    def own_url(self, own_server):
        return own_server.emptied()

    def restart(self, server, at):
        server.restart(signal.SIGTERM if at % 2 else signal.SIGKILL)

    def cut(self, server):
        server.end_sessions()
