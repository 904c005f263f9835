"""Fixtures for tests of marks: a backend whose marks go by a watch that tests move, and a session that stays open."""

import psycopg
import pytest

from onward.backends.postgres.queue_marks import QueueMarks
from onward.testing.contract.builders import a_session

BATCH = 50
SECOND = 1.0


class Watch:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def backend(open_backend, watch):
    backend = open_backend()
    backend._marks = QueueMarks(watch)
    backend.open_session(a_session())
    return backend


@pytest.fixture
def snapshot(url, sql):
    """A session that has begun to read and does not end."""
    sql("VACUUM onward_jobs")  # what other tests have left
    with psycopg.connect(url) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM onward_jobs")
        yield other
