"""Blocking code in an async handler is noticed, and named once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from onward.errors import InvalidTime
from onward.worker.loop_watch import LoopWatch

LIMIT = 0.2

pytestmark = pytest.mark.promise("F88")


@pytest.fixture
def store():
    return "memory"


@pytest.fixture
def work_at(jobs):
    """Start a worker that tells early of a blocked loop."""
    workers = []

    def work_at(**options):
        workers.append(jobs.worker(**{"blocked_loop_after": LIMIT, **options}).start())
        return workers[-1]

    yield work_at
    for worker in workers:
        assert worker.stop(timeout=20) == []


@pytest.fixture
def lines(caplog):
    """The warnings of blocked loops."""
    return lambda: [line for line in caplog.records if getattr(line, "event", None) == "worker.loop_blocked"]


def watchers():
    return [thread for thread in threading.enumerate() if thread.name == "onward-loop-watch"]


def nap(seconds=0.05):
    """Keep a thread busy with nothing: the event loop's, if it is called there."""
    time.sleep(seconds)


def test_the_job_and_the_line_that_block_the_loop_are_named(jobs, work_at, lines, eventually):
    release = threading.Event()

    @jobs.job
    async def rude():
        release.wait(30)

    handle = rude.enqueue()
    work_at()
    (line,) = eventually(lines)
    release.set()

    told = line.getMessage()
    assert f"job rude {handle.id} blocks it at {__file__}, line " in told
    assert "in rude: release.wait(30) (which is at " in told
    assert "threading.py" in told
    assert "await asyncio.to_thread(...)" in told
    assert (line.levelname, line.job_id, line.job) == ("WARNING", handle.id, "rude")


def test_each_job_is_named_once(jobs, work_at, lines, ended, eventually):
    def block_until_named(job):
        eventually(lambda: job in {line.job for line in lines()})

    @jobs.job
    async def rude(again: bool):
        if again:
            nap(3 * LIMIT)
        block_until_named("rude")

    @jobs.job
    async def other():
        block_until_named("other")

    handles = [rude.enqueue(False), rude.enqueue(True), other.enqueue()]
    work_at(concurrency=1)
    ended(jobs, *handles)

    assert [line.job for line in lines()] == ["rude", "other"]


def test_a_task_that_a_handler_started_is_told_with_the_jobs_that_run(jobs, work_at, lines, ended, eventually):
    @jobs.job
    async def starter():
        async def blocks():
            eventually(lines)

        await asyncio.create_task(blocks())

    handle = starter.enqueue()
    work_at()
    ended(jobs, handle)

    (line,) = lines()
    assert "a task or callback of one of these jobs: starter" in line.getMessage()
    assert "in blocks" in line.getMessage()


def test_handlers_that_let_the_loop_turn_are_not_told(jobs, work_at, lines, ended):
    @jobs.job
    async def polite():
        for _ in range(10):
            await asyncio.sleep(LIMIT / 4)
            await asyncio.to_thread(nap)

    @jobs.job
    def sync():
        time.sleep(2 * LIMIT)

    handles = [job.enqueue() for job in (polite, sync, polite)]
    work_at()
    ended(jobs, *handles)

    assert lines() == []


def test_while_no_coroutine_runs_the_loop_is_not_watched(jobs, work_at, ended, eventually, monkeypatch):
    asked = []
    ask = LoopWatch._ask
    monkeypatch.setattr(LoopWatch, "_ask", lambda self, answer: asked.append(1) or ask(self, answer))

    @jobs.job
    async def quick(): ...

    handle = quick.enqueue()
    worker = work_at(blocked_loop_after=0.004)
    ended(jobs, handle)
    eventually(lambda: not worker._handler_tasks._watch._busy.is_set())
    before = len(asked)

    @jobs.job
    def sync():
        time.sleep(0.1)

    ended(jobs, sync.enqueue())
    assert len(asked) == before
    ended(jobs, quick.enqueue())
    eventually(lambda: not worker._handler_tasks._watch._busy.is_set())


def test_a_worker_without_async_jobs_has_no_such_thread_and_none_is_left(jobs, work_at, ended, eventually):
    @jobs.job
    def sync(): ...

    @jobs.job
    async def quick(): ...

    before = len(watchers())
    worker = work_at()
    ended(jobs, sync.enqueue())
    assert len(watchers()) == before
    ended(jobs, quick.enqueue())
    assert len(watchers()) == before + 1
    worker.stop(timeout=20)
    eventually(lambda: len(watchers()) == before)


def test_nought_turns_it_off(jobs, work_at, lines, ended):
    @jobs.job
    async def rude():
        nap(3 * LIMIT)

    before = len(watchers())
    work_at(blocked_loop_after=0)
    ended(jobs, rude.enqueue())

    assert len(watchers()) == before
    assert lines() == []


def test_a_length_that_is_none_is_refused(jobs):
    with pytest.raises(InvalidTime, match="blocked_loop_after"):
        jobs.worker(blocked_loop_after=-1)


PAUSED = """
import asyncio, logging, sys, threading
from onward import Onward

logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
jobs = Onward("memory://")

@jobs.job
async def polite():
    for _ in range(40):
        await asyncio.sleep(0.05)
        if _ == 10:
            print("running", flush=True)

with jobs.worker(blocked_loop_after=0.4):
    polite.enqueue().result(60)
print("done", flush=True)
"""


def test_a_process_that_was_paused_as_a_whole_is_not_told():
    with subprocess.Popen([sys.executable, "-c", PAUSED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        time.sleep(1)  # it is the pause itself that is shown
        os.kill(process.pid, signal.SIGCONT)
        rest = process.stdout.read()

    assert rest == "done\n"
