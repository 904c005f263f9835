"""A shop with jobs in every state, a dashboard on it, and people of every role who ask it."""

import pytest

from onward import Onward
from onward.web import Dashboard, Token
from tests.applications import own_settings
from tests.servers import redis
from tests.servers.stores import emptied
from tests.web.asking import PEOPLE, Client, fill

__all__ = ["own_settings"]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/shop.db?durability=relaxed"


@pytest.fixture
def jobs(url):
    with Onward(url) as jobs:
        yield jobs


@pytest.fixture
def shop(jobs):
    return fill(jobs)


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def any_store(request, tmp_path):
    """The URL of an empty store, for what must hold on each kind of them."""
    if request.param == "postgres":
        return emptied(request.getfixturevalue("newest_postgres"))
    if request.param == "redis":
        return redis.emptied(request.getfixturevalue("any_redis"))
    return f"sqlite:///{tmp_path}/shop.db?durability=relaxed"


@pytest.fixture
def dashboard(jobs):
    return Dashboard(jobs, auth=Token(PEOPLE), refresh=0.1)


@pytest.fixture
def ask(dashboard):
    return Client(dashboard)
