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
store = jobs.backend._store_audit

def die(*arguments):
    if where == "after":
        store(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

if where != "never":
    jobs.backend._store_audit = die
jobs.cancel(job_id, "wrong", by="ann")
"""


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def store(request):
    return request.param


@pytest.mark.parametrize("where", ["before", "after", "never"])
def test_both_are_there_or_neither_is(jobs, url, where):  # noqa: F811
    job = jobs.enqueue("send", {}, delay="1h")

    ended = subprocess.run([sys.executable, "-c", ACT, url, job.id, where], check=False, timeout=60)

    entries = [(each.act, each.job_id) for each in jobs.audit()]
    if where == "never":
        assert (ended.returncode, job.state(), entries) == (0, State.CANCELLED, [("cancel", job.id)])
    else:
        assert (ended.returncode, job.state(), entries) == (-signal.SIGKILL, State.SCHEDULED, [])
