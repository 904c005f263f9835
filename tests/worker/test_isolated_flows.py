"""A job with a process of its own adds to its flow under the owner of now: its session may have been adopted."""

import importlib
import os
import sys
import textwrap
import threading

import msgspec
import pytest

from onward import BackendUnavailable
from onward.supervisor.options import ProcessOptions
from onward.worker import breaker
from onward.worker.options import WorkerOptions
from onward.worker.worker import Worker

PROGRAM = """
    import time
    from pathlib import Path
    from onward import AsyncJobContext, JobContext, Onward
    from onward.errors import LeaseLost

    here = Path(__file__).parent
    jobs = Onward(f"sqlite:///{here / 'jobs.db'}")


    def hold(name):
        (here / f"{name}.begun").touch()
        deadline = time.monotonic() + 60
        while not (here / f"{name}.go").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


    @jobs.job
    def note(word: str) -> str:
        return word


    @jobs.job(isolation="process")
    def split(ctx: JobContext) -> bool:
        hold("split")
        try:
            ctx.flow.map(note, [("left",), ("right",)], node="parts")
        except LeaseLost:
            (here / "split.lost").touch()
            raise
        ctx.flow.add(note, "last", node="parts")
        return ctx.lost


    @jobs.job(isolation="process")
    async def split_async(ctx: AsyncJobContext) -> bool:
        hold("split_async")
        await ctx.flow.map(note, [("left",), ("right",), ("last",)], node="parts")
        return ctx.lost
"""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(breaker, "_FIRST_PAUSE", 0.0005)
    monkeypatch.setattr(breaker, "_LONGEST_PAUSE", 0.004)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A module that this process and the isolated one import."""
    (tmp_path / "isolated_shop.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    program = importlib.import_module("isolated_shop")
    yield program
    program.jobs.close()
    del sys.modules["isolated_shop"]


@pytest.fixture
def worker(program):
    options = msgspec.json.encode(ProcessOptions(app="isolated_shop:jobs")).decode()
    worker = Worker(
        program.jobs.parts(),
        WorkerOptions.check(["default"], 2, {}, shutdown_timeout=20),
        isolated_program=(sys.executable, "-m", "onward.entry.isolated", options),
    )
    worker.start()
    yield worker
    assert worker.stop(timeout=20) == []


@pytest.fixture
def begin(program, worker, eventually):
    """Enqueue a flow whose first job adds to its second node, and wait until its handler runs."""

    def begin(job):
        flow = program.jobs.flow("growing")
        first = flow.add(job)
        flow.node("parts", after=first)
        handle = flow.enqueue()
        eventually((program.here / f"{job.name}.begun").exists)
        return handle, first

    return begin


def lose_an_answer(program, worker, monkeypatch):
    """Lose the answer of one turn, and wait until a successor has adopted the session."""
    turn = program.jobs.backend.turn
    with monkeypatch.context() as patch:

        def lost(asked):
            turn(asked)
            patch.undo()
            raise BackendUnavailable("the answer was lost")

        patch.setattr(program.jobs.backend, "turn", lost, raising=False)
        worker._pump.wake()
        worker.milestones.wait_for("adopted")


@pytest.mark.promise("W76")
@pytest.mark.parametrize("name", ["split", "split_async"])
def test_a_job_of_its_own_process_adds_to_its_flow_after_an_adoption(program, worker, begin, monkeypatch, name):
    job = getattr(program, name)
    handle, first = begin(job)
    before = [each.owner for each in program.jobs.backend.sessions()]
    lose_an_answer(program, worker, monkeypatch)
    assert [each.owner for each in program.jobs.backend.sessions()] != before

    (program.here / f"{name}.go").touch()

    assert handle.wait(60) == "completed"
    assert handle.result_of(first) is False
    assert list(handle.results_of("parts")) == ["left", "right", "last"]


@pytest.mark.promise("W76")
def test_an_addition_while_a_successor_adopts_the_session_is_made_under_its_name(program, worker, begin, monkeypatch):
    """The store knows the new owner, and the worker does not yet: the process asks again."""
    handle, _ = begin(program.split)
    backend, asked = program.jobs.backend, threading.Event()
    turn, open_session, answer = backend.turn, backend.open_session, worker._isolated._owner

    def lost(made):
        turn(made)
        monkeypatch.setattr(backend, "turn", turn)
        raise BackendUnavailable("the answer was lost")

    def slow(session, *, adopts=None):
        held = open_session(session, adopts=adopts)
        (program.here / "split.go").touch()
        assert asked.wait(30)  # the old owner was told, and is refused by the store
        return held

    def watched(lease, question):
        told = answer(lease, question)
        asked.set()
        return told

    monkeypatch.setattr(worker._isolated, "_owner", watched)
    monkeypatch.setattr(backend, "turn", lost)
    monkeypatch.setattr(backend, "open_session", slow)
    worker._pump.wake()

    assert handle.wait(60) == "completed"
    assert sorted(handle.results_of("parts")) == ["last", "left", "right"]


@pytest.mark.promise("W76")
def test_a_job_of_its_own_process_that_lost_its_lease_adds_nothing(program, worker, begin, eventually):
    handle, _ = begin(program.split)
    jobs = program.jobs
    jobs.pause("default")
    (session,) = jobs.backend.sessions()

    jobs.backend.reap(owner=session.owner)
    (program.here / "split.go").touch()

    eventually((program.here / "split.lost").exists)
    assert [node.total for node in handle.nodes()] == [1, 0]
    jobs.resume("default")
    assert handle.wait(60) == "completed"  # by its next run
    assert list(handle.results_of("parts")) == ["left", "right", "last"]
