"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import pytest

from tests.backends.forking import ForksOfServers, ForksWhileWaiting


class TestForks(ForksOfServers, ForksWhileWaiting):
    @pytest.fixture
    def connections(self, raw):
        return lambda: [client["id"] for client in raw.client_list() if client["name"] == "onward"]

    @pytest.fixture
    def is_left(self, backend):
        return lambda connection: connection not in backend._connections._open.values()

    @pytest.fixture
    def is_waiting(self, raw):
        return lambda: any(client["cmd"] == "blpop" for client in raw.client_list())
