"""Sleeping and waking: one job wakes one worker, and sleeping costs next to nothing."""

import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest

from onward import Onward
from onward.backends.sqlite.connection import Connections
from onward.base.clock import SystemClock
from onward.worker import worker as engine
from tests.worker.stores import counting

PATIENCE = 60
NEVER = 3600


@pytest.fixture
def writes(monkeypatch):
    """Count what takes the write lock, on SQLite."""
    taken = []
    real = Connections.writing

    def writing(self):
        taken.append(time.monotonic())
        return real(self)

    monkeypatch.setattr(Connections, "writing", writing)
    return taken


@pytest.fixture
def claims():
    """Count the turns that claim with SQLite's write lock in inflight."""
    turns = []

    class Claims:
        def _turn(self, turn, **how):
            if turn.claim is not None and not turn.settlements:
                turns.append(turn.owner)
            return super()._turn(turn, **how)

    return SimpleNamespace(mixin=Claims, turns=turns)


@pytest.fixture
def only_woken(monkeypatch):
    """A worker looks for work when it is woken, and not every second besides."""
    monkeypatch.setattr(engine, "_WAIT", NEVER)


@pytest.mark.promise("F40")
@pytest.mark.parametrize("store", ["sqlite"])
def test_one_job_does_not_wake_fifty_workers(open_app_on, work_on, only_woken, claims, report):
    """Of fifty idle workers, one gets it; hardly another even asks for the write lock."""
    jobs = open_app_on(claims.mixin, lease_for="10m")
    done = []

    @jobs.job
    def work(n: int):
        done.append(n)

    workers = [work_on(jobs, concurrency=2) for _ in range(50)]
    for worker in workers:
        worker.milestones.wait_for("idle")
    most = 0
    for n in range(10):
        claims.turns.clear()
        work.enqueue(n)
        while sum(worker.milestones.count("settled") for worker in workers) <= n:
            workers[0].wait(0.005)
        most = max(most, len(claims.turns))

    report(f"one job, fifty idle workers of one process: at most {most} claims took the write lock")
    assert done == list(range(10))
    assert 1 <= most <= 3


@pytest.mark.promise("F40")
@pytest.mark.parametrize("store", ["sqlite"])
def test_nor_does_one_that_falls_due(open_app_on, work_on, only_woken, claims, report):
    """No process enqueues it at that moment, and all of them know when it is due."""
    jobs = open_app_on(claims.mixin, lease_for="10m", clock=SystemClock())

    @jobs.job
    def work(n: int): ...

    workers = [work_on(jobs, concurrency=2) for _ in range(50)]
    for worker in workers:
        worker.milestones.wait_for("idle")
    most = 0
    for n in range(3):
        claims.turns.clear()
        work.using(delay=0.15).enqueue(n)
        while sum(worker.milestones.count("settled") for worker in workers) <= n:
            workers[0].wait(0.005)
        most = max(most, len(claims.turns))

    report(f"one job that falls due, fifty idle workers: at most {most} claims took the write lock")
    assert 1 <= most <= 3


_IDLE = """
    import sys, threading, time
    from onward import Onward
    from onward.worker import worker

    worker._WAIT = 3600  # it looks when it is woken, and not every second besides
    claims = 0
    with Onward(sys.argv[1], lease_for="10m") as jobs:
        real = type(jobs.backend)._turn

        def take_turn(self, turn, **how):
            global claims
            claims += turn.claim is not None and not turn.settlements
            return real(self, turn, **how)

        type(jobs.backend)._turn = take_turn

        @jobs.job
        def work():
            print("ran", flush=True)

        workers = [jobs.worker(concurrency=2).start() for _ in range(int(sys.argv[2]))]
        for worker in workers:
            worker.milestones.wait_for("idle")
        print("idle", flush=True)
        for line in sys.stdin:
            print("claims", claims, flush=True)
            claims = 0
"""


