"""A test run in which a test holds the interpreter's lock for ever, where no time-out of Python counts."""

import re

import pytest

from tests.tools.pytest_runs import HOUSE, pytest_run

# Locks a mutex twice, and keeps the interpreter's lock meanwhile.  Signals do not end it.
STILL = """
import ctypes

import pytest


def test_before():
    pass


@pytest.mark.parametrize("way", ["one"])
def test_still(way):
    mutex, libc = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


@pytest.fixture
def still_at_the_end():
    yield
    test_still("two")


def test_that_fails_and_is_still_in_its_teardown(still_at_the_end):
    assert False


def test_after():
    pass
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "test_it.py").write_text(STILL)

    def run(*options):
        own = ["-o", "standstill_margin=1", "-o", "timeout=1", "--rootdir", tmp_path]
        return pytest_run(*own, *options, tmp_path / "test_it.py", plugins=["tests.standstill"], folder=HOUSE)

    return run


def test_it_is_ended_and_named_and_the_others_are_run(run):
    ended = run("-n", "1")

    assert ended.returncode == 1, ended.stdout
    for still in ("test_still[one]", "test_that_fails_and_is_still_in_its_teardown"):
        assert f"crashed while running 'test_it.py::{still}'" in ended.stdout
    assert "in test_still\n" in ended.stdout  # the stack
    assert "2 passed" in ended.stdout


def test_without_processes_of_xdist_the_stack_names_it(run):
    ended = run()

    assert ended.returncode == 1
    assert "Timeout (0:00:02)!" in ended.stdout
    assert re.search(r'test_it.py", line \d+ in test_still\n', ended.stdout)


def test_this_run_has_it(request):
    assert request.config.pluginmanager.has_plugin("tests.standstill")
