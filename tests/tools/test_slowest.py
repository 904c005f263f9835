"""A test run that says where its time went: in which tests, and in which files."""

import re
from types import SimpleNamespace

from tests.slowest import by_file
from tests.tools.pytest_runs import pytest_run


def took(nodeid, seconds):
    return SimpleNamespace(nodeid=nodeid, duration=seconds)


def test_the_phases_of_all_tests_of_a_file_are_its_time():
    reports = [took("a.py::x", 1), took("b.py::x", 2.5), took("a.py::x", 0.5), took("a.py::y[1::2]", 2)]

    assert by_file(reports) == [(3.5, 2, "a.py"), (2.5, 1, "b.py")]


def test_a_run_lists_them_where_durations_are_asked_for(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text("def test_it(): pass\ndef test_that(): pass\n")

    asked = pytest_run("-n", "2", "--durations=20", plugins=["tests.slowest"], folder=tmp_path).stdout
    unasked = pytest_run("-n", "2", plugins=["tests.slowest"], folder=tmp_path).stdout

    assert "slowest 2 files" in asked
    assert sorted(re.findall(r"[0-9.]+s +(\d+) tests  (\S+)", asked)) == [("2", "test_one.py"), ("2", "test_two.py")]
    assert "slowest 2 files" not in unasked


def test_this_run_does(request):
    assert request.config.pluginmanager.has_plugin("tests.slowest")
    assert request.config.getoption("durations") is not None
