"""Supervised workers: real processes that are really killed."""

import functools
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.servers.engines import ENGINES
from tests.supervisor.fleets import Fleet, Shop

SHARED_MEMORY = Path("/dev/shm")

collect_ignore = ["shop.py"]  # it is copied, and imported elsewhere


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_") and name != "ONWARD_PROOF_SCALE"]:
        monkeypatch.delenv(name)
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    """In memory where the system has room for that, since no machine dies here."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(prefix="onward-", dir=SHARED_MEMORY) as folder:
        yield Path(folder)


def pytest_generate_tests(metafunc):
    """Whatever depends on the store is asked of every engine; the rest is the supervisor's own, and one is enough.

    Of Redis only that is asked which its sessions and its silence decide, for every test takes seconds; and nothing of those
    who are killed while the store is locked, for what they had sent is done there when the lock is gone.
    """
    wanted = metafunc.definition.get_closest_marker
    if "store" in metafunc.fixturenames and wanted("every_store"):
        engines = [name for name in ENGINES if name != "redis" or wanted("redis_too")]
        metafunc.parametrize("store", engines, indirect=True)


@pytest.fixture
def store(request, folder, served):
    name = getattr(request, "param", "sqlite")
    return ENGINES[name].store(served(name), folder)


@pytest.fixture(scope="session")
def served():
    """Servers that are started when they are first needed: ``served("postgres")``."""
    with ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(ENGINES[name].server()))


@pytest.fixture
def open_shop(folder, store):
    """The application: ``shop = open_shop(lease_for=1)``."""
    with ExitStack() as stack:

        def open_it(**settings):
            shop = Shop(folder, store, **settings)
            stack.callback(shop.close)
            return shop

        yield open_it


@pytest.fixture
def shop(open_shop):
    return open_shop()


@pytest.fixture
def start():
    """Start a worker on a shop: ``fleet = start(shop, "--processes", 2)``.  Nothing of it outlives the test."""
    fleets = []

    def start_it(shop, *arguments, ready=True, **options):
        fleets.append(fleet := Fleet(shop, *arguments, **options))
        if ready:
            fleet.said("ready: ")
        return fleet

    yield start_it
    for fleet in fleets:
        fleet.kill()


@pytest.fixture(scope="session")
def scale():
    """The fraction of the full scale."""
    return float(os.environ.get("ONWARD_PROOF_SCALE", "0.02"))