@pytest.mark.promise("F40")
@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize("delay", [0, 0.15])
def test_nor_does_it_wake_the_workers_of_other_processes(url, delay, report):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_IDLE), url, "10"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        for _ in range(5)
    ]
    try:
        with Onward(url) as jobs:
            for process in processes:
                assert process.stdout.readline() == "idle\n"
            most = 0
            for _ in range(5):
                handle = jobs.enqueue("work", delay=delay)
                handle.result(timeout=PATIENCE)
                claims = 0
                for process in processes:
                    process.stdin.write("?\n")
                    process.stdin.flush()
                    while not (line := process.stdout.readline()).startswith("claims"):
                        assert line == "ran\n"
                    claims += int(line.split()[1])
                most = max(most, claims)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    what = "one job that falls due" if delay else "one job"
    report(f"{what}, fifty idle workers of five processes: at most {most} claims took the write lock")
    assert 1 <= most <= 3


def test_an_idle_worker_costs_less_than_a_hundredth_of_a_core(open_app_on, work_on, writes, store, report):
    turns = []
    jobs = open_app_on(counting(turns), lease_for="10m")

    @jobs.job
    def work(): ...

    work.enqueue()
    worker = work_on(jobs)
    worker.milestones.wait_for("settled")
    worker.milestones.wait_for("idle")
    turns.clear()
    writes.clear()

    def share():
        used, began = time.process_time(), time.monotonic()
        worker.wait(1)
        return (time.process_time() - used) / (time.monotonic() - began)

    best = min(share(), share())  # what else this process does is none of the worker's
    report(f"an idle worker ({store}): {best:.2%} of a core")
    assert best < 0.01
    assert len(turns) <= 3  # a look every second
    assert writes == []


def test_a_wake_up_during_a_claim_is_not_lost(open_app_on, work_on, gate):
    """The claim has found nothing and is on its way back; what comes now is heard of once, and by no other thread."""
    late = []

    class ComesTooLate:
        def turn(self, turn):
            answer = super().turn(turn)
            if late and turn.claim is not None:
                late.pop()()
            return answer

        def wait(self, queues, timeout):
            gate.pass_through()  # no thread is woken by it

    jobs = open_app_on(ComesTooLate)

    @jobs.job
    def work(): ...

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")

    def enqueue_and_wake():
        work.enqueue()
        worker._pump.wake()

    late.append(enqueue_and_wake)
    worker._pump.wake()
    worker.milestones.wait_for("settled")


def test_a_job_is_begun_within_moments(jobs, work_on, store, report):
    @jobs.job
    def work(): ...

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    delays = []
    for n in range(50):
        enqueued = time.perf_counter()
        work.enqueue()
        worker.milestones.wait_for("settled", n + 1)
        delays.append(time.perf_counter() - enqueued)

    delays.sort()
    report(f"from enqueue to settled, one job at a time ({store}): median {delays[25] * 1000:.1f} ms")
    assert delays[25] < 0.04  # by the wake pipe, not by the look of every 50 ms


def test_a_job_that_falls_due_is_begun_within_moments(open_app, work_on, store, report):
    jobs = open_app(clock=SystemClock())
    late = []

    @jobs.job
    def work(due: float):
        late.append(time.time() - due)

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    for n in range(15):
        work.using(delay=0.1).enqueue(time.time() + 0.1)
        worker.milestones.wait_for("settled", n + 1)

    late.sort()
    report(f"from due to begun, one job at a time ({store}): median {late[7] * 1000:.1f} ms")
    assert late[7] < 0.04  # a lone worker does not wait for others


def test_a_job_that_falls_due_is_claimed_without_a_wake(open_app, work_on):
    jobs = open_app(clock=SystemClock())

    @jobs.job
    def work(): ...

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    began = time.monotonic()
    work.using(delay=0.3).enqueue()
    worker.milestones.wait_for("settled")

    assert 0.3 <= time.monotonic() - began < 2
