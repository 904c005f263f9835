"""An application in this process that runs its jobs when it is asked to."""

import pytest

from onward.base.logs import Once
from onward.integrations import quietly
from tests.applications import clock, folder, jobs, open_app, own_settings, store, url

__all__ = ["clock", "folder", "jobs", "nothing_said", "open_app", "own_settings", "store", "url"]


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    """What is logged once in a process is logged in each test."""
    monkeypatch.setattr(quietly, "_warns", Once())
