"""Whole workers on beanstalkd: threads of this program, processes of their own, and one that is killed."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter

import pytest

from onward import Fixed, JobContext, Onward
from onward.errors import OptionError, Unsupported
from onward.telemetry import JobDiscarded
from tests.waiting import eventually

JOBS = 200


@pytest.fixture
def jobs(server):
    with Onward(server.url(), dead_letter_queue="dead") as jobs:
        yield jobs


def left(jobs):
    return {state.value: count for state, count in jobs.counts().items() if count}


def test_a_worker_runs_everything_with_retries(jobs, report):
    runs = Counter()

    @jobs.job(retry=Fixed(1), max_retries=3)
    def work(number: int):
        runs[number] += 1
        if number % 10 == 0 and runs[number] == 1:
            raise ValueError("once")

    work.enqueue_many([(number,) for number in range(JOBS)])

    with jobs.worker(concurrency=8):
        eventually(lambda: len(runs) == JOBS and sum(runs.values()) == JOBS + JOBS // 10 and not left(jobs))
    report(f"beanstalkd worker: {JOBS} jobs, {JOBS // 10} of them twice, none left, none lost")


def test_what_fails_for_good_is_buried_and_leaves_a_dead_letter(jobs):
    seen, discarded = [], []
    jobs.on(JobDiscarded, discarded.append)

    @jobs.job(max_retries=1, retry=Fixed(1))
    def fail(number: int):
        raise ValueError(f"never {number}")

    @jobs.job(queue="dead")
    def dead_letter(id, job, name, queue, payload, meta, reason, attempts, errors):  # noqa: A002
        seen.append({"payload": payload, "attempts": attempts, "errors": errors})

    fail.enqueue(7)
    with jobs.worker(queues=["default", "dead"]):
        eventually(lambda: seen)
        eventually(lambda: left(jobs) == {"discarded": 1})

    (letter,) = seen
    assert (letter["attempts"], letter["payload"], letter["errors"][-1]["message"]) == (2, {"number": 7}, "never 7")
    eventually(lambda: discarded)


def test_a_process_that_is_killed_leaves_its_jobs_to_the_next(server, tmp_path, report):
    """`onward worker` with two processes: one is killed by its own job, and its supervisor starts another."""
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            from pathlib import Path
            from onward import Fixed, Onward

            jobs = Onward(os.environ["SHOP"])
            here = Path(os.environ["HERE"])

            @jobs.job(retry=Fixed(1), max_retries=3)
            def work(number: int):
                with (here / f"run-{number}").open("a") as runs:
                    runs.write("x")
                if number == 50 and (here / f"run-{number}").stat().st_size == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if number % 20 == 1 and (here / f"run-{number}").stat().st_size == 1:
                    raise ValueError("once")
            """
        )
    )
    with Onward(server.url()) as jobs:
        for number in range(JOBS):
            jobs.enqueue("work", {"number": number}, max_retries=3)

        environment = {**os.environ, "SHOP": server.url(), "HERE": str(tmp_path), "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", "onward", "worker", "shop:jobs", "--processes", "2", "--concurrency", "4"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            eventually(
                lambda: len(list(tmp_path.glob("run-*"))) == JOBS and not left(jobs),
                what=lambda: f"{left(jobs)} {(tmp_path / 'log').read_text()}",
            )
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (tmp_path / "log").read_text()

    runs = Counter(path.stat().st_size for path in tmp_path.glob("run-*"))
    again = JOBS // 20 + 1
    assert runs[1] >= JOBS - again - 4  # what ran beside the one that killed them all runs again
    assert (tmp_path / "run-50").stat().st_size == 2
    report(f"beanstalkd onward worker: {JOBS} jobs, one process killed, runs by count {dict(sorted(runs.items()))}")


def test_nothing_is_claimed_that_cannot_begin_at_once(jobs):
    go = threading.Event()

    @jobs.job
    def wait(number: int):
        go.wait(30)

    for number in range(50):
        wait.enqueue(number)
    with jobs.worker(concurrency=3):
        eventually(lambda: left(jobs).get("executing") == 3)
        assert left(jobs)["available"] == 47
        go.set()
        eventually(lambda: not left(jobs))


def test_one_by_one_and_all_at_once_in_the_callers_thread(jobs):
    ran = []

    @jobs.job
    def work(number: int):
        ran.append(number)

    for number in range(5):
        work.enqueue(number)

    assert jobs.process_once().status == "acked"
    assert jobs.drain() == 4
    assert ran == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "ask",
    [
        lambda jobs: jobs.get("1"),
        lambda jobs: jobs.list(),
        lambda jobs: jobs.overview(),
        lambda jobs: jobs.sessions(),
        lambda jobs: jobs.cancel("1"),
        lambda jobs: jobs.retry("1"),
        lambda jobs: jobs.pause("default"),
        lambda jobs: jobs.forget("k"),
        lambda jobs: jobs.dead_letters.list(),
        lambda jobs: jobs.dead_letters.replay(),
        lambda jobs: jobs.dead_letters.purge(),
        lambda jobs: jobs.handle("1").result(),
    ],
)
def test_what_a_broker_cannot_tell_is_an_error_that_names_the_fix(jobs, ask):
    with pytest.raises(Unsupported, match=r"is a broker and cannot .*store=.sqlite"):
        ask(jobs)


@pytest.mark.parametrize("options", [{"unique_key": "a"}, {"idempotency_key": "a"}, {"single_instance": True}])
def test_what_a_broker_cannot_keep_is_an_error_where_it_is_asked_for(jobs, options):
    @jobs.job
    def work():
        raise AssertionError

    with pytest.raises(OptionError, match=next(iter(options))):
        work.using(**options).enqueue()
    with pytest.raises(OptionError, match=next(iter(options))):
        jobs.enqueue("unknown", **options)
    assert not left(jobs)


def test_a_single_instance_is_an_error_where_the_job_is_defined(jobs):
    with pytest.raises(OptionError, match="single_instance"):

        @jobs.job(single_instance=True)
        def work(): ...


def test_progress_fails_no_job(jobs):
    @jobs.job
    def work(context: JobContext):
        context.progress(0.5)

    work.enqueue()

    assert jobs.process_once().status == "acked"
    assert jobs.prune() == 0
    assert jobs.reap() == []


def test_a_worker_of_a_pattern_is_refused_at_its_start(jobs):
    with pytest.raises(Unsupported, match=r"no worker can serve 'tenant\.\*': name the queues"):
        jobs.worker(queues=["mail", "tenant.*"])
