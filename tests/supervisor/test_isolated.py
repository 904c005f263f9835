"""Processes for single jobs, seen from the worker: what is said at the very moment at which one is killed."""

import os
import select
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import accumulate

import msgspec
import pytest

from onward.attempt.prepare import prepare
from onward.backend import Claim, Session, Turn
from onward.job.outcome import Done
from onward.supervisor.options import ProcessOptions
from onward.worker.inflight import Work
from onward.worker.isolated import IsolatedProcesses
from tests.supervisor.fleets import eventually


@pytest.fixture
def work_of(shop, monkeypatch):
    """A lease on a job, ready to run."""
    monkeypatch.chdir(shop.folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    backend, runtime = shop.jobs.backend, shop.jobs.parts().runtime
    session = Session(owner="me", lease_for=timedelta(seconds=60), host="here", pid=1, version="0")
    backend.open_session(session)

    def work_of(job):
        job.enqueue()
        (lease,) = backend.turn(Turn(owner="me", claim=Claim(queues=("default",), limit=1))).leases
        work = Work(prepare(lease, runtime), (lease.envelope.id, lease.token), order=1, claimed=0.0)
        work.isolated = True
        return work

    return work_of


@pytest.mark.promise("A20", "F86")
def test_a_job_that_ends_while_it_is_being_killed_does_not_take_the_next_one_along(shop, work_of):
    """Cancelled when its outcome was on its way: it has succeeded, and its process is of no use any more."""
    program = (
        sys.executable,
        "-m",
        "onward.entry.isolated",
        msgspec.json.encode(ProcessOptions(app="shop:jobs")).decode(),
    )
    cancelled = work_of(shop.alone_async)

    def cancel(lease, fraction, note):
        if lease is cancelled.lease:
            process = isolated._busy[cancelled.key]
            eventually(
                lambda: process._heard or select.select([process._channel], [], [], 0)[0]
            )  # it has said how it ended
            assert isolated.stop(cancelled)
        return True

    runtime = msgspec.structs.replace(shop.jobs.parts().runtime, report=cancel)
    isolated = IsolatedProcesses(program, runtime, None, shop.jobs.parts().reporter)
    first = isolated.run(cancelled)
    second = isolated.run(work_of(shop.alone_async))
    isolated.close()

    assert [type(first.outcome), type(second.outcome)] == [Done, Done]
    assert first.result != second.result
    assert not isolated.stop(cancelled)


class Starts:
    """A program whose import takes a while, and which logs when it begins and ends."""

    TEXT = """
import os, time
log = os.open("starts.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, b"+")
time.sleep(0.1)
os.write(log, b"-")
from shop import jobs
"""

    def __init__(self, folder):
        (folder / "slow_shop.py").write_text(self.TEXT)
        self._log = folder / "starts.log"

    def at_once(self):
        """Return how many imports there were, and the most of them at the same time."""
        signs = [1 if sign == "+" else -1 for sign in self._log.read_text()]
        return signs.count(1), max(accumulate(signs))


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_processes_start_at_once_than_are_allowed(shop, work_of, most):
    """After a crash all that had begun wait for a process: they must not take all processors from those who renew leases."""
    starts = Starts(shop.folder)
    options = msgspec.json.encode(ProcessOptions(app="slow_shop:jobs")).decode()
    program = (sys.executable, "-m", "onward.entry.isolated", options)
    parts = shop.jobs.parts()
    isolated = IsolatedProcesses(program, parts.runtime, None, parts.reporter, starts=most)
    works = [work_of(shop.alone_async) for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        attempts = list(threads.map(isolated.run, works))
    isolated.close()
    assert {type(attempt.outcome) for attempt in attempts} == {Done}
    started, at_once = starts.at_once()
    assert 1 <= started <= 5
    assert at_once <= most
