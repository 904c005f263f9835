import gc
import warnings

import pytest

from onward.backends.servicebus import ServiceBusBackend
from onward.testing.clock import FakeClock
from tests.servers.connecting import connected
from tests.servers.servicebus import Clients, entity, servicebus, url_of

LOCK = 60


@pytest.fixture(scope="session", autouse=True)
def sockets_of_the_sdk():
    """Collect the sockets that the SDK forgets when a connection is cut: here, and not in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def module_clock():
    return FakeClock()


@pytest.fixture(scope="module")
def timed_server(module_clock):
    """A server whose clock stands still until it is moved."""
    with servicebus(clock=module_clock, lock_duration=LOCK) as server:
        yield server


@pytest.fixture(scope="module")
def clients(timed_server):
    clients = Clients(url_of(timed_server))
    clients.warm(2, ["default"])
    yield clients
    clients.close()


@pytest.fixture
def clock(timed_server, module_clock):
    timed_server.clear()
    return module_clock


@pytest.fixture
def open_backend(clients, clock):
    """Opens another process's backend, as far as the server can tell."""
    with clients.lent(clock) as open_client:
        yield open_client


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def other(backend, open_backend):
    return open_backend()


@pytest.fixture
def server():
    """A server that a test may stop, restart and spoil; it goes by the machine's clock."""
    with servicebus(lock_duration=LOCK, duplicate_detection_window=600) as server:
        yield server


@pytest.fixture
def open_at():
    backends = []

    def open_at(server, **options):
        backends.append(backend := connected(ServiceBusBackend.from_url(url_of(server, **options))))
        return backend

    yield open_at
    for backend in backends:
        backend.close()


@pytest.fixture
def messages(timed_server):
    """What the server has: alive, and dead."""

    def messages(queue="default"):
        name = entity(queue)
        return timed_server.messages(name), timed_server.messages(f"{name}/$deadletterqueue")

    return messages
