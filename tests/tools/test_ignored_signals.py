"""A test run in the background, where the shell has SIGINT ignored, or under `nohup`."""

import subprocess

import pytest

from tests.tools.pytest_runs import HOUSE, pytest_command, pytest_environment

TESTS = """
import os
import signal
import subprocess
import sys


def test_a_program_hears_both_signals():
    heard = "import signal; print(*(signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP)))"
    assert subprocess.check_output([sys.executable, "-c", heard], text=True) == "False False\\n"


def test_the_run_itself_still_ignores_them():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGHUP)


def test_control_c_can_be_asked_for(ctrl_c):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError("nothing was raised")
"""


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["in one process", "with xdist"])
def test_programs_that_tests_start_can_be_interrupted(tmp_path, processes):
    file = tmp_path / "test_it.py"
    file.write_text(TESTS)
    command = pytest_command(*processes, "--rootdir", tmp_path, file, plugins=["tests.ignored_signals"])
    run = subprocess.run(
        ["/bin/sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *command],
        cwd=HOUSE,
        env=pytest_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert "3 passed" in run.stdout, run.stdout + run.stderr


def test_this_run_does_so(request):
    assert request.config.pluginmanager.has_plugin("tests.ignored_signals")
