from contextlib import ExitStack, closing

import pytest

from onward.backends.beanstalk import BeanstalkBackend
from onward.backends.companion import AccompaniedBackend
from onward.backends.sqlite import SqliteBackend
from tests.servers.beanstalkd import ServerClock, beanstalkd_server


@pytest.fixture(scope="session")
def timed_server():
    """A server whose clock stands still until it is moved."""
    with beanstalkd_server(fake_time=True) as server:
        yield server


@pytest.fixture(scope="module")
def server():
    """A server that goes by the machine's clock."""
    with beanstalkd_server() as server:
        yield server


@pytest.fixture
def clock(timed_server):
    timed_server.empty()
    with closing(ServerClock(timed_server)) as clock:
        yield clock


@pytest.fixture
def open_pair(timed_server, clock, tmp_path):
    """A broker and the store beside it, as one process has them."""
    with ExitStack() as opened:

        def open_pair():
            broker = BeanstalkBackend.from_url(timed_server.url(), clock=clock)
            store = SqliteBackend.open(tmp_path / "jobs.db", clock=clock, durability="relaxed")
            return opened.enter_context(closing(AccompaniedBackend(broker, store, clock=clock)))

        yield open_pair


@pytest.fixture
def backend(open_pair):
    return open_pair()
