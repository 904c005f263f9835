"""The pytest plugin: a store for tests by an ini option, which tests find empty, and a clock that they move.

It stands beside the package and not in it: pytest imports it in every run, in every environment that has Onward installed,
and importing `onward` takes longer than all of this.  So nothing of it is imported before a test asks.

    [tool.pytest.ini_options]
    onward_url = "memory://"  # or "sqlite:///{tmp}/shop.db", in a folder that is made for the run
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from onward import Onward
    from onward.testing import FakeClock

_VARIABLE = "ONWARD_URL"
_FOLDER = "{tmp}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "onward_url",
        "The store of applications that name none: ONWARD_URL while the tests run.  {tmp} is a folder of this run.",
        default="",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything that could make an application is imported, a conftest.py included."""
    url = early_config.getini("onward_url")
    if url:
        if _FOLDER in url:
            folder = tempfile.mkdtemp(prefix="onward-tests-")
            early_config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
            url = url.replace(_FOLDER, folder)
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = url
        early_config.add_cleanup(lambda: _restore(before))


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = before


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that stands still until the test moves it: ``Onward("memory://", clock=fake_clock)``."""
    from onward.testing import FakeClock

    return FakeClock()


@pytest.fixture
def onward_emptied() -> Iterator[Callable[[Onward], None]]:
    """``onward_emptied(jobs)`` removes every job of an application, now and when the test has ended."""
    from onward.testing import empty_store

    applications: list[Onward] = []

    def empty(jobs: Onward) -> None:
        empty_store(jobs)
        applications.append(jobs)

    yield empty
    for jobs in applications:
        empty_store(jobs)
