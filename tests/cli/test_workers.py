"""`onward worker list`: who is at work; and how `onward worker` begins, or says why it cannot."""

import platform
import signal

import pytest

from onward import State, __version__
from onward.backend import Claim

NAMES = """\
from pathlib import Path
from onward import Onward

jobs = Onward({url!r})

@jobs.job
def rest() -> None:
    open("rest").read()
"""


class TestList:
    def test_every_worker_process_is_listed_with_the_jobs_in_its_hands(
        self, onward, url, jobs, shop, worker, eventually
    ):
        worker(shop(url), "--processes", "2")

        listed = eventually(lambda: len(ran := onward("worker", "list", "--json").json) == 2 and ran)

        assert {line["host"] for line in listed} == {platform.node()}
        assert {line["version"] for line in listed} == {__version__}
        assert all(line["alive"] and line["leases"] == 0 for line in listed)
        assert len({line["pid"] for line in listed}) == 2

    def test_a_worker_that_was_stopped_politely_is_gone(self, onward, url, jobs, shop, worker, eventually):
        process = worker(shop(url))
        eventually(lambda: onward("worker", "list", "--json").json)

        process.terminate()
        process.wait(60)

        assert onward("worker", "list", "--json").json == []

    def test_one_that_died_with_its_machine_is_seen_to_have_expired(self, onward, jobs, sql):
        jobs.enqueue("x")
        jobs.backend.claim(Claim(queues=("default",), owner="0123456789abcdef"))
        sql("UPDATE onward_sessions SET host = 'far-away', pid = 77, expires_at = expires_at - 100 * 1000000")

        heading, row = onward("worker", "list").out.splitlines()

        assert heading.split() == ["WORKER", "HOST", "PID", "JOBS", "RENEWED", "STATE", "VERSION"]
        assert row.split()[:4] == ["01234567", "far-away", "77", "1"]
        assert row.split()[-1] == "expired"
        assert row.split()[5:7] == ["s", "ago"]

    def test_where_no_worker_runs_that_is_said(self, onward, jobs):
        ran = onward("worker", "list")

        assert (ran.code, ran.out, ran.err) == (0, "", "this store has no workers\n")

    def test_it_takes_the_store_of_an_application(self, onward, shop, url, jobs):
        jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))

        assert [line["owner"] for line in onward("worker", "list", "--app", shop(url), "--json").json] == ["elsewhere"]

    def test_a_store_that_is_not_there_is_not_made(self, onward, tmp_path):
        assert onward("worker", "list").code == 4
        assert list(tmp_path.iterdir()) == []

    def test_it_logs_nothing(self, shell, jobs):
        assert shell("worker", "list", "--json").err == "this store has no workers\n"


class TestStarting:
    @pytest.mark.parametrize(
        ("name", "fix"),
        [
            ("no_such_module:jobs", "no_such_module:jobs: importing no_such_module failed: ModuleNotFoundError"),
            ("{shop}:jbos", "has no attribute 'jbos': did you mean 'jobs'?"),
            ("{shop}:nothing", "has no attribute 'nothing'; it has jobs"),
        ],
    )
    def test_an_application_that_is_not_there_is_told_without_a_traceback(self, shell, shop, url, name, fix):
        ran = shell("worker", name.format(shop=shop(url).partition(":")[0]))

        assert ran.code == 3
        assert fix in ran.err
        assert "Traceback" not in ran.err

    def test_an_application_with_a_fault_shows_where_it_is_and_nothing_of_ours(self, shell, shop, url):
        ran = shell("worker", shop(url, "def fail():\n    1 / 0\n\nfail()\n"))

        assert ran.code == 3
        assert "ZeroDivisionError: division by zero" in ran.err
        assert ran.err.count("  File ") == 2
        assert "line 2, in fail" in ran.err

    @pytest.mark.parametrize(
        ("options", "fix"),
        [
            (["--import", "no_such_module"], "importing no_such_module failed"),
            (["--url", "memory://"], "give it a store that processes share"),
            (["--url", "sqlite:////no/such/folder/x.db"], "create it"),
        ],
    )
    def test_so_is_what_the_options_get_wrong(self, shell, shop, url, options, fix):
        ran = shell("worker", shop(url), *options)

        assert ran.code == 3
        assert fix in ran.err
        assert "Traceback" not in ran.err

    def test_the_command_line_says_which_store(self, shell, shop, url, jobs, tmp_path):
        handle = jobs.enqueue("welcome", {"user": 42}, queue="mail")

        ran = shell("worker", shop("sqlite:///never.db"), "--url", url, "--until-empty")

        assert ran.code == 0
        assert handle.result(timeout=60) == "user 42 welcomed in en"
        assert not (tmp_path / "never.db").exists()

    def test_it_holds_for_jobs_in_processes_of_their_own_too(self, shell, shop, url, jobs, tmp_path):
        source = (
            "from onward import Onward\njobs = Onward({url!r})\n@jobs.job(isolation='process')\ndef alone() -> str:\n"
        )
        handle = jobs.enqueue("alone")

        shell(
            "worker",
            shop("sqlite:///never.db", source + "    return jobs.settings.url\n"),
            "--url",
            url,
            "--until-empty",
        )

        assert handle.result(timeout=60) == url
        assert not (tmp_path / "never.db").exists()

    def test_app_names_the_application_too(self, shell, shop, url, jobs):
        handle = jobs.enqueue("welcome", {"user": 42}, queue="mail")

        assert shell("--app", shop(url), "worker", "--until-empty").code == 0
        assert handle.state() is State.COMPLETED

    def test_ctrl_c_is_a_polite_end(self, shop, url, worker, onward, jobs, eventually):
        process = worker(shop(url))
        eventually(lambda: onward("worker", "list", "--json").json)

        process.send_signal(signal.SIGINT)

        assert process.wait(60) == 0
