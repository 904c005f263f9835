"""What a handler enqueues in a process of its own is counted by its worker."""

import importlib
import os
import sys
import textwrap

import msgspec
import pytest

from onward.supervisor.options import ProcessOptions
from onward.worker.options import WorkerOptions
from onward.worker.worker import Worker
from tests.waiting import eventually

PROGRAM = """
    import os
    import signal
    from pathlib import Path
    from onward import Onward

    here = Path(__file__).parent
    jobs = Onward(f"sqlite:///{here / 'jobs.db'}")


    @jobs.job(queue="parts")
    def part(number: int) -> None: ...


    @jobs.job(isolation="process")
    def split(number: int) -> None:
        part.using(unique_key="first").enqueue(0)
        part.using(unique_key="first").enqueue(0)
        part.enqueue_many([(each,) for each in range(1, number)])


    @jobs.job(isolation="process")
    def split_in_a_fork(number: int) -> None:
        child = os.fork()
        if not child:
            part.enqueue_many([(each,) for each in range(number)])
            os._exit(0)
        os.waitpid(child, 0)
        part.enqueue(number)


    @jobs.job(isolation="process", max_crashes=1)
    def split_and_die(number: int) -> None:
        part.enqueue_many([(each,) for each in range(number)])
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A module that this process and the isolated one import."""
    (tmp_path / "counting_shop.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    program = importlib.import_module("counting_shop")
    yield program
    program.jobs.close()
    del sys.modules["counting_shop"]


@pytest.fixture(autouse=True)
def worker(program):
    options = msgspec.json.encode(ProcessOptions(app="counting_shop:jobs")).decode()
    worker = Worker(
        program.jobs.parts(),
        WorkerOptions.check(["default"], 2, {}, shutdown_timeout=20),
        isolated_program=(sys.executable, "-m", "onward.entry.isolated", options),
    )
    worker.start()
    yield worker
    assert worker.stop(timeout=20) == []


def end_of(handle):
    """Wait for the end of a job, and return its state."""
    return eventually(lambda: (record := handle.record()).is_finished and record.state)


def counted(program):
    """What was counted of the queue that only handlers fill."""
    return {name: queues["parts"] for name, queues in program.jobs.metrics.snapshot().items() if "parts" in queues}


@pytest.mark.promise("S120")
def test_jobs_that_a_handler_enqueues_in_its_own_process_are_counted(program):
    end_of(program.split.enqueue(1_000))

    assert counted(program) == {"jobs_enqueued": 1_000, "jobs_deduplicated": 1}
    assert program.jobs.counts("parts")["available"] == 1_000


@pytest.mark.promise("S120")
def test_they_are_counted_although_its_process_dies(program):
    assert end_of(program.split_and_die.enqueue(20)) == "discarded"

    assert counted(program) == {"jobs_enqueued": 20}


def test_a_process_that_the_handler_forks_does_not_write_into_its_channel(program):
    assert end_of(program.split_in_a_fork.enqueue(20)) == "completed"

    assert counted(program) == {"jobs_enqueued": 1}
