"""`onward demo`: a shop with a real worker, of which nothing is left at the end but a summary."""

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from onward import Onward, State
from onward.demo.summary import summarise
from tests.waiting import eventually

# The demo runs for half a dozen seconds whatever the machine can do.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Where the demo has its temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def processes_in(folder):
    """The processes that work in a folder, or below."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.promise("F01", "F05")
def test_without_a_terminal_it_ends_by_itself_and_has_lost_nothing(shell, own_folder):
    settings_of_ones_own = {"ONWARD_URL": "sqlite:////no/such/x.db", "ONWARD_NAMESPACE": "x", "ONWARD_MAX_CRASHES": "9"}
    begun = time.monotonic()

    ran = shell("demo", "--json", **settings_of_ones_own)

    assert ran.code == 0, ran.err
    assert time.monotonic() - begun < 30
    (summary,) = ran.json
    assert summary["lost"] == []
    assert summary["enqueued"] == sum(summary["states"].values()) > 50
    assert summary["duplicates"] == 4
    assert summary["states"]["cancelled"] == 2
    assert summary["failed_runs"] > summary["retried"] > 0
    letters = {letter["name"]: letter["reason"] for letter in summary["dead_letters"]}
    assert letters["import_feed"] == "crashed 2 times: killed by SIGKILL"
    assert letters.keys() == {"import_feed", "refund"}  # jobs that were in its process with it are not blamed
    assert summary["crashes"] - summary["bystanders"] == 2
    assert list(own_folder.iterdir()) == []
    assert processes_in(own_folder) == []


def test_people_read_what_happens_and_a_summary_and_may_keep_the_store(shell, onward, tmp_path):
    ran = shell("demo", "--seconds", "2", "--keep", "kept")

    assert ran.code == 0, ran.err
    assert "the shop opens" in ran.err
    assert "import_feed: discarded, crashed 2 times: killed by SIGKILL" in ran.err
    told = {line.split("  ")[0] for line in ran.out.splitlines()}
    assert {"enqueued", "completed", "retried", "crashes", "cancelled", "waiting", "dead letters", "lost"} <= told
    assert "every job that was accepted is accounted for" in ran.out
    assert f"kept: onward --url sqlite:///{tmp_path / 'kept/shop.db'} job list" in ran.err
    with Onward(f"sqlite:///{tmp_path / 'kept/shop.db'}") as jobs:
        assert jobs.counts()[State.EXECUTING] == 0
        assert jobs.counts()[State.COMPLETED] > 10
        assert jobs.sessions() == []
    assert (tmp_path / "kept/worker.log").stat().st_size > 0

    again = onward("demo", "--keep", "kept")
    assert again.code == 3
    assert "name another folder" in again.err


class TestOnATerminal:
    def test_it_is_live_until_ctrl_c(self, live, own_folder):
        demo = live("demo", rows=40)

        demo.wait_for("onward demo  sqlite:///", "count_stock", "shelf", "WORKER", "jobs/s")
        demo.wait_for("dead 2 ")
        demo.type("\x03")
        left = demo.end()

        assert demo.code == 0, left
        assert "import_feed" in left
        assert "every job that was accepted is accounted for" in left
        assert list(own_folder.iterdir()) == []
        assert processes_in(own_folder) == []

    def test_it_ends_when_told_how_long(self, live):
        demo = live("demo", "--seconds", "0.5")
        left = demo.end()

        assert demo.code == 0, left
        assert "every job that was accepted is accounted for" in left

    def test_a_signal_that_ends_it_ends_its_worker_too(self, live, own_folder):
        demo = live("demo")
        demo.wait_for("count_stock")

        demo.signal(signal.SIGTERM)
        demo.end()

        assert demo.code == 143
        assert list(own_folder.iterdir()) == []
        # On a slow machine the third signal ends the supervisor before its processes, which then end by themselves.
        eventually(lambda: processes_in(own_folder) == [])


@pytest.mark.parametrize("moment", ["the shop opens", "count_stock: executing"])
def test_ctrl_c_without_a_terminal_ends_it_in_order_too(program, own_folder, moment):
    with subprocess.Popen([*program, "demo"], stdout=-1, stderr=-1, env=os.environ, text=True) as demo:
        while moment not in demo.stderr.readline():
            assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=60)

    assert demo.returncode == 0, err
    assert "every job that was accepted is accounted for" in out
    assert processes_in(own_folder) == []


class TestSummary:
    def test_a_job_that_is_not_in_the_store_is_lost(self, jobs):
        there = jobs.enqueue("x").id

        summary = summarise(jobs, ids={there, "f" * 32}, duplicates=0, seconds=1.0)

        assert summary.lost == ["f" * 32]
        assert summary.waiting == 1
        *_, last = ["".join(text for text, _ in line) for line in summary.lines()]
        assert last.split() == ["lost", "1"]

    def test_jobs_of_other_programs_do_not_count(self, jobs):
        jobs.enqueue("x")

        assert summarise(jobs, ids=set(), duplicates=0, seconds=1.0).waiting == 0

    def test_a_bystander_is_told_from_the_culprit(self, jobs, sql):
        bystander, culprit = jobs.enqueue("x").id, jobs.enqueue("y", queue="web").id
        jobs.cancel(bystander)
        jobs.cancel(culprit)
        sql("UPDATE onward_finished SET crashes = 1")
        sql("UPDATE onward_finished SET crashes = 2, state = 'discarded', reason = 'crashed' WHERE id = ?", culprit)

        summary = summarise(jobs, ids={bystander, culprit}, duplicates=0, seconds=1.0)

        assert (summary.crashes, summary.bystanders) == (3, 1)
        assert [letter.id for letter in summary.dead_letters] == [culprit]


class TestOnTheDashboard:
    def test_it_shows_a_busy_shop_until_ctrl_c(self, program, own_folder):
        command = [*program, "demo", "--web", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=-1, stderr=-1, env=os.environ, text=True) as demo:
            address, _, token = demo.stdout.readline().strip().partition("#token=")

            def asked(path):
                request = urllib.request.Request(
                    f"{address}api/v1/{path}", headers={"Authorization": f"Bearer {token}"}
                )
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)

            eventually(lambda: asked("groups")["groups"])
            assert asked("schedules")["schedules"]
            assert asked("flows")["flows"]
            assert asked("limits")["limits"]
            assert asked("audit")["entries"]
            assert asked("workers")["workers"]
            assert {queue["name"] for queue in asked("queues")["queues"] if queue["paused"]} == {"letters"}
            demo.send_signal(signal.SIGINT)
            out, err = demo.communicate(timeout=60)

        assert demo.returncode == 0, err
        assert "every job that was accepted is accounted for" in out
        assert processes_in(own_folder) == []
