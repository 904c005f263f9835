"""A server and connections that are killed while a worker works: nothing is lost, nothing is settled twice.

Everything was appended to the file before it was answered; memory outlives the server.
"""

import pytest

from tests.backends.restarting import SCALE, Restarts


class TestRestarts(Restarts):
    engine = "redis"
    crash_every = 1
    restarts = max(3, round(60 * SCALE))

    @pytest.fixture
    def own_url(self, own_server):
        return own_server.url()

    def restart(self, server, at):
        server.restart()

    def cut(self, server):
        with server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
