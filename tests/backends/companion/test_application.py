"""An application on a broker with a store: what it can do by then, and how it is told of the store."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from onward import Fixed, JobContext, NoDelay, Onward
from onward.cli import main
from onward.errors import BackendMisconfigured, JobDiscardedError, OptionError, Unsupported
from onward.testing.clock import FakeClock
from tests.waiting import eventually

JOBS = 60


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path / 'onward.db'}"


@pytest.fixture
def jobs(server, store):
    server.empty()
    with Onward(server.url(), store=store) as jobs:
        yield jobs


def test_results_errors_history_and_dead_letters(jobs):
    fails = [True]

    @jobs.job
    def add(a: int, b: int) -> int:
        return a + b

    @jobs.job
    def fail():
        if fails:
            raise ValueError("not yet")
        return "at last"

    added, failed = add.enqueue(1, 2), fail.enqueue()
    assert jobs.counts()["available"] == 2
    jobs.drain()

    assert added.result(timeout=0) == 3
    with pytest.raises(JobDiscardedError, match="not yet"):
        failed.result(timeout=0)
    (dead,) = jobs.dead_letters.list()
    assert (dead.id, dead.errors[-1].message) == (failed.id, "not yet")
    fails.clear()
    assert jobs.dead_letters.replay() == 1
    jobs.drain()
    assert failed.result(timeout=0) == "at last"
    assert {record.state for record in jobs.list()} == {"completed"}


def test_idempotency_keys_single_instances_and_pause(jobs):
    ran = []

    @jobs.job(single_instance=True)
    def work(number: int):
        ran.append(number)

    for _ in range(2):
        work.using(idempotency_key="a").enqueue(1)
    work.enqueue(2)
    assert jobs.pause("default")
    assert jobs.drain() == 0
    jobs.resume("default")
    jobs.drain()

    assert sorted(ran) == [1, 2]


def test_a_unique_key_is_still_an_error_and_names_the_fix(jobs):
    @jobs.job
    def work(): ...

    with pytest.raises(OptionError, match=r"unique_key .* use a database as the url, or an idempotency_key"):
        work.using(unique_key="a").enqueue()


def test_without_a_store_the_error_names_the_fix(server):
    with Onward(server.url()) as jobs, pytest.raises(OptionError, match=r'store="sqlite:///onward\.db"'):

        @jobs.job(single_instance=True)
        def work(): ...


@pytest.mark.parametrize(
    ("store", "complaint"),
    [("redis://localhost", "cannot be the store beside a broker"), ("sqlit:///a.db", "did you mean 'sqlite'")],
)
def test_a_store_that_cannot_stand_beside_a_broker_is_refused(server, store, complaint):
    with pytest.raises(BackendMisconfigured, match=complaint):
        Onward(server.url(), store=store)


def test_a_database_needs_no_store_beside_it(tmp_path, store):
    with pytest.raises(BackendMisconfigured, match="leave `store` out"):
        Onward(f"sqlite:///{tmp_path / 'own.db'}", store=store)


def test_the_store_is_named_by_the_environment_a_file_or_the_command_line(server, store, tmp_path, monkeypatch, capsys):
    server.empty()
    with Onward(server.url(), store=store) as jobs:
        job_id = jobs.enqueue("unknown", {"a": 1}).id
    listing = ["job", "list", "--json", "--url", server.url()]
    monkeypatch.chdir(tmp_path)

    def listed(*more):
        assert main([*listing, *more]) == 0
        return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]

    assert main(listing) != 0
    assert 'store="sqlite:///onward.db"' in capsys.readouterr().err
    assert listed("--store", store) == [job_id]
    monkeypatch.setenv("ONWARD_STORE", store)
    assert listed() == [job_id]
    monkeypatch.delenv("ONWARD_STORE")
    (tmp_path / "onward.toml").write_text('store = "sqlite:///onward.db"')
    assert listed() == [job_id]
    assert main(["health", "--url", server.url()]) == 0
    told = capsys.readouterr().out
    assert "broker: server" in told
    assert "store: " in told
    assert main(["job", "list", "--url", store]) == 0  # the file's store is another's: this url needs none
    assert main(["migrate", "--check", "--url", server.url()]) == 0


def test_an_application_on_a_clock_of_its_own(server, store):
    with Onward(server.url(), store=store, clock=FakeClock()) as jobs:
        assert jobs.backend.clock is jobs._parts.producer.clock


@pytest.mark.promise("F66")
def test_a_process_that_is_killed_leaves_its_jobs_to_the_next(server, store, tmp_path, report):
    """`onward worker` with two processes: one is killed by its own job, and its supervisor gives back what it held."""
    server.empty()
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            from pathlib import Path
            from onward import Fixed, JobContext, NoDelay, Onward

            jobs = Onward(os.environ["SHOP"])
            here = Path(os.environ["HERE"])

            @jobs.job(retry=Fixed(1), max_retries=3)
            def work(number: int):
                with (here / f"run-{number}").open("a") as runs:
                    runs.write("x")
                if number == 20 and (here / f"run-{number}").stat().st_size == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if number % 20 == 1 and (here / f"run-{number}").stat().st_size == 1:
                    raise ValueError("once")
            """
        )
    )
    environment = os.environ | {
        "SHOP": server.url(),
        "HERE": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "ONWARD_STORE": "sqlite:///onward.db",  # from whatever folder its supervisor looks
    }
    command = [sys.executable, "-m", "onward", "worker", "shop:jobs", "--processes", "2", "--concurrency", "4"]
    with Onward(server.url(), store=store) as jobs:
        for number in range(JOBS):
            jobs.enqueue("work", {"number": number}, max_retries=3, retry=Fixed(1))
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            eventually(
                lambda: jobs.counts()["completed"] == JOBS,
                what=lambda: f"{jobs.counts()} {(tmp_path / 'log').read_text()}",
            )
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (tmp_path / "log").read_text()

        (killer,) = (record for record in jobs.list(limit=JOBS) if record.payload == {"number": 20})
        runs = Counter(path.stat().st_size for path in tmp_path.glob("run-*"))
        assert (killer.crashes >= 1, killer.attempts, sum(runs.values())) == (True, 1, JOBS)
        assert runs[1] >= JOBS // 2  # what ran beside the killer, or was not settled yet, runs again
    report(f"companion onward worker: {JOBS} jobs, one process killed, runs by count {dict(sorted(runs.items()))}")


