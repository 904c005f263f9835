"""Fixtures that ask a test of every store: import them, and `url` is that of each in turn."""

import pytest

from tests.servers.engines import ENGINES, MariaDBStore, PostgresStore, RedisStore


@pytest.fixture(params=["memory", *ENGINES])
def store(request):
    return request.param


@pytest.fixture(scope="module")
def redis_server():
    with ENGINES["redis"].server() as server:
        yield server


@pytest.fixture
def url(store, folder, request):
    match store:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{folder / 'jobs.db'}"
        case "postgres":
            return PostgresStore(request.getfixturevalue("newest_postgres"), folder).url()
        case "mariadb":
            return MariaDBStore(request.getfixturevalue("mariadb"), folder).url()
        case _:
            return RedisStore(request.getfixturevalue("redis_server"), folder).url()
