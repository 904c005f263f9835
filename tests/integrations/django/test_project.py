"""A Django project with Onward behind its tasks, on three databases: its own tests, and workers that are killed."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.integrations.django.running import PATIENCE
from tests.waiting import eventually

ITS_TESTS = 49


@pytest.mark.promise("S160")
@pytest.mark.timeout(4 * PATIENCE)  # it has a thousand tasks run, on a machine that may be busy
def test_the_projects_own_tests_pass(project):
    printed = project.manage("test", "shop", "--noinput")

    ran = int(re.search(r"Ran (\d+) tests", printed)[1])
    assert ran >= ITS_TESTS, printed


# One interpreter for each half of the story: Django takes a second of processor time to start.
BEGIN = """
from django.core.management import call_command
from shop.tasks import crash_once
call_command("migrate", verbosity=0, run_syncdb=True)
print(crash_once.enqueue("killed").id)
"""
TELL = """
import json
from onward.integrations.django import task_backends
from shop.tasks import crash_once
record, result = task_backends["default"].jobs.get({id!r}), crash_once.get_result({id!r})
print(json.dumps({{
    "job": [record.state, record.result, record.crashes],
    "result": [result.status, result.attempts, len(set(result.worker_ids)), result.errors[0].exception_class.__name__],
}}))
"""


@pytest.mark.promise("S161")
@pytest.mark.timeout(4 * PATIENCE)
def test_a_task_whose_worker_was_killed_runs_again(project):
    result_id = project.shell(BEGIN).split()[-1]
    worker = project.start("onward", "worker", "--concurrency=2")
    try:
        mark = project.folder / "killed.pid"
        eventually(lambda: mark.exists() or worker.poll() is not None, PATIENCE, "the task did not begin")
        assert worker.poll() is None, worker.communicate()[0]
        os.kill(int(mark.read_text()), signal.SIGKILL)

        row = "SELECT label FROM shop_order WHERE label = 'killed'"
        eventually(lambda: project.database.query(row), PATIENCE, "the task did not run again", every=0.2)
    finally:
        worker.send_signal(signal.SIGTERM)
        printed, _ = worker.communicate(timeout=PATIENCE)

    assert worker.returncode == 0, printed
    told = json.loads(project.shell(TELL.format(id=result_id)).splitlines()[-1])
    assert told["job"] == ["completed", "killed", 1], printed
    assert told["result"] == ["SUCCESSFUL", 2, 2, "JobDiscardedError"], printed


@pytest.mark.timeout(4 * PATIENCE)
class TestWrongSettings:
    """On SQLite: no server is reached."""

    def test_a_database_in_memory_is_refused_with_the_fix(self, sqlite_project):
        told = {"SHOP_DATABASE": json.dumps({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})}

        process = sqlite_project.start("check", **told)
        printed, _ = process.communicate(timeout=PATIENCE)

        assert process.returncode == 1
        assert "onward.E002" in printed
        assert "'NAME': 'test.sqlite3'" in printed

    @pytest.mark.parametrize("words", [("worker",), ("job", "list")], ids=" ".join)
    def test_an_unknown_alias_is_refused(self, sqlite_project, words):
        process = sqlite_project.start("onward", *words, "--alias=secund")
        printed, _ = process.communicate(timeout=PATIENCE)

        assert process.returncode == 2
        assert "no alias 'secund' in TASKS: did you mean 'second'?" in printed

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
