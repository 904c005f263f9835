"""A server, a clock that stands still, and ways to open and run things on them."""

from contextlib import ExitStack, closing

import pytest

from onward.backends.redis import RedisBackend
from tests.servers.connecting import connected
from tests.servers.proxy import proxy_to
from tests.servers.redis import emptied, redis_server


@pytest.fixture
def store_name(redis):
    """As reports name it."""
    return redis.product.capitalize()


@pytest.fixture
def url(redis):
    """A server that holds nothing."""
    return emptied(redis)


@pytest.fixture
def own_server(redis):
    """A server that a test may kill and set up as it likes."""
    with redis_server(redis.product) as server:
        yield server


@pytest.fixture
def open_backend(url, clock):
    """Open a server as often as asked for; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_it(at=url, **options):
            return opened.enter_context(closing(connected(RedisBackend.from_url(at, **{"clock": clock, **options}))))

        yield open_it


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def raw(redis, url):
    """The server itself, past the backend."""
    with redis.client() as client:
        yield client


@pytest.fixture
def proxy(redis, url):
    with proxy_to(redis) as proxy:
        yield proxy
