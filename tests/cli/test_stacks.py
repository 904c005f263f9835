"""`onward job stack`: what a running job is doing, asked of the real worker process that runs it."""

import os
import platform
import signal
import time

import pytest

from onward import Onward, State
from onward.backend import Claim, Session, Turn

SHOP = """\
import asyncio, ctypes, os
from onward import Onward

jobs = Onward({url!r})

def rest():
    open("rest").read()  # a pipe without a writer

async def wait():
    await asyncio.Event().wait()

@jobs.job
def sync_one() -> None:
    rest()

@jobs.job
async def async_one() -> None:
    await wait()

@jobs.job
async def blocking_one() -> None:
    rest()

@jobs.job(isolation="process")
def isolated_one() -> None:
    rest()

@jobs.job(isolation="process")
async def isolated_async_one() -> None:
    await wait()

@jobs.job(interrupt=False)
def uninterrupted_one() -> None:
    rest()

@jobs.job
def selfish_one() -> None:
    open("began", "w").close()
    ctypes.PyDLL(None).pause()  # called with the interpreter's lock held
"""


@pytest.fixture
def run(tmp_path, jobs, shop, url, worker, eventually):
    """Let a worker process run a job; gives its record once it runs."""

    def run(name):
        os.mkfifo(tmp_path / "rest")
        worker(shop(url, SHOP), "--concurrency", "2")
        handle = jobs.enqueue(name)
        eventually(lambda: handle.state() is State.EXECUTING)
        return handle.record()

    return run


@pytest.fixture
def stack(onward, eventually):
    """Ask until the handler has come to rest; gives the answer as data."""

    def stack(record, at):
        def answer():
            ran = onward("job", "stack", record.id, "--json")
            return ran.code == 0 and at in {frame["function"] for frame in ran.json[0]["frames"]} and ran.json[0]

        return eventually(answer)

    return stack


def functions(answer):
    return [frame["function"] for frame in answer["frames"]]


@pytest.mark.parametrize("name", ["sync_one", "uninterrupted_one"])
def test_a_sync_job_shows_its_thread_from_the_handler_inwards(run, stack, jobs, name):
    record = run(name)

    answer = stack(record, "rest")

    assert functions(answer) == [name, "rest"]
    assert answer["frames"][-1]["code"].startswith('open("rest").read()')
    assert answer["where"].startswith("thread onward-run-")
    assert [answer["pid"]] == [each.pid for each in jobs.sessions() if each.owner == record.owner]


def test_an_async_job_shows_who_waits_for_whom(run, stack):
    answer = stack(run("async_one"), "wait")

    assert functions(answer)[:2] == ["async_one", "wait"]
    assert answer["where"] == "event loop, where it waits"


def test_an_async_job_that_blocks_the_event_loop_is_caught_at_it(run, stack):
    answer = stack(run("blocking_one"), "rest")

    assert functions(answer) == ["blocking_one", "rest"]
    assert answer["where"] == "event loop, which it keeps busy"


@pytest.mark.parametrize(("name", "inner"), [("isolated_one", "rest"), ("isolated_async_one", "wait")])
def test_a_job_in_a_process_of_its_own_is_asked_there(run, stack, jobs, name, inner):
    record = run(name)

    answer = stack(record, inner)

    assert functions(answer)[:2] == [name, inner]
    assert answer["pid"] not in {each.pid for each in jobs.sessions()}


def test_people_see_the_frames_with_their_lines_of_code(run, stack, onward):
    record = run("sync_one")
    stack(record, "rest")

    title, where, _, *frames = onward("job", "stack", record.id).out.splitlines()

    assert title.startswith("sync_one  run 1, began ")
    assert where.startswith("process ")
    assert frames[0].startswith("  sync_one  /")
    assert frames[-2].endswith(".py:7")
    assert frames[-1].startswith('    open("rest").read()')


def test_a_job_that_holds_the_interpreters_lock_is_told_with_what_helps(run, onward, eventually, tmp_path, jobs):
    record = run("selfish_one")
    eventually((tmp_path / "began").exists)
    (pid,) = [each.pid for each in jobs.sessions()]
    begun = time.monotonic()

    ran = onward("job", "stack", record.id)

    assert ran.code == 1
    assert "did not answer within 2 s" in ran.err
    assert f"`py-spy dump --pid {pid}`" in ran.err
    assert time.monotonic() - begun < 30


def test_so_is_a_process_that_was_stopped(run, stack, onward, jobs):
    record = run("sync_one")
    pid = stack(record, "rest")["pid"]
    os.kill(pid, signal.SIGSTOP)

    ran = onward("job", "stack", record.id)
    os.kill(pid, signal.SIGCONT)

    assert ran.code == 1
    assert f"process {pid} did not answer within 2 s: it is stopped, or" in ran.err


@pytest.mark.parametrize("options", [{}, {"delay": "1h"}])
def test_a_job_that_does_not_run_has_none(onward, jobs, options):
    handle = jobs.enqueue("x", **options)

    ran = onward("job", "stack", handle.id)

    assert ran.code == 6
    assert f"is {handle.state()}: only a job that runs has a stack" in ran.err


def claimed(jobs, *, host, pid):
    """A job in the hands of a process that need not be there."""
    handle = jobs.enqueue("x")
    jobs.backend.open_session(Session(owner="elsewhere", host=host, pid=pid))
    jobs.backend.turn(Turn(owner="elsewhere", claim=Claim(queues=("default",))))
    return handle


def test_a_job_on_another_machine_is_told_with_where_to_ask(onward, jobs):
    handle = claimed(jobs, host="far-away", pid=77)

    ran = onward("job", "stack", handle.id)

    assert ran.code == 1
    assert "runs on far-away, in process 77: ask there" in ran.err


def test_a_program_with_a_worker_inside_cannot_be_asked(onward, jobs):
    handle = claimed(jobs, host=platform.node(), pid=os.getpid())

    ran = onward("job", "stack", handle.id)

    assert ran.code == 1
    assert f"process {os.getpid()} cannot be asked: it is a program with a worker inside" in ran.err


def test_a_job_whose_worker_is_gone_is_told(onward, jobs, sql):
    handle = claimed(jobs, host=platform.node(), pid=1)
    sql("DELETE FROM onward_sessions")

    ran = onward("job", "stack", handle.id)

    assert ran.code == 1
    assert "`onward reap` does it now" in ran.err


def test_the_worker_goes_on_as_before(run, stack, jobs, tmp_path, url):
    record = run("sync_one")
    for _ in range(5):
        stack(record, "rest")

    (tmp_path / "rest").write_text("go on")

    with Onward(url) as other:
        assert other.handle(record.id).result(timeout=60) is None
