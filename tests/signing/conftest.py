"""Every store that jobs can lie in, and what can be seen of it past all code of ours."""

import logging
import os

import pytest

from tests.servers import redis as redis_servers
from tests.servers.beanstalkd import beanstalkd_server
from tests.servers.stores import emptied

STORES = ("memory", "sqlite", "postgres", "mysql", "redis", "beanstalk")


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


@pytest.fixture(params=STORES)
def store(request):
    return request.param


@pytest.fixture
def url(store, request, tmp_path):
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
        case "beanstalk":
            server = request.getfixturevalue("a_beanstalkd")
            server.empty()
            return server.url()


@pytest.fixture
def quiet():
    """Thousands of discards are thousands of lines."""
    before = logging.getLogger("onward.job").level
    logging.getLogger("onward.job").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("onward.job").setLevel(before)
