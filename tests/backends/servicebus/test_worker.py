"""Whole workers on Service Bus: threads of this program, processes of their own, and one that is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from onward import Fixed, Onward
from onward.cli.ids import find_dead
from onward.errors import OptionError, Unsupported
from onward.telemetry import JobDiscarded
from tests.servers.servicebus import entity, servicebus, url_of
from tests.waiting import eventually

JOBS = 40


@pytest.fixture(scope="module")
def module_server():
    """Goes by the machine's clock."""
    with servicebus(lock_duration=30, duplicate_detection_window=600) as server:
        yield server


@pytest.fixture(scope="module")
def shared_jobs(module_server):
    with Onward(url_of(module_server), dead_letter_queue="dead") as jobs:
        yield jobs


@pytest.fixture
def jobs(shared_jobs, module_server):
    module_server.clear()
    return shared_jobs


def left(jobs, queue=None):
    return {state.value: count for state, count in jobs.counts(queue).items() if count}


def test_a_worker_runs_everything_with_retries(jobs, report):
    runs = Counter()

    @jobs.job(retry=Fixed(0.1), max_retries=3)
    def work(number: int):
        runs[number] += 1
        if number % 10 == 0 and runs[number] == 1:
            raise ValueError("once")

    work.enqueue_many([(number,) for number in range(JOBS)])

    with jobs.worker(concurrency=8):
        eventually(lambda: len(runs) == JOBS and sum(runs.values()) == JOBS + JOBS // 10 and not left(jobs))
    report(f"Service Bus worker: {JOBS} jobs, {JOBS // 10} of them twice, none left, none lost")


def test_what_fails_for_good_is_a_dead_letter_that_can_be_listed_and_replayed(jobs):
    seen, discarded, healed = [], [], []
    jobs.on(JobDiscarded, discarded.append)

    @jobs.job(max_retries=1, retry=Fixed(0.1))
    def fail(number: int):
        if not healed:
            raise ValueError(f"never {number}")
        healed.append(number)

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

    (record,) = jobs.dead_letters.list()
    assert (record.job, record.attempts, record.queue) == ("fail", 2, "default")
    assert "2 attempts" in record.reason
    assert record.errors[-1].message == "never 7"
    assert jobs.dead_letters.list("dead") == []
    assert jobs.dead_letters.list(job="other") == []

    healed.append(0)
    assert jobs.dead_letters.replay([record.id]) == 1
    assert jobs.process_once().status == "acked"
    assert healed == [0, 7]
    assert not left(jobs)


def test_some_dead_letters_are_picked_and_the_others_stay(jobs):
    @jobs.job
    def fall(number: int):
        raise ValueError(number)

    for number in range(5):
        fall.enqueue(number)
    jobs.drain("default")
    records = jobs.dead_letters.list()
    assert jobs.dead_letters.get(records[2].id) == records[2]
    assert find_dead(jobs, records[2].id[:31]) == records[2]

    assert jobs.dead_letters.replay([records[3].id, records[1].id]) == 2
    assert jobs.dead_letters.purge([records[0].id]) == 1

    assert [record.id for record in jobs.dead_letters.list()] == [records[2].id, records[4].id]
    assert left(jobs, "default") == {"available": 2, "discarded": 2}


def test_a_process_that_is_killed_leaves_its_jobs_to_the_next(tmp_path, report):
    """`onward worker` with two processes: one is killed by its own job, and its supervisor starts another."""
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            from pathlib import Path
            from onward import Fixed, Onward

            jobs = Onward(os.environ["SHOP"], lease_for=5)
            here = Path(os.environ["HERE"])

            @jobs.job(retry=Fixed(0.1), max_retries=3)
            def work(number: int):
                with (here / f"run-{number}").open("a") as runs:
                    runs.write("x")
                if number == 20 and (here / f"run-{number}").stat().st_size == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            """
        )
    )
    with servicebus(lock_duration=5) as server, Onward(url_of(server)) as jobs:
        for number in range(JOBS):
            jobs.enqueue("work", {"number": number}, max_retries=3)

        environment = {**os.environ, "SHOP": url_of(server), "HERE": str(tmp_path), "PYTHONPATH": str(tmp_path)}
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
    assert (tmp_path / "run-20").stat().st_size >= 2
    report(f"Service Bus onward worker: {JOBS} jobs, one process killed, runs by count {dict(sorted(runs.items()))}")


def test_with_a_store_beside_it_jobs_can_be_asked_about(module_server, tmp_path):
    """The queue detects duplicates: whatever is put there again must not be taken for a repetition."""
    module_server.clear()
    with Onward(url_of(module_server), store=f"sqlite:///{tmp_path}/jobs.db") as jobs:
        runs = []

        @jobs.job(retry=Fixed(0.1), max_retries=1)
        def add(a: int, b: int) -> int:
            runs.append(a)
            if len(runs) < 4:
                raise ValueError("not yet")
            return a + b

        handle = add.using(idempotency_key="once").enqueue(1, 2)
        with jobs.worker(concurrency=2):
            eventually(lambda: handle.state() == "discarded")
            assert jobs.dead_letters.replay([handle.id]) == 1
            assert handle.result(timeout=60) == 3
            eventually(lambda: not module_server.messages(entity()))
    assert len(runs) == 4


@pytest.mark.parametrize(
    "ask",
    [
        lambda jobs: jobs.get("1"),
        lambda jobs: jobs.list(),
        lambda jobs: jobs.overview(),
        lambda jobs: jobs.cancel("1"),
        lambda jobs: jobs.pause("default"),
        lambda jobs: jobs.forget("k"),
        lambda jobs: jobs.handle("1").result(),
    ],
)
def test_what_a_broker_cannot_tell_is_an_error_that_names_the_fix(jobs, ask):
    with pytest.raises(Unsupported, match=r"is a broker and cannot .*store=.sqlite"):
        ask(jobs)


@pytest.mark.parametrize(
    "options", [{"unique_key": "a"}, {"idempotency_key": "a"}, {"single_instance": True}, {"priority": 5}]
)
def test_what_a_broker_cannot_keep_is_an_error_where_it_is_asked_for(jobs, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        jobs.enqueue("unknown", **options)
    assert not left(jobs)


def test_a_worker_of_a_pattern_is_refused_at_its_start(jobs):
    with pytest.raises(Unsupported, match=r"no worker can serve 'tenant\.\*': name the queues"):
        jobs.worker(queues=["mail", "tenant.*"])
