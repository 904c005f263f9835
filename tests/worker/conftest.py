"""Workers on each store that needs no server, and stores that misbehave.

Nothing here sleeps to let something happen: tests wait for a fact of the worker, or for the store to say so.
"""

import sys
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from onward import JobContext, State
from onward.base.clock import boottime
from onward.worker import pump
from onward.worker.options import WorkerOptions
from onward.worker.worker import Worker
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
from tests.worker.stores import Weather, weathered

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
def file(folder):
    return folder / "jobs.db"


@pytest.fixture
def work_on():
    """Start a worker: ``work_on(jobs, concurrency=2)``.  What still runs when the test ends is given ten seconds."""
    started = []

    def work_on(jobs, *, lease_for=None, clock=boottime, breaker=None, queues=None, concurrency=4, per_process=None):
        parts = jobs.parts()
        if lease_for is not None:  # shorter than a setting may be
            parts = replace(parts, lease_for=timedelta(seconds=lease_for))
        queues = queues if queues is not None else jobs._parts.producer.registry.queues()
        options = WorkerOptions.check(queues, concurrency, per_process or {}, shutdown_timeout=20)
        worker = Worker(parts, options, clock=clock, breaker=breaker)
        started.append(worker.start())
        return worker

    yield work_on
    for worker in started:
        assert worker.stop(timeout=10) == []


class Gate:
    """A handler waits here until the test lets it through: ``gate.reached.wait()``, ``gate.open()``."""

    def __init__(self):
        self._reached = threading.Semaphore(0)
        self._open = threading.Event()

    def pass_through(self):
        self._reached.release()
        assert self._open.wait(30), "no test opened the gate"

    def wait_for(self, count=1):
        """Until so many handlers stand here."""
        for _ in range(count):
            assert self._reached.acquire(timeout=20), "no handler reached the gate"

    def open(self):
        self._open.set()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def counters():
    """What a worker's counters say, summed over queues; what was enqueued is not its doing."""

    def counters(jobs):
        moved = {name: sum(by_queue.values()) for name, by_queue in jobs.metrics.snapshot().items()}
        return {name: count for name, count in moved.items() if name != "jobs_enqueued"}

    return counters


@pytest.fixture
def count_of():
    """How many jobs are in each state that has any."""

    def count_of(jobs, queue=None):
        return {str(state): count for state, count in jobs.counts(queue).items() if count}

    return count_of


@pytest.fixture
def ended(eventually):
    """Wait until these jobs have come to an end."""

    def ended(jobs, *handles):
        finished = {State.COMPLETED, State.DISCARDED, State.CANCELLED}
        for handle in handles:
            eventually(lambda handle=handle: handle.state() in finished)
        return [handle.state() for handle in handles]

    return ended


class BootClock:
    """The clock that runs while the machine sleeps, moved by the test."""

    def __init__(self):
        self._ahead = 0.0

    def __call__(self):
        return boottime() + self._ahead

    def advance(self, seconds):
        self._ahead += seconds


@pytest.fixture
def boot():
    return BootClock()


@pytest.fixture
def patient(monkeypatch):
    """Claimed jobs may wait for ever."""
    monkeypatch.setattr(pump, "_LONGEST_WAIT", 3600)


@pytest.fixture
def full_worker(work_on, gate, patient, eventually):
    """A worker with one slot, in which a job runs up to the gate, and jobs that it has claimed and not begun.

    ``done`` gets the numbers of those that ran, ``contexts`` the context of the one at the gate.
    """

    def full_worker(jobs, **options):
        done, contexts = [], []

        @jobs.job(name="short")
        def short(n: int):
            done.append(n)

        @jobs.job(name="slow")
        def slow(ctx: JobContext):
            contexts.append(ctx)
            gate.pass_through()

        short.enqueue_many([(n,) for n in range(1_000)])
        slow.enqueue()
        short.enqueue_many([(n,) for n in range(1_000, 1_100)])
        worker = work_on(jobs, concurrency=1, **options)
        gate.wait_for()
        worker.milestones.wait_for("claimed", 1_002)
        worker.milestones.wait_for("settled", 1_000)
        eventually(lambda: jobs.counts()["executing"] == len(worker._inflight.calls.works) + 1)
        return SimpleNamespace(worker=worker, done=done, contexts=contexts, short=short)

    return full_worker


@pytest.fixture
def in_background():
    """Call something in a thread: ``stopping = in_background(worker.stop)``, and later ``stopping()`` for its answer."""

    def in_background(function):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(function()), daemon=True)
        thread.start()

        def answer():
            thread.join(30)
            assert answers, "it did not return"
            return answers[0]

        return answer

    return in_background


@pytest.fixture
def weather_of():
    """What happens to some verbs of a store: ``weather = weather_of("turn")``, ``open_app_on(weather.mixin)``."""

    def weather_of(*verbs):
        weather = Weather(verbs or Weather.VERBS)
        weather.mixin = weathered(weather)
        return weather

    return weather_of


@pytest.fixture
def restless(monkeypatch, patient):
    """Let threads take turns every few byte-codes, so that whatever can come between two of them does."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # the garbage collector swallows what hits its callbacks
    yield
    sys.setswitchinterval(interval)
