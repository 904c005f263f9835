"""Whole workers on a broker: threads of this program, processes of their own, and one that is killed."""

import json
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
from tests.waiting import eventually


def left(jobs, queue=None):
    return {state.value: count for state, count in jobs.counts(queue).items() if count}


class BrokerWorkers:
    """Asked of each broker.  Its module has the fixtures ``jobs`` and ``kill_url``; jobs may be shared by all tests, so each
    test defines its own."""

    broker: str
    count: int  # of jobs in a test of throughput
    retry_after: float  # seconds, as short as the broker can
    options: dict[str, object] = {}  # noqa: RUF012  of the application whose process is killed

    def test_a_worker_runs_everything_with_retries(self, jobs, report):
        runs = Counter()

        @jobs.job(retry=Fixed(self.retry_after), max_retries=3)
        def work(number: int):
            runs[number] += 1
            if number % 10 == 0 and runs[number] == 1:
                raise ValueError("once")

        work.enqueue_many([(number,) for number in range(self.count)])

        again = self.count // 10
        with jobs.worker(concurrency=8):
            eventually(lambda: len(runs) == self.count and sum(runs.values()) == self.count + again and not left(jobs))
        report(f"{self.broker} worker: {self.count} jobs, {again} of them twice, none left, none lost")

    def test_a_process_that_is_killed_leaves_its_jobs_to_the_next(self, kill_url, tmp_path, report):
        """`onward worker` with two processes: one is killed by its own job, and its supervisor starts another."""
        killer = self.count // 2
        (tmp_path / "shop.py").write_text(
            textwrap.dedent(
                f"""
                import os, signal
                from pathlib import Path
                from onward import Fixed, Onward

                jobs = Onward(os.environ["SHOP"], **{json.dumps(self.options)})
                here = Path(os.environ["HERE"])

                @jobs.job(retry=Fixed({self.retry_after}), max_retries=3)
                def work(number: int):
                    with (here / f"run-{{number}}").open("a") as runs:
                        runs.write("x")
                    if number == {killer} and (here / f"run-{{number}}").stat().st_size == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if number % 20 == 1 and (here / f"run-{{number}}").stat().st_size == 1:
                        raise ValueError("once")
                """
            )
        )
        with Onward(kill_url, **self.options) as jobs:
            for number in range(self.count):
                jobs.enqueue("work", {"number": number}, max_retries=3)

            environment = {**os.environ, "SHOP": kill_url, "HERE": str(tmp_path), "PYTHONPATH": str(tmp_path)}
            command = [sys.executable, "-m", "onward", "worker", "shop:jobs", "--processes", "2", "--concurrency", "4"]
            with (tmp_path / "log").open("wb") as log:
                process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            try:
                eventually(
                    lambda: len(list(tmp_path.glob("run-*"))) == self.count and not left(jobs),
                    what=lambda: f"{left(jobs)} {(tmp_path / 'log').read_text()}",
                )
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, (tmp_path / "log").read_text()

        runs = Counter(path.stat().st_size for path in tmp_path.glob("run-*"))
        self.check_runs(runs, (tmp_path / f"run-{killer}").stat().st_size)
        report(
            f"{self.broker} onward worker: {self.count} jobs, one process killed, "
            f"runs by count {dict(sorted(runs.items()))}"
        )

    def check_runs(self, runs, of_the_killer):
        """Check how many jobs ran how often.  Those that ran beside the killer run again."""
        assert of_the_killer >= 2

    def test_nothing_is_claimed_that_cannot_begin_at_once(self, jobs):
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

    def test_one_by_one_and_all_at_once_in_the_callers_thread(self, jobs):
        ran = []

        @jobs.job
        def note(number: int):
            ran.append(number)

        for number in range(5):
            note.enqueue(number)

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
            lambda jobs: jobs.handle("1").result(),
        ],
    )
    def test_what_a_broker_cannot_tell_is_an_error_that_names_the_fix(self, jobs, ask):
        with pytest.raises(Unsupported, match=r"is a broker and cannot .*store=.sqlite"):
            ask(jobs)

    @pytest.mark.parametrize("option", ["unique_key", "idempotency_key", "single_instance"])
    def test_what_a_broker_cannot_keep_is_an_error_where_it_is_asked_for(self, jobs, option):
        @jobs.job(name=f"with_{option}")
        def work():
            raise AssertionError

        options = {option: True if option == "single_instance" else "a"}
        with pytest.raises(OptionError, match=option):
            work.using(**options).enqueue()
        with pytest.raises(OptionError, match=option):
            jobs.enqueue("unknown", **options)
        assert not left(jobs)

    def test_a_single_instance_is_an_error_where_the_job_is_defined(self, jobs):
        with pytest.raises(OptionError, match="single_instance"):

            @jobs.job(single_instance=True)
            def single(): ...

    def test_progress_fails_no_job(self, jobs):
        @jobs.job
        def report_progress(context: JobContext):
            context.progress(0.5)

        report_progress.enqueue()

        assert jobs.process_once().status == "acked"
        assert jobs.prune() == 0
        assert jobs.reap() == []

    @pytest.mark.promise("S70")
    @pytest.mark.parametrize("call", ["step", "sleep", "wait_for"])
    def test_steps_are_refused_before_anything_has_happened(self, jobs, call):
        happened = []

        @jobs.job(name=f"refused_{call}", max_retries=0)
        def work(ctx: JobContext):
            {
                "step": lambda: ctx.step("x", happened.append, 1),
                "sleep": lambda: ctx.sleep("x", 60),
                "wait_for": lambda: ctx.wait_for("x", timeout=60),
            }[call]()

        work.enqueue()
        ended = jobs.process_once()

        assert ended.status == "dead-lettered"
        assert ended.error.kind == "onward.errors.Unsupported"
        assert "ONWARD_STORE" in ended.error.message
        assert happened == []

    def test_a_worker_of_a_pattern_is_refused_at_its_start(self, jobs):
        with pytest.raises(Unsupported, match=r"no worker can serve 'tenant\.\*': name the queues"):
            jobs.worker(queues=["mail", "tenant.*"])
