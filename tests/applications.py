"""Fixtures for an application in this process: on each store that needs no server, on a clock that tests move.

A folder of tests imports those that it wants into its conftest.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from onward import Onward
from onward.backends import memory, sqlite
from onward.telemetry import Event
from onward.testing import FakeClock
from tests import waiting

SHARED_MEMORY = Path("/dev/shm")
BACKENDS = {"memory": (memory, "MemoryBackend"), "sqlite": (sqlite, "SqliteBackend")}


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_") and name != "ONWARD_PROOF_SCALE"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    """Where the file of a store lies: in memory where the system has room for that, since no machine dies here."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(prefix="onward-", dir=SHARED_MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def url(store, folder):
    return "memory://" if store == "memory" else f"sqlite:///{folder / 'jobs.db'}"


@pytest.fixture
def open_app(url, clock):
    """Open an application: ``open_app(max_crashes=2)``.  On SQLite the second one sees the first one's jobs."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Onward(url, **{"clock": clock, **settings}))


@pytest.fixture
def jobs(open_app):
    return open_app()


@pytest.fixture
def open_app_on(open_app, store, monkeypatch):
    """Open an application on the real backend with some of its verbs overridden: ``open_app_on(Mixin, max_crashes=2)``."""

    def open_app_on(mixin, **settings):
        home, name = BACKENDS[store]
        with monkeypatch.context() as patch:
            patch.setattr(home, name, type(name, (mixin, getattr(home, name)), {}))
            return open_app(**settings)

    return open_app_on


@pytest.fixture
def listen():
    """Hear every event of an application: ``heard = listen(jobs)``, later ``heard(JobFailed)``."""

    def listen(jobs):
        events = []
        jobs.on(Event, events.append)

        def heard(*kinds):
            assert jobs.telemetry.flush()
            return [event for event in events if isinstance(event, kinds or Event)]

        return heard

    return listen


@pytest.fixture
def eventually():
    """Wait for a fact: ``eventually(lambda: ctx.cancelled)``.  It fails if the fact never comes, it never just sleeps."""
    return waiting.eventually