def test_a_worker_of_a_pattern_is_refused_for_the_broker_hands_jobs_out_by_name(jobs):
    with pytest.raises(Unsupported, match=r"no worker can serve 'tenant\.\*': name the queues"):
        jobs.worker(queues=["tenant.*"])


def test_many_results_are_read_from_the_store(jobs):
    @jobs.job
    def double(n: int) -> int:
        return 2 * n

    handles = double.enqueue_many([(1,), (2,)])
    jobs.drain()

    assert jobs.results(handles, timeout=10) == [2, 4]


@pytest.mark.promise("S70")
def test_steps_and_signals_are_kept_by_the_store(jobs):
    calls = []

    @jobs.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> bool:
        ctx.step("charge", calls.append, 1)
        if ctx.attempt == 1:
            raise ConnectionError
        return ctx.wait_for("go", timeout="7d", returns=bool)

    handle = work.enqueue()
    jobs.drain()
    assert handle.record().waiting_for == "go"
    assert jobs.signal(handle.id, "go", True)
    eventually(lambda: jobs.drain() == 1)

    assert handle.result(timeout=0) is True
    assert calls == [1]


@pytest.mark.promise("S66", "S70")
def test_a_sleeping_job_goes_on_when_its_message_comes(jobs):
    @jobs.job
    def work(ctx: JobContext) -> int:
        ctx.sleep("nap", 1)
        return ctx.delivery

    handle = work.enqueue()
    jobs.drain()
    eventually(lambda: jobs.drain() == 1)

    assert handle.result(timeout=0) == 2
