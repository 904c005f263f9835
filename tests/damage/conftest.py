"""A worker under a supervisor, on a store in which one cell holds what no worker would have written."""

import functools
from contextlib import ExitStack

import pytest

from tests.damage.broker_cells import BROKERS
from tests.servers.engines import ENGINES
from tests.supervisor.conftest import folder, open_shop, own_settings, scale, shop, start  # noqa: F401

ALL = ENGINES | BROKERS


@pytest.fixture
def store(request, folder, served):  # noqa: F811
    return ALL[request.param].store(served(request.param), folder)


@pytest.fixture(scope="session")
def served():
    """Servers that are started when they are first needed: ``served("postgres")``."""
    with ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(ALL[name].server()))
