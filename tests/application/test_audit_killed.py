"""A process that is killed between an act and its entry in the audit trail has done neither."""

import signal
import subprocess
import sys

import pytest

from onward.job.states import State
from tests.application.every_store import url  # noqa: F401

pytestmark = pytest.mark.promise("S136")

ACT = """
import os, signal, sys
from onward import Onward

url, job_id, where = sys.argv[1:]
jobs = Onward(url)
jobs.connect()
backend = jobs.backend
store, audited = backend._store_audit, backend._audited

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if where == "before the entry":
    backend._store_audit = die
elif where == "before the commit":
    backend._audited = lambda *arguments: lambda tx: die(audited(*arguments)(tx))
jobs.cancel(job_id, "wrong", by="ann")
"""


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def store(request):
    return request.param


@pytest.mark.parametrize("where", ["before the entry", "before the commit", "never"])
def test_both_are_there_or_neither_is(jobs, url, where):  # noqa: F811
    job = jobs.enqueue("send", {}, delay="1h")

    ended = subprocess.run([sys.executable, "-c", ACT, url, job.id, where], check=False, timeout=60)

    entries = [(each.act, each.job_id) for each in jobs.audit()]
    if where == "never":
        assert (ended.returncode, job.state(), entries) == (0, State.CANCELLED, [("cancel", job.id)])
    else:
        assert (ended.returncode, job.state(), entries) == (-signal.SIGKILL, State.SCHEDULED, [])
