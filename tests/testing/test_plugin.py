"""The pytest plugin, as a project of its own meets it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

APPLICATION = """
from onward import Onward
jobs = Onward()

@jobs.job
def send(to: int): ...
"""


@pytest.fixture
def run_pytest(tmp_path):
    """Run the tests of a small project in a process of its own, with no plugin but ours."""

    def run_pytest(*options, ini="", **files):
        (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{ini}\n")
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "PYTEST_"))}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "pytest_onward", "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env={**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stdout

    return run_pytest


def test_the_package_announces_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert project["project"]["entry-points"]["pytest11"] == {"onward": "pytest_onward"}
    assert "src/pytest_onward.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_applications_that_name_no_store_get_the_one_of_the_ini_file(run_pytest):
    code, printed = run_pytest(
        ini="onward_url = memory://",
        shop=APPLICATION,
        conftest="from shop import jobs  # as early as can be",
        test_shop="""
from onward.testing import assert_enqueued
from shop import jobs, send

def test_it():
    assert jobs.settings.url == "memory://"
    send.enqueue(42)
    assert_enqueued(jobs, send, 42)
""",
    )

    assert code == 0, printed


def test_without_the_option_the_environment_is_left_alone(run_pytest):
    code, printed = run_pytest(
        test_it="import os\ndef test_it():\n    assert 'ONWARD_URL' not in os.environ\n",
    )

    assert code == 0, printed


def test_the_environment_is_as_before_when_the_tests_are_over(run_pytest):
    code, printed = run_pytest(
        ini="onward_url = memory://",
        test_it="""
import os, pytest

@pytest.mark.parametrize("before", [None, "sqlite:///mine.db"])
def test_it(monkeypatch, tmp_path, before):
    if before is None:
        monkeypatch.delenv("ONWARD_URL")
    else:
        monkeypatch.setenv("ONWARD_URL", before)
    (tmp_path / "pytest.ini").write_text("[pytest]\\nonward_url = sync://\\n")
    (tmp_path / "test_inner.py").write_text(
        "import os\\ndef test_it():\\n    assert os.environ['ONWARD_URL'] == 'sync://'\\n"
    )
    inner = pytest.main(["-q", "--import-mode=importlib", "-p", "pytest_onward", f"--rootdir={tmp_path}", str(tmp_path)])
    assert inner == 0
    assert os.environ.get("ONWARD_URL") == before
""",
    )

    assert code == 0, printed


def test_the_clock_is_a_fixture_and_stands_still(run_pytest):
    code, printed = run_pytest(
        test_it="""
from onward import Onward

def test_it(fake_clock):
    with Onward("memory://", clock=fake_clock) as jobs:
        @jobs.job
        def work(): ...

        work.using(delay="1h").enqueue()
        assert jobs.drain() == 0
        fake_clock.advance(3600)
        assert jobs.drain() == 1
""",
    )

    assert code == 0, printed


def test_a_project_that_does_not_ask_pays_nothing(run_pytest):
    code, printed = run_pytest(
        ini="onward_url = memory://",
        test_it="import sys\ndef test_it():\n    assert not {'onward', 'msgspec'} & set(sys.modules)\n",
    )

    assert code == 0, printed


EMPTYING = """
import pytest
from shop import jobs

@pytest.fixture(autouse=True)
def no_jobs_left(onward_emptied):
    onward_emptied(jobs)
"""


def test_a_store_is_emptied_between_tests(run_pytest):
    code, printed = run_pytest(
        ini="onward_url = memory://",
        shop=APPLICATION,
        conftest=EMPTYING,
        test_shop="""
import pytest
from shop import jobs, send

@pytest.mark.parametrize("n", range(3))
def test_it_finds_its_own_job_only(n):
    handle = send.using(unique_key="k", idempotency_key="order:42").enqueue(n)
    jobs.drain(raising=True)
    assert handle.record().reason is None
    assert jobs.counts()["completed"] == 1
""",
    )

    assert code == 0, printed
    assert "3 passed" in printed


def test_a_file_for_the_run_lets_jobs_join_transactions(run_pytest, tmp_path):
    code, printed = run_pytest(
        ini="onward_url = sqlite:///{tmp}/shop.db?durability=relaxed",
        shop=APPLICATION,
        conftest=EMPTYING,
        test_shop="""
import sqlite3
from pathlib import Path
import pytest
from onward.testing import assert_enqueued, assert_not_enqueued
from shop import jobs, send

@pytest.fixture
def connection():
    path = jobs.settings.url.removeprefix("sqlite:///").partition("?")[0]
    print("folder", Path(path).parent)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS users (id INTEGER)")
    yield connection
    connection.close()

def sign_up(connection, user):
    connection.execute("INSERT INTO users VALUES (?)", (user,))
    with jobs.transaction(connection) as tx:
        tx.enqueue(send, user)

def test_a_commit_keeps_the_job(connection):
    sign_up(connection, 1)
    connection.commit()
    assert_enqueued(jobs, send, 1, count=1)
    assert jobs.drain(raising=True) == 1

def test_a_rollback_drops_it(connection):
    sign_up(connection, 2)
    connection.rollback()
    assert_not_enqueued(jobs, send)
""",
    )

    assert code == 0, printed
    assert "2 passed" in printed


def test_the_folder_of_the_run_is_removed(run_pytest, tmp_path):
    code, _ = run_pytest(
        ini="onward_url = sqlite:///{tmp}/shop.db",
        shop=APPLICATION,
        test_shop="""
from pathlib import Path
from shop import jobs, send

def test_it():
    send.enqueue(1)
    Path("where").write_text(str(Path(jobs.settings.url.removeprefix("sqlite:///")).parent))
""",
    )

    assert code == 0
    assert not Path((tmp_path / "where").read_text()).exists()
