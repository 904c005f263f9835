"""What the tests of one process share: an application on each store that needs no server, on a clock that tests move."""

import os
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from onward import Onward
from onward.backend import Claim
from onward.backends import opening
from onward.client import client as enqueueing
from onward.telemetry import Event
from onward.testing import FakeClock

SHARED_MEMORY = Path("/dev/shm")
BACKENDS = {"memory": "MemoryBackend", "sqlite": "SqliteBackend"}


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
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
        name = BACKENDS[store]
        monkeypatch.setattr(opening, name, type(name, (mixin, getattr(opening, name)), {}))
        return open_app(**settings)

    return open_app_on


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
def impatient(monkeypatch):
    """An enqueue whose fate is unknown is repeated without a pause."""
    monkeypatch.setattr(enqueueing, "jittered", lambda pause: 0)


@pytest.fixture
def eventually():
    """Wait for a fact: ``eventually(lambda: ctx.cancelled)``.  It fails if the fact never comes, it never just sleeps."""

    def eventually(fact, within=20.0):
        deadline = time.monotonic() + within
        while not (value := fact()):
            assert time.monotonic() < deadline, "it did not come"
            time.sleep(0.005)
        return value

    return eventually


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
