"""The beanstalkd backend keeps the contract, but for what it declares that it cannot."""

from contextlib import closing

import pytest

from onward.backends.beanstalk import BeanstalkBackend
from onward.testing.contract import BackendContract
from tests.servers.beanstalkd import ServerClock, beanstalkd_server


@pytest.fixture(scope="module")
def server():
    with beanstalkd_server(fake_time=True) as server:
        yield server


class TestBeanstalkd(BackendContract):
    @pytest.fixture
    def clock(self, server):
        server.empty()
        with closing(ServerClock(server)) as clock:
            yield clock

    @pytest.fixture
    def open_client(self, server, clock):
        backends = []

        def open_client():
            backends.append(backend := BeanstalkBackend.from_url(server.url(), clock=clock))
            return backend

        yield open_client
        for backend in backends:
            backend.close()

    @pytest.fixture
    def backend(self, open_client):
        return open_client()
