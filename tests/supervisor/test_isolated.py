"""Processes for single jobs, seen from the worker: what is said at the very moment at which one is killed."""

import dataclasses
import os
import select
import sys
from datetime import timedelta

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

    runtime = dataclasses.replace(shop.jobs.parts().runtime, report=cancel)
    isolated = IsolatedProcesses(program, runtime, None)
    first = isolated.run(cancelled)
    second = isolated.run(work_of(shop.alone_async))
    isolated.close()

    assert [type(first.outcome), type(second.outcome)] == [Done, Done]
    assert first.result != second.result
    assert not isolated.stop(cancelled)
