"""What the tests of the other systems' words share: an application on a memory store."""

import os

import pytest

from onward import Onward
from onward.compat.celery import Celery
from onward.compat.celery.current import CURRENT
from onward.testing import FakeClock

collect_ignore = ["program"]  # a program for Celery, which its test copies and runs


@pytest.fixture(autouse=True)
def own_settings(monkeypatch):
    """No setting of the person who runs the tests reaches them, and no shared task of another test."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(CURRENT, "shared", {})
    yield
    CURRENT.set(None)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobs(clock):
    with Onward("memory://", clock=clock) as jobs:
        yield jobs


@pytest.fixture
def app(jobs):
    return Celery("shop", jobs=jobs)
