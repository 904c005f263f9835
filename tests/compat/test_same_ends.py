"""One program, on Celery and on Onward: it ends the same."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program")
IMPORTS = re.compile(r"^from celery\b", re.MULTILINE)
PATIENCE = 200


def installed(folder, *, moved):
    """Copy the program into a folder; ``moved``: with Onward's words for Celery in its imports, and no other change."""
    for path in PROGRAM.glob("*.py"):
        text = path.read_text()
        (folder / path.name).write_text(IMPORTS.sub("from onward.compat.celery", text) if moved else text)


@contextmanager
def worker(folder, environment, *words):
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def ends_of(folder, environment, *words):
    """Run the program beside a worker, and return what it prints."""
    with worker(folder, environment, *words):
        drive = subprocess.run(
            [sys.executable, "shop_drive.py"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert drive.returncode == 0, drive.stderr + (folder / "worker.log").read_text()
    return json.loads(drive.stdout)


def environment_of(folder, **variables):
    return {**os.environ, "SHOP_RUNS": str(folder / "runs"), "PYTHONPATH": str(folder), **variables}


@pytest.fixture
def folders(tmp_path):
    found = tmp_path / "celery", tmp_path / "onward"
    for folder in found:
        folder.mkdir()
    return found


@pytest.mark.promise("S163")
@pytest.mark.slow
@pytest.mark.timeout(300)  # two workers start, on a machine that may be busy
def test_a_module_of_celery_tasks_ends_the_same_on_both(folders, any_redis):
    on_celery, on_onward = folders
    installed(on_celery, moved=False)
    installed(on_onward, moved=True)
    address = f"redis+socket://{any_redis.socket}"
    beside = {"SHOP_BROKER": address, "SHOP_BACKEND": address}

    with ThreadPoolExecutor() as both:  # most of it waits for delays
        theirs = both.submit(
            ends_of,
            on_celery,
            environment_of(on_celery, **beside),
            *("celery", "-A", "shop_app", "worker", "--pool=prefork", "--concurrency=2", "--queues=celery,shop"),
            *("--loglevel=INFO", "--without-mingle", "--without-gossip"),
        )
        ours = both.submit(
            ends_of,
            on_onward,
            environment_of(on_onward, **beside, ONWARD_URL=f"sqlite:///{on_onward}/jobs.db"),
            *("onward", "worker", "shop_app:app.jobs"),
        )
        celery, onward = theirs.result(), ours.result()

    assert onward["ends"] == celery["ends"]
    assert onward["runs"] == celery["runs"]
    assert (
        celery["runs"]["flaky"] == 3 + 4 + 1
    )  # of the one that succeeds, of the one that does not, and of a plain call
    assert celery["ends"]["too flaky"][:2] == ["FAILURE", "Unavailable"]
