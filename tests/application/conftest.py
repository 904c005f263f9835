"""What the tests of one process share: an application on each store that needs no server, on a clock that tests move."""

import threading
from datetime import timedelta

import pytest

from onward.backend import Claim
from onward.client import group_commit
from tests.applications import (
    clock,
    eventually,
    folder,
    jobs,
    listen,
    open_app,
    open_app_on,
    own_settings,
    store,
    url,
)

__all__ = [
    "clock",
    "eventually",
    "folder",
    "jobs",
    "listen",
    "open_app",
    "open_app_on",
    "own_settings",
    "store",
    "url",
]


@pytest.fixture
def claim_elsewhere():
    """Claim as a worker elsewhere would, whose process this test knows nothing of."""

    def claim_elsewhere(jobs, *, owner="elsewhere", queue="default", limit=1):
        claim = Claim(queues=(queue,), limit=limit, owner=owner, lease_for=timedelta(seconds=30))
        return jobs.backend.claim(claim)

    return claim_elsewhere


@pytest.fixture
def crash_elsewhere(claim_elsewhere, clock):
    """Let a worker elsewhere take a job and never be heard of again."""

    def crash_elsewhere(jobs, *, queue="default"):
        claim_elsewhere(jobs, owner=f"doomed-{clock.micros()}", queue=queue)
        clock.advance(31)
        return jobs.reap()

    return crash_elsewhere


@pytest.fixture
def impatient(monkeypatch):
    """An enqueue whose fate is unknown is repeated without a pause."""
    monkeypatch.setattr(group_commit, "jittered", lambda pause: 0)


@pytest.fixture
def in_threads():
    """Run a function in many threads at the same moment: ``in_threads(16, lambda n: …)``.  Returns what each returned."""

    def in_threads(count, work):
        answers, errors = [None] * count, []
        start = threading.Barrier(count)

        def body(number):
            start.wait()
            try:
                answers[number] = work(number)
            except BaseException as error:  # noqa: BLE001  raised again below
                errors.append(error)

        threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        if errors:
            raise errors[0]
        return answers

    return in_threads
