"""Every store that jobs can lie in, and what can be seen of it past all code of ours."""

import logging
import os
from contextlib import ExitStack

import pytest

from onward.backends.servicebus import ServiceBusBackend
from onward.base.clock import SystemClock
from tests.servers import redis as redis_servers
from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.servicebus import Clients, servicebus, url_of
from tests.servers.stores import emptied

STORES = ("memory", "sqlite", "postgres", "mysql", "redis", "beanstalk", "servicebus", "companion")
QUEUES = ("default", "mail", "ops", "dead")  # of a server where an administrator has to make them


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def a_redis():
    with redis_servers.redis_server("redis") as server:
        yield server


@pytest.fixture(scope="session")
def a_beanstalkd():
    with beanstalkd_server() as server:
        yield server


@pytest.fixture(scope="session")
def a_servicebus():
    """The server, and clients whose links stay open from test to test."""
    with servicebus(*QUEUES) as server:
        clients = Clients(url_of(server))
        clients.warm(2, QUEUES)
        yield server, clients
        clients.close()


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=STORES)
def store(request):
    return request.param


@pytest.fixture
def url(store, request, tmp_path, monkeypatch):
    """Where jobs lie; of a store beside a broker the environment tells."""
    match store:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed"
        case "postgres":
            return emptied(request.getfixturevalue("newest_postgres"))
        case "mysql":
            return request.getfixturevalue("mariadb").emptied()
        case "redis":
            return redis_servers.emptied(request.getfixturevalue("a_redis"))
        case "beanstalk" | "companion":
            if store == "companion":
                monkeypatch.setenv("ONWARD_STORE", f"sqlite:///{tmp_path / 'beside.db'}?durability=relaxed")
            server = request.getfixturevalue("a_beanstalkd")
            server.empty()
            return server.url()
        case "servicebus":
            server, clients = request.getfixturevalue("a_servicebus")
            server.clear()
            open_client = request.getfixturevalue("stack").enter_context(clients.lent(SystemClock()))
            monkeypatch.setattr(ServiceBusBackend, "from_url", lambda *_, **__: open_client())
            return url_of(server)


@pytest.fixture
def quiet():
    """Thousands of discards are thousands of lines."""
    before = logging.getLogger("onward.job").level
    logging.getLogger("onward.job").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("onward.job").setLevel(before)
