"""A Django project with Onward behind its tasks, on three databases: its own tests, and workers that are killed."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.waiting import eventually

ITS_TESTS = 36


@pytest.mark.promise("S160")
def test_the_projects_own_tests_pass(project):
    printed = project.manage("test", "shop", "--noinput")

    ran = int(re.search(r"Ran (\d+) tests", printed)[1])
    assert ran >= ITS_TESTS, printed


@pytest.fixture
def migrated(project):
    project.manage("migrate", "-v0", "--run-syncdb")
    return project


@pytest.mark.promise("S161")
def test_a_task_whose_worker_was_killed_runs_again(migrated):
    result_id = migrated.shell("from shop.tasks import *; print(crash_once.enqueue('killed').id)").split()[-1]
    worker = migrated.start("onward", "worker", "--concurrency=2")
    try:
        mark = migrated.folder / "killed.pid"
        eventually(mark.exists, what="the task did not begin")
        os.kill(int(mark.read_text()), signal.SIGKILL)

        row = "SELECT label FROM shop_order WHERE label = 'killed'"
        eventually(lambda: migrated.database.query(row), every=0.2, what="the task did not run again")
    finally:
        worker.send_signal(signal.SIGTERM)
        printed, _ = worker.communicate(timeout=60)

    assert worker.returncode == 0, printed
    record = json.loads(migrated.manage("onward", "job", "show", result_id, "--json", "--quiet"))
    assert (record["state"], record["result"], record["crashes"]) == ("completed", "killed", 1), printed
    shown = migrated.shell(
        f"from shop.tasks import *; r = crash_once.get_result('{result_id}');"
        f"print(r.status, r.attempts, len(set(r.worker_ids)), r.errors[0].exception_class.__name__)"
    )
    assert shown.split() == ["SUCCESSFUL", "2", "2", "JobDiscardedError"]


class TestWrongSettings:
    """On SQLite: no server is reached."""

    def test_a_database_in_memory_is_refused_with_the_fix(self, sqlite_project):
        told = {"SHOP_DATABASE": json.dumps({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})}

        process = sqlite_project.start("check", **told)
        printed, _ = process.communicate(timeout=60)

        assert process.returncode == 1
        assert "onward.E002" in printed
        assert "'NAME': 'test.sqlite3'" in printed

    def test_an_unknown_alias_is_refused(self, sqlite_project):
        process = sqlite_project.start("onward", "worker", "--alias=nowhere")
        printed, _ = process.communicate(timeout=60)

        assert process.returncode == 2
        assert "no alias 'nowhere' in TASKS" in printed

    def test_an_attribute_that_the_project_lacks_is_not_taken_for_missing_jobs(self, sqlite_project):
        (sqlite_project.folder / "broken_settings.py").write_text("None.nothing")
        told = {"DJANGO_SETTINGS_MODULE": "broken_settings", "PYTHONPATH": str(sqlite_project.folder)}

        ran = subprocess.run(
            [sys.executable, "-m", "onward", "job", "list", "--app", "onward.integrations.django.app:jobs"],
            env={**sqlite_project.environment, **told},
            capture_output=True,
            text=True,
            check=False,
        )

        assert ran.returncode != 0
        assert "'NoneType' object has no attribute 'nothing'" in ran.stderr
