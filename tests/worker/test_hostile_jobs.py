"""Nothing in one job may end a worker: a corpus of hostile jobs, on every way to run one.

Each job comes to its own end, is not told as a crash, and its neighbours complete.
"""

import gc
import logging
import sys
import threading
from types import SimpleNamespace

import pytest

from onward import Onward, State
from tests import hostile
from tests.supervisor.fleets import Fleet
from tests.waiting import eventually

# Others that use the same loop at the same time feel what these do to it: they have tests of their own.
TO_THE_LOOP = {"cancels_everything", "makes_no_tasks"}
TOGETHER = [name for name in hostile.JOBS if name not in TO_THE_LOOP]
FINISHED = {State.COMPLETED, State.DISCARDED, State.CANCELLED}
# In a process of its own there is no loop and no log of others that it could harm, and its loop ends with it.
ALONE = {"stops_the_loop": "discarded", "leaves_an_exit_behind": "discarded"}


@pytest.fixture(autouse=True)
def undone(monkeypatch):
    """What the jobs do to this process is undone."""
    loggers = [logging.getLogger(name) for name in ("onward", "onward.job")]
    before = [(logger, list(logger.handlers), list(logger.filters)) for logger in loggers]
    code = hostile.replaces_itself.__code__
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    yield
    hostile.arm(armed=False)
    hostile.replaces_itself.__code__ = code
    sys.settrace(None)
    gc.collect()  # what they left behind speaks up now, and not in another test
    for logger, handlers, filters in before:
        logger.handlers, logger.filters = handlers, filters


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def hostile_app(url):
    with Onward(url) as jobs:
        hostile.define(jobs)
        yield jobs


def enqueued(jobs, *names):
    """Each hostile job between neighbours."""
    handles = {}
    for n, name in enumerate(names):
        for neighbour in hostile.NEIGHBOURS:
            handles[f"{neighbour} {n}"] = jobs.enqueue(neighbour)
        handles[name] = jobs.enqueue(name, hostile.JOBS[name].payload)
    for neighbour in hostile.NEIGHBOURS:
        handles[f"{neighbour} last"] = jobs.enqueue(neighbour)
    hostile.arm()
    return handles


def expected(handles, ends=None):
    ends = {name: each.ends for name, each in hostile.JOBS.items()} | (ends or {})
    return {name: ends.get(name, "completed") for name in handles}


def states(handles):
    return {name: str(handle.state()) for name, handle in handles.items()}


def settled(handles, ends=None):
    """Wait until all have come to where they should; and tell which have not."""
    wanted = expected(handles, ends)

    def differences():
        return {name: (state, wanted[name]) for name, state in states(handles).items() if state != wanted[name]}

    eventually(lambda: not differences(), what=lambda: f"{differences()}")
    return [handle.record() for handle in handles.values()]


@pytest.mark.promise("F84")
@pytest.mark.parametrize("name", hostile.JOBS)
def test_process_once_goes_on(hostile_app, name):
    handles = enqueued(hostile_app, name)

    for _ in range(12):
        if hostile_app.process_once().status == "empty":
            break

    assert states(handles) == expected(handles)
    assert all(handle.record().crashes == 0 for handle in handles.values())


@pytest.mark.promise("F84")
def test_draining_goes_on(hostile_app):
    handles = enqueued(hostile_app, *hostile.JOBS)

    hostile_app.drain()

    assert states(handles) == expected(handles)
    assert all(handle.record().crashes == 0 for handle in handles.values())


@pytest.mark.promise("F84")
@pytest.mark.parametrize("name", [*TOGETHER, "makes_no_tasks"])
def test_a_worker_goes_on(hostile_app, name):
    handles = enqueued(hostile_app, name)

    with hostile_app.worker(concurrency=2) as worker:
        records = settled(handles)

        assert worker.running
    assert all(record.crashes == 0 for record in records)


@pytest.mark.promise("F84")
def test_a_worker_goes_on_with_all_of_them_at_once(hostile_app):
    handles = enqueued(hostile_app, *TOGETHER)

    with hostile_app.worker(concurrency=4) as worker:
        records = settled(handles)

        assert worker.running
    assert all(record.crashes == 0 for record in records)


APP = """
from onward import Onward
from tests import hostile

jobs = Onward("{url}")
hostile.define(jobs, isolation="{isolation}")
hostile.arm()
"""


@pytest.mark.promise("F84")
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_supervised_worker_goes_on(url, tmp_path, isolation):
    (tmp_path / "hostile_app.py").write_text(APP.format(url=url, isolation=isolation))
    alone = isolation == "process"
    with Onward(url) as jobs:
        hostile.define(jobs, isolation=isolation)
        handles = enqueued(jobs, *TOGETHER)
        fleet = Fleet(SimpleNamespace(folder=tmp_path), "--concurrency", 4, app="hostile_app:jobs")
        try:
            fleet.said("ready: ")
            (pid,) = fleet.workers(1)
            records = settled(handles, ALONE if alone else None)
            assert fleet.workers(1) == [pid]
            assert fleet.stop() == 0
        finally:
            fleet.kill()

    assert all(record.crashes == 0 for record in records), [r for r in records if r.crashes]
    assert "one of its threads died" not in fleet.log
    assert "the engine failed" not in fleet.log


@pytest.mark.promise("F84")
def test_tasks_that_a_handler_cancels_are_failures_of_their_own_jobs(hostile_app):
    """All that it finds on the loop, also those that have not begun."""
    neighbours = [hostile_app.enqueue("async_neighbour", max_retries=20, retry="none") for _ in range(20)]
    culprits = [hostile_app.enqueue("cancels_everything") for _ in range(5)]
    more = [hostile_app.enqueue("async_neighbour", max_retries=20, retry="none") for _ in range(20)]

    with hostile_app.worker(concurrency=10) as worker:
        for handle in (*neighbours, *culprits, *more):
            eventually(lambda handle=handle: handle.state() in FINISHED)
        assert worker.running

    assert {str(handle.state()) for handle in (*neighbours, *more)} == {"completed"}
    assert {str(handle.state()) for handle in culprits} == {"discarded"}


def test_a_thread_that_cannot_be_started_is_not_the_end(hostile_app, monkeypatch):
    """A handler may have started as many as the system allows."""
    start, refused = threading.Thread.start, []

    def refuse(thread):
        if thread.name.startswith(("onward-run", "onward-loop", "onward-events")) and len(refused) < 6:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    handles = [hostile_app.enqueue(name) for name in hostile.NEIGHBOURS]

    with hostile_app.worker(concurrency=2) as worker:
        for handle in handles:
            eventually(lambda handle=handle: handle.state() is State.COMPLETED)
        assert worker.running
    assert refused
