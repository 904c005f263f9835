from contextlib import closing

import pytest

from onward.backends.beanstalk import BeanstalkBackend
from tests.servers.beanstalkd import ServerClock, beanstalkd_server
from tests.servers.connecting import connected


@pytest.fixture(scope="session")
def timed_server():
    """A server whose clock stands still until it is moved."""
    with beanstalkd_server(fake_time=True) as server:
        yield server


@pytest.fixture
def server():
    """A server that a test may stop, restart and spoil."""
    with beanstalkd_server() as server:
        yield server


@pytest.fixture
def clock(timed_server):
    timed_server.empty()
    with closing(ServerClock(timed_server)) as clock:
        yield clock


@pytest.fixture
def open_backend(timed_server, clock):
    backends = []

    def open_backend(**options):
        backends.append(backend := connected(BeanstalkBackend.from_url(timed_server.url(**options), clock=clock)))
        return backend

    yield open_backend
    for backend in backends:
        backend.close()


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def open_at():
    """Opens a backend on a server that goes by the machine's clock."""
    backends = []

    def open_at(server, **options):
        backends.append(backend := connected(BeanstalkBackend.from_url(server.url(**options))))
        return backend

    yield open_at
    for backend in backends:
        backend.close()
