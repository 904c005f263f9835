"""`onward dead canary`, `onward dead edit`, filters and bulk acts on the command line."""

import json
import os
import signal
import subprocess

import pytest

from onward import State
from onward.cli import bulk
from onward.operate import filters

SOURCE = """
import time
from pathlib import Path

from onward import Onward, Secret

jobs = Onward({url!r})


@jobs.job(queue="mail", name="send")
def send(user_id: int, text: str = "hello", password: str = "") -> None:
    if not Path("fixed").exists() or user_id < 0:
        raise KeyError(f"no user {{user_id}}")
    Path(f"begun-{{user_id}}").touch()
    while user_id >= 3 and Path("held").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def app(shop, url):
    """The name of an application whose job fails while there is no file called fixed."""
    return shop(url, SOURCE)


@pytest.fixture
def dead(app, jobs, tmp_path, shell):
    """Let mails to so many users die; then fix what they failed on."""

    def dead(*users):
        ids = [jobs.enqueue("send", {"user_id": user, "password": "hunter2"}, queue="mail").id for user in users]
        ran = shell("worker", app, "--until-empty")
        assert ran.code == 0, ran.err
        assert {jobs.get(each).state for each in ids} == {State.DISCARDED}
        (tmp_path / "fixed").touch()
        return ids

    return dead


class TestList:
    def test_a_filter_finds_jobs_newest_first(self, onward, kill):
        first, second, _ = kill("bank away", "bank closed", "no")

        ran = onward("job", "list", "--filter", "state:dead bank", "--json")

        assert [line["id"] for line in ran.json] == [second, first]

    def test_it_goes_with_other_options(self, onward, kill):
        kill("1", queue="mail")
        (other,) = kill("2", queue="post")

        assert [
            line["id"] for line in onward("job", "list", "--queue", "post", "--filter", "error:*", "--json").json
        ] == [other]
        assert [line["id"] for line in onward("dead", "list", "--filter", "queue:post", "--json").json] == [other]
        assert [line["id"] for line in onward("dead", "list", "--since", "1h", "--queue", "post", "--json").json] == [
            other
        ]

    def test_it_says_how_to_go_on(self, onward, kill):
        _, second = kill("1", "2")

        ran = onward("job", "list", "--filter", "state:dead", "--limit", "1")

        assert f"go on with --after {second}, or --all" in ran.err
        assert len(onward("job", "list", "--filter", "state:dead", "--limit", "1", "--all", "--json").json) == 2

    def test_arguments_are_not_compared_where_the_job_is_unknown(self, onward, kill, open_app):
        kill("1", "2")

        ran = onward("job", "list", "--filter", "arg.message:1")

        assert "the arguments of 2 were not compared" in ran.err
        assert "--app" in ran.err

    def test_a_mistake_names_the_column_and_exits_with_2(self, onward, jobs):
        ran = onward("job", "list", "--filter", "queue:mail stat:dead")

        assert ran.code == 2
        assert "column 12: there is no word 'stat': did you mean 'state'?" in ran.err

    def test_the_help_names_every_word(self, onward):
        told = onward("job", "list", "--help").out.replace("\n", " ")

        assert [
            word for word in filters.WORDS if word.replace("NAME", "user_id") + ":" not in " ".join(told.split())
        ] == []
        assert bulk.FILTER_HELP


class TestBulk:
    def test_a_dry_run_says_how_many_with_samples_and_changes_nothing(self, onward, jobs, kill):
        first, *_ = kill("1", "2", queue="mail")

        ran = onward("dead", "replay", "--filter", "queue:mail", "--dry-run")

        assert ran.code == 0
        assert ran.out.splitlines()[1].split() == ["mail", "discarded", "2"]
        assert first in ran.out
        assert ran.out.endswith("would replay 2 dead jobs; nothing was replayed\n")
        assert jobs.counts()[State.DISCARDED] == 2
        (line,) = onward("dead", "replay", "--filter", "queue:mail", "--dry-run", "--json").json
        assert (line["would_replay"], line["exact"], line["samples"][0]["id"]) == (2, True, first)

    def test_a_filter_replays_and_purges(self, onward, jobs, kill):
        kill("bank away", "other", queue="mail")

        assert onward("dead", "replay", "--filter", "error:bank").out == "replayed 1 dead job\n"
        assert onward("dead", "purge", "--filter", "error:other", "--yes").out == "purged 1 dead job\n"
        assert onward("dead", "purge", "--filter", "error:other", "--yes").code == 6

    def test_since_is_the_time_of_death(self, onward, past, jobs):
        @past.job(queue="mail")
        def fail() -> None:
            raise RuntimeError

        old = fail.enqueue().id
        past.drain("mail")

        assert onward("dead", "replay", "--since", "5m").code == 6
        assert onward("dead", "replay", "--since", "2h").out == "replayed 1 dead job\n"
        assert jobs.get(old).state is State.AVAILABLE

    def test_jobs_are_cancelled_and_retried_by_filter(self, onward, jobs):
        later = [jobs.enqueue("elsewhere", queue="mail", delay="1h").id for _ in range(3)]

        assert "would retry 3 jobs" in onward("job", "retry", "--filter", "queue:mail", "--dry-run").out
        assert onward("job", "retry", "--filter", "queue:mail").out == "retried 3 jobs\n"
        assert onward("job", "cancel", "--filter", "queue:mail", "--reason", "over", "--json").json == [
            {"cancelled": 3, "skipped": {}}
        ]
        assert {jobs.get(each).reason for each in later} == {"over"}

    @pytest.mark.parametrize(
        "words",
        [
            ("job", "cancel"),
            ("job", "cancel", "0" * 32, "--filter", "queue:mail"),
            ("job", "retry", "0" * 32, "--dry-run"),
            ("dead", "replay"),
            ("dead", "replay", "0" * 32, "--filter", "queue:mail"),
            ("dead", "replay", "--filter", "state:cancelled"),
            ("dead", "canary"),
            ("dead", "canary", "--all", "--steps", "all,1"),
            ("dead", "canary", "--all", "--steps", "0"),
            ("dead", "canary", "--all", "--rate", "fast"),
        ],
    )
    def test_a_command_that_does_not_say_which_is_refused(self, onward, jobs, words):
        jobs.enqueue("alive")

        assert onward(*words).code == 2

    def test_ctrl_c_stops_after_the_batch_and_says_what_was_done(self, onward, jobs, monkeypatch):
        job = jobs.job(name="welcome", queue="mail")(lambda: None)
        job.enqueue_many([()] * 1_200)
        told = []

        def line(value):
            told.append(value)
            if len(told) == 1:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("onward.cli.output.json_line", line)
        ran = onward("job", "cancel", "--filter", "queue:mail", "--json")

        assert ran.code == 130
        assert told == [{"cancelled": 500, "skipped": {}}]
        assert "stopped with Ctrl-C after 500 jobs; the others are as they were" in ran.err
        assert jobs.counts()[State.CANCELLED] == 500


class TestGroups:
    def test_dead_jobs_are_listed_in_groups(self, onward, kill):
        kill("1", "2", queue="mail")
        kill("3", queue="post", job="other")

        heading, first, second = onward("dead", "groups").out.splitlines()

        assert heading.split()[:4] == ["GROUP", "JOBS", "JOB", "ERROR"]
        assert (first.split()[1:4], second.split()[1:4]) == (
            ["2", "fail", "RuntimeError"],
            ["1", "other", "RuntimeError"],
        )
        assert [line["job"] for line in onward("dead", "groups", "--queue", "post", "--json").json] == ["other"]
        assert onward("dead", "groups", "--queue", "nothing").code == 6

    def test_a_group_is_shown_replayed_and_purged(self, onward, jobs, kill):
        ids = kill("1", "2", queue="mail")
        other = kill("3", queue="mail", job="other")[0]
        group = onward("dead", "groups", "--json").json[0]["fingerprint"]

        shown = onward("dead", "show", "--group", group[:8], "--job", "fail")
        assert shown.code == 0, shown.err
        assert "RuntimeError: 2" in shown.out
        assert all(each in shown.out for each in ids)
        assert f"onward dead canary --job fail --group {group}" in shown.out
        (line,) = onward("dead", "show", "--group", group, "--job", "fail", "--json").json
        assert [each["id"] for each in line["samples"]] == ids[::-1]
        assert [line["id"] for line in onward("dead", "list", "--group", group, "--job", "fail", "--json").json] == ids[
            ::-1
        ]
        assert onward("dead", "replay", "--group", group, "--job", "fail").out == "replayed 2 dead jobs\n"
        assert jobs.get(other).state is State.DISCARDED
        assert onward("dead", "purge", "--group", group, "--job", "fail", "--yes").code == 6
        assert onward("dead", "show", "--group", "ffffffffffff").code == 6
        assert onward("dead", "show").code == 2


class TestEdit:
    def test_a_dead_job_is_enqueued_with_other_arguments(self, onward, jobs, dead, app, shell):
        (old,) = dead(-1)

        ran = onward("--app", app, "dead", "edit", old[:16], "--set", "user_id=42", "--unset", "password")

        assert ran.code == 0, ran.err
        first, second, last = ran.out.splitlines()
        assert first == "user_id  -1 -> 42"
        assert second == 'password  "***" -> (none)'
        assert last.endswith(f"in place of {old}, which stays dead")
        new = last.split()[1]
        assert shell("worker", app, "--until-empty").code == 0
        assert (jobs.get(new).state, jobs.get(old).state) == (State.COMPLETED, State.DISCARDED)

    def test_a_dry_run_and_a_file(self, onward, jobs, dead, app, tmp_path):
        (old,) = dead(-1)
        (tmp_path / "new.json").write_text(json.dumps({"user_id": 7}))

        ran = onward("--app", app, "--json", "dead", "edit", old, "--payload", "new.json", "--dry-run")

        (line,) = ran.json
        assert (line["enqueued"], line["edited_from"], line["checked"]) == (False, old, True)
        assert {"name": "user_id", "before": -1, "after": 7, "was_given": True, "is_given": True} in line["changes"]
        assert jobs.counts()[State.AVAILABLE] == 0

    def test_arguments_that_do_not_fit_are_refused(self, onward, dead, app):
        (old,) = dead(-1)

        ran = onward("--app", app, "dead", "edit", old, "--set", "user_id=many")

        assert (ran.code, "Expected `int`" in ran.err) == (2, True)

    def test_without_the_application_it_says_that_nothing_was_checked(self, onward, dead):
        (old,) = dead(-1)

        ran = onward("dead", "edit", old, "--set", "user_id=5")

        assert ran.code == 0
        assert "the arguments were not checked: --app names" in ran.err
        assert "hunter2" not in ran.out

    def test_without_the_application_a_name_that_the_job_did_not_have_is_doubted(self, onward, dead):
        (old,) = dead(-1)

        ran = onward("dead", "edit", old, "--set", "user_di=5", "--dry-run")

        assert ran.code == 0
        assert "check the names: the job was enqueued with user_id, password, and without 'user_di'" in ran.err

    def test_a_file_that_is_no_json_is_refused(self, onward, dead, tmp_path):
        (old,) = dead(-1)
        (tmp_path / "new.json").write_text("{")

        ran = onward("dead", "edit", old, "--payload", "new.json")

        assert (ran.code, "new.json" in ran.err) == (2, True)


@pytest.mark.promise("S133")
class TestCanary:
    def test_it_goes_through(self, onward, jobs, dead, app, worker):
        ids = dead(0, 1, 2)
        worker(app)

        ran = onward("dead", "canary", "--queue", "mail", "--steps", "1,all")

        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[0] == "step 1  replayed 1 job"
        assert ran.out.splitlines()[-1] == "step 2  no job failed again"
        assert {jobs.get(each).state for each in ids} == {State.COMPLETED}

    def test_it_stops_at_a_failure_and_exits_with_1(self, onward, jobs, dead, app, worker):
        ids = dead(-1, 0, 1)
        worker(app)

        ran = onward("dead", "canary", "--filter", "queue:mail", "--json")

        assert ran.code == 1
        assert [line["happened"] for line in ran.json if line["happened"] != "waiting"] == ["replayed", "failed"]
        assert {jobs.get(each).state for each in ids} == {State.DISCARDED}
        assert [jobs.get(each).delivery for each in ids] == [2, 1, 1]

    def test_nothing_to_replay_exits_with_6(self, onward, jobs):
        jobs.enqueue("alive")

        assert onward("dead", "canary", "--all").code == 6

    def test_killed_in_the_middle_it_leaves_the_rest_dead(self, program, jobs, dead, app, worker, eventually, tmp_path):
        ids = dead(*range(20))
        (tmp_path / "held").touch()  # from the fourth on they do not end
        running = worker(app)
        canary = subprocess.Popen(
            [*program, "dead", "canary", "--queue", "mail", "--steps", "2,5,all"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert [canary.stdout.readline() for _ in range(3)][-1] == "step 2  replayed 5 jobs\n"
            canary.send_signal(signal.SIGKILL)
            canary.wait(60)
        finally:
            canary.stdout.close()
        (tmp_path / "held").unlink()

        eventually(lambda: all(jobs.get(each).state is State.COMPLETED for each in ids[:7]))
        assert {jobs.get(each).state for each in ids[7:]} == {State.DISCARDED}
        assert {jobs.get(each).delivery for each in ids[7:]} == {1}
        assert running.poll() is None

    def test_a_worker_that_is_killed_under_its_job_is_a_failure(
        self, program, jobs, dead, app, worker, eventually, tmp_path
    ):
        ids = dead(*range(3, 9))
        (tmp_path / "held").touch()
        first = worker(app)
        canary = subprocess.Popen(
            [*program, "dead", "canary", "--queue", "mail", "--json"], stdout=subprocess.PIPE, text=True
        )
        eventually((tmp_path / "begun-3").exists)
        (session,) = jobs.sessions()
        os.kill(session.pid, signal.SIGKILL)  # the process that runs it; its supervisor gives the job back

        out, _ = canary.communicate(timeout=60)

        assert canary.returncode == 1
        assert json.loads(out.splitlines()[-1])["happened"] == "failed"
        assert {jobs.get(each).state for each in ids[1:]} == {State.DISCARDED}
        (tmp_path / "held").unlink()
        assert first.poll() is None

    def test_ctrl_c_stops_it(self, program, jobs, dead, eventually):
        ids = dead(0, 1)
        canary = subprocess.Popen(
            [*program, "dead", "canary", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert canary.stdout.readline() == "step 1  replayed 1 job\n"
        canary.send_signal(signal.SIGINT)

        _, err = canary.communicate(timeout=60)

        assert canary.returncode == 130
        assert "stopped with Ctrl-C: 1 job replayed, the others stay dead" in err
        assert jobs.get(ids[1]).state is State.DISCARDED
