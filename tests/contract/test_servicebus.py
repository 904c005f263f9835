"""The Service Bus backend keeps the contract, but for what it declares that it cannot."""

import pytest

from onward.testing.contract import BackendContract
from tests.servers.servicebus import STRANGE, Clients, namespace


@pytest.fixture(scope="module")
def server():
    with namespace() as server:
        yield server


@pytest.fixture(scope="module")
def clients(server):
    clients = Clients(server.url)
    clients.warm(1, ["default", "a", "b", "c", "axb", "other", *STRANGE])
    clients.warm(2, ["default"])
    yield clients
    clients.close()


class TestServiceBus(BackendContract):
    CLAIMING_THREADS = 4  # the last one waits for what the others have
    CLAIMED_JOBS = 100

    @pytest.fixture
    def clock(self, server):
        server.empty()
        return server.clock

    @pytest.fixture
    def open_client(self, clients, clock):
        with clients.lent(clock) as open_client:
            yield open_client

    @pytest.fixture
    def backend(self, open_client):
        return open_client()
