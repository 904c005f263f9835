"""Whole programs with a worker inside: how they end, by themselves and by signals."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from onward import Onward, State

PATIENCE = 60  # seconds a test waits for another process: reached only when something is broken

HEAD = """
    import os, signal, sys, threading, time
    from onward import Onward

    def say(*words):
        os.write(1, " ".join(map(str, words)).encode() + b"\\n")  # whole, whatever else is written

    jobs = Onward(sys.argv[1], lease_for=1)

    @jobs.job
    def work(seconds: float):
        say("running")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.005)
        say("done")

    def rest():
        while True:
            time.sleep(0.05)  # not in one go: a signal that comes just before a sleep is heard when that is over
"""


@pytest.fixture
def store():
    return "sqlite"


@pytest.fixture
def start(url):
    """Start a program; it has an application `jobs` with a job `work(seconds)`, and prints what happens."""
    started = []

    def start_it(source):
        program = textwrap.dedent(HEAD) + textwrap.dedent(source)
        process = subprocess.Popen(
            [sys.executable, "-c", program, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        return process

    yield start_it
    for process in started:
        process.kill()
        process.communicate()


def said(process, *words):
    """Wait until the program has printed them, in whatever order."""
    missing = set(words)
    for line in process.stdout:
        missing.discard(line.strip())
        if not missing:
            return
    pytest.fail(f"it never said {missing}: {process.stderr.read()}")


@pytest.fixture
def enqueue(url):
    """Enqueue `work(seconds)` from here."""

    def enqueue(seconds):
        with Onward(url) as jobs:
            return jobs.enqueue("work", {"seconds": seconds}).id

    return enqueue


@pytest.fixture
def state(url):
    def state(job_id):
        with Onward(url) as jobs:
            return jobs.get(job_id).state

    return state


def test_no_thread_of_ours_keeps_a_program_alive(start, enqueue, state):
    job_id = enqueue(60)
    process = start("""
        worker = jobs.worker().start()
        worker.milestones.wait_for("claimed")
        say("end of the program")
    """)
    said(process, "end of the program")
    began = time.monotonic()

    assert process.wait(PATIENCE) == 0
    assert time.monotonic() - began < 10
    assert state(job_id) is State.EXECUTING  # its session expires, and another worker runs it again


@pytest.mark.promise("F93")
def test_ctrl_c_lets_what_runs_finish(start, enqueue, state):
    job_id = enqueue(0.5)
    process = start("""
        try:
            with jobs.worker():
                say("ready")
                rest()
        except KeyboardInterrupt:
            say("interrupted")
    """)
    said(process, "running", "ready")
    process.send_signal(signal.SIGINT)
    said(process, "done")
    said(process, "interrupted")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED


@pytest.mark.promise("F93")
def test_ctrl_c_in_the_middle_of_starting_leaves_no_worker_behind(start):
    process = start("""
        begin = threading.Thread.start

        def interrupted(thread):
            begin(thread)
            if thread.name == "onward-sweep":
                raise KeyboardInterrupt

        threading.Thread.start = interrupted
        worker = jobs.worker()
        try:
            worker.start()
        except KeyboardInterrupt:
            say("ended" if worker.wait(30) else "still there")
    """)
    said(process, "ended")

    assert process.wait(PATIENCE) == 0


@pytest.mark.promise("F93")
def test_the_second_ctrl_c_does_not_wait(start, enqueue, state):
    job_id = enqueue(60)
    process = start("""
        worker = jobs.worker().start()
        try:
            say("ready")
            rest()
        except KeyboardInterrupt:
            try:
                say("stopping")
                worker.stop()
            except KeyboardInterrupt:
                say("in a hurry")
    """)
    said(process, "running", "ready")
    process.send_signal(signal.SIGINT)
    said(process, "stopping")
    process.send_signal(signal.SIGINT)
    said(process, "in a hurry")

    assert process.wait(10) == 0
    assert state(job_id) is State.EXECUTING


@pytest.mark.promise("S43", "F93")
def test_a_terminated_program_finishes_and_settles_what_runs(start, enqueue, state):
    job_id = enqueue(0.5)
    process = start("""
        signal.signal(signal.SIGTERM, lambda *_: (say("stopping"), sys.exit(0)))
        with jobs.worker():
            say("ready")
            rest()
    """)
    said(process, "running", "ready")
    process.send_signal(signal.SIGTERM)
    said(process, "stopping")  # a busy machine delivers a signal later than a job
    later = enqueue(0)
    said(process, "done")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED
    assert state(later) is State.AVAILABLE


@pytest.mark.promise("F93")
def test_a_signal_handler_may_stop_the_worker(start, enqueue, state):
    job_id = enqueue(0.5)
    process = start("""
        worker = jobs.worker()
        signal.signal(signal.SIGTERM, lambda *_: worker.stop(timeout=0))
        worker.start()
        worker.wait()
        say("ended")
    """)
    said(process, "running")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    said(process, "ended")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED


@pytest.mark.promise("F93")
def test_a_worker_may_live_outside_the_main_thread(start, enqueue, state):
    job_id = enqueue(0.3)
    process = start("""
        def serve():
            with jobs.worker() as worker:
                said.wait()

        said = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: said.set())
        thread = threading.Thread(target=serve)
        thread.start()
        while thread.is_alive():
            thread.join(0.05)  # as in rest()
    """)
    said(process, "running")
    process.send_signal(signal.SIGTERM)
    said(process, "done")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED


@pytest.mark.promise("F85")
def test_a_job_that_exits_does_not_end_the_program(start, enqueue, state):
    job_id = enqueue(0)
    process = start("""
        @jobs.job
        def leave():
            sys.exit(3)

        leave.enqueue()
        with jobs.worker(concurrency=1) as worker:
            worker.milestones.wait_for("settled", 2)
        say(jobs.metrics.count("jobs_failed"))
    """)
    said(process, "done")
    said(process, "1")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED


@pytest.mark.promise("F31")
def test_a_fork_has_no_worker_and_does_not_wait_for_one(start, enqueue, state):
    job_id = enqueue(1)
    process = start("""
        worker = jobs.worker().start()
        worker.milestones.wait_for("claimed")
        child = os.fork()
        if child == 0:
            began = time.monotonic()
            assert not worker.running
            assert worker.stop() == []
            jobs.close()
            os._exit(0 if time.monotonic() - began < 5 else 1)
        _, status = os.waitpid(child, 0)
        say("child", os.waitstatus_to_exitcode(status))
        assert worker.stop() == []
    """)
    said(process, "child 0")

    assert process.wait(PATIENCE) == 0
    assert state(job_id) is State.COMPLETED


@pytest.mark.promise("F17")
def test_a_program_that_was_paused_past_its_lease_changes_nothing_it_lost(start, enqueue, url):
    job_id = enqueue(1.5)
    process = start("""
        with jobs.worker(concurrency=1) as worker:
            worker.milestones.wait_for("reopened", timeout=60)
            say("reopened")
            worker.milestones.wait_for("settled", 1, timeout=60)
            say("lost", jobs.metrics.count("leases_lost"))
    """)
    said(process, "running")
    os.kill(process.pid, signal.SIGSTOP)
    with Onward(url) as jobs:

        @jobs.job
        def work(seconds: float):
            return "by another"

        began = time.monotonic()
        while not jobs.reap():  # a second after its last renewal
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.05)
        assert jobs.drain() == 1
        os.kill(process.pid, signal.SIGCONT)
        said(process, "reopened")
        said(process, "lost 1")

        assert process.wait(PATIENCE) == 0
        record = jobs.get(job_id)
        assert (record.state, record.result, record.attempts, record.crashes) == (State.COMPLETED, "by another", 1, 1)
