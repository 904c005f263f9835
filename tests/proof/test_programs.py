"""Whole programs on one file: killed, side by side, cut off from their answers, older than the jobs they meet."""

import signal
import subprocess
import sys
from contextlib import closing

import pytest

from onward import Onward
from onward.backends.sqlite import SqliteBackend
from onward.client.group_commit import GroupCommit
from onward.errors import BackendUnavailable
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_claim, an_envelope


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["sqlite", "memory"])
def jobs(request, url):
    with Onward(url if request.param == "sqlite" else "memory://") as jobs:
        yield jobs


def test_an_ordinary_job_succeeds(jobs):
    @jobs.job
    def work():
        return None

    handle = work.enqueue()

    assert [jobs.process_once().status for _ in range(2)] == ["acked", "empty"]
    assert handle.state() is State.COMPLETED


@pytest.mark.promise("F02")
def test_a_job_is_not_settled_before_it_has_run(jobs):
    seen = []

    @jobs.job
    def work():
        seen.append(handle.state())

    handle = work.enqueue()
    jobs.process_once()

    assert seen == [State.EXECUTING]


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from onward import Onward

with Onward(sys.argv[1]) as jobs:
    @jobs.job
    def work():
        os.kill(os.getpid(), signal.SIGKILL)

    jobs.process_once()
"""


@pytest.mark.promise("S32", "F02", "F04")
def test_a_job_whose_process_was_killed_in_the_middle_comes_back(url):
    with Onward(url) as jobs:
        job_id = jobs.enqueue("work").id

    killed = subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE, url], check=False)

    assert killed.returncode == -signal.SIGKILL
    with closing(SqliteBackend.from_url(url, clock=FakeClock())) as years_later:
        assert [(each.id, each.crashed) for each in years_later.reap()] == [(job_id, True)]
        assert [lease.envelope.id for lease in years_later.claim(a_claim())] == [job_id]


@pytest.mark.promise("F13")
def test_a_program_that_ends_takes_no_lease_from_its_neighbour_on_the_same_host(url):
    with Onward(url) as jobs:

        @jobs.job
        def work():
            with Onward(url) as neighbour:
                neighbour.process_once("elsewhere")

        work.enqueue()

        assert jobs.process_once().status == "acked"


@pytest.mark.promise("F13")
def test_a_program_that_starts_again_has_another_name(url):
    def owner_of_a_run():
        with Onward(url) as jobs:
            work = jobs.job(name="work")(lambda: jobs.backend.get(handle.id).owner)
            handle = work.enqueue()
            jobs.process_once()
            return handle.result()

    assert owner_of_a_run() != owner_of_a_run()


@pytest.mark.promise("F28")
@pytest.mark.parametrize("meanwhile", ["it waits", "it was run"])
def test_an_enqueue_that_is_repeated_because_its_answer_was_lost_stores_one_job(url, meanwhile):
    with closing(SqliteBackend.from_url(url)) as backend:
        lost = []

        def enqueue_and_lose_the_first_answer(envelopes, *, retried=False):
            answers = backend.enqueue(envelopes, retried=retried)
            if not lost:
                lost.append(answers)
                if meanwhile == "it was run":
                    backend.ack(*backend.claim(a_claim()))
                raise BackendUnavailable("the connection broke before the answer came")
            return answers

        GroupCommit(enqueue_and_lose_the_first_answer, timeout=5).submit([envelope := an_envelope()])

        assert sum(backend.counts().values()) == 1
        assert backend.get(envelope.id) is not None


@pytest.mark.promise("F56")
def test_a_job_that_this_program_does_not_know_waits_for_one_that_does(url):
    clock = FakeClock()
    with Onward(url, clock=clock) as old:
        handle = old.enqueue("work")
        assert old.process_once().status == "parked"
    clock.advance(3600)

    with Onward(url, clock=clock) as new:
        new.job(name="work")(lambda: None)

        assert new.process_once().status == "acked"
        assert new.get(handle.id).state is State.COMPLETED
