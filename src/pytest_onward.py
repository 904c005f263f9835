"""The pytest plugin: a store for tests by an ini option, and a clock that tests move.

It stands beside the package and not in it: pytest imports it in every run, in every environment that has Onward installed,
and importing `onward` takes longer than all of this.  So nothing of it is imported before a test asks.

    [tool.pytest.ini_options]
    onward_url = "memory://"
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from onward.testing import FakeClock

_VARIABLE = "ONWARD_URL"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("onward_url", "The store of applications that name none: ONWARD_URL while the tests run.", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything that could make an application is imported, a conftest.py included."""
    url = early_config.getini("onward_url")
    if url:
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
