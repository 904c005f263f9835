"""A test run whose processes take tests from both ends of one queue."""

import json

import pytest

from tests.scheduling import BACK, BY_FILE, FRONT, TOGETHER, FromBothEnds
from tests.tools.pytest_runs import pytest_run

TESTS = """
import json, os, time
from pathlib import Path

import pytest


def note(**test):
    with open("ran", "a") as ran:
        ran.write(json.dumps({"process": os.environ["PYTEST_XDIST_WORKER"], **test}) + "\\n")
    # No process is to do the work of all: the first waits until the other has begun.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len({json.loads(line)["process"] for line in Path("ran").open()}) < 2:
        time.sleep(0.01)


@pytest.mark.parametrize("n", range(10))
def test_it(request, n):
    file = str(request.path.relative_to(request.config.rootpath))
    note(file=file, n=n)
    if os.environ.get("ENDS_ITS_PROCESS") == f"{file} {n}":
        os._exit(1)
"""


@pytest.fixture
def also():
    """More folders with tests."""
    return ()


@pytest.fixture
def run(tmp_path, also):
    for folder in ("tests", "tests/supervisor", *also):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_it.py").write_text(TESTS)

    def run(*options, **environment):
        """Run computing tests and waiting ones in two processes; give the output, and the tests of each process."""
        ended = pytest_run(
            "-n",
            "2",
            *options,
            "--import-mode=importlib",
            "--rootdir",
            tmp_path,
            plugins=["tests.scheduling"],
            folder=tmp_path,
            **environment,
        )
        ran = [json.loads(line) for line in (tmp_path / "ran").read_text().splitlines()]
        return ended.stdout, ran

    return run


def test_one_process_begins_with_what_waits_and_the_other_with_what_computes(run):
    output, ran = run()

    first = {process: next(line for line in ran if line["process"] == process) for process in ("gw0", "gw1")}
    assert {process: (line["file"], line["n"]) for process, line in first.items()} == {
        "gw0": ("tests/supervisor/test_it.py", 0),
        "gw1": ("tests/test_it.py", 9),
    }
    assert "20 passed" in output


def test_the_test_that_a_process_died_in_is_not_run_again_and_all_others_are_run_once(run):
    output, ran = run(ENDS_ITS_PROCESS="tests/test_it.py 8")

    assert "1 failed, 19 passed" in output
    assert "crashed while running 'tests/test_it.py::test_it[8]'" in output
    assert len(ran) == len({(line["file"], line["n"]) for line in ran}) == 20


@pytest.mark.parametrize("also", [("tests/web/browser",)])
def test_one_process_takes_all_tests_that_share_a_browser(run):
    output, ran = run()

    assert "30 passed" in output
    assert len({line["process"] for line in ran if line["file"].startswith("tests/web/browser/")}) == 1
    assert len({line["process"] for line in ran}) == 2


# Which process takes what is a race, so a run in which one takes the whole file shows nothing: the units are asked.
@pytest.mark.parametrize("place", BY_FILE)
def test_the_tests_of_a_file_that_makes_something_costly_are_one_unit(place):
    file = place if place.endswith(".py") else f"{place}test_it.py"
    units = {FromBothEnds._split_scope(None, f"{file}::TestIt::test_it[{n}::{n}]") for n in range(10)}

    assert units == {file}


@pytest.mark.parametrize("also", [("tests/packaging",)])
def test_one_process_runs_such_a_unit(run):
    output, ran = run()

    assert "30 passed" in output
    assert len({line["process"] for line in ran if line["file"] == "tests/packaging/test_it.py"}) == 1
    assert len({line["process"] for line in ran}) == 2


@pytest.mark.parametrize("also", [("tests/web/browser",)])
def test_what_a_process_that_died_has_left_of_them_goes_to_one_other(run):
    output, ran = run(ENDS_ITS_PROCESS="tests/web/browser/test_it.py 3")

    assert "1 failed, 29 passed" in output
    others = {line["process"] for line in ran if line["file"].startswith("tests/web/browser/") and line["n"] > 3}
    assert len(others) == 1


@pytest.mark.parametrize("place", [*FRONT, *TOGETHER, *BY_FILE, *BACK])
def test_what_is_named_exists(request, place):
    assert (request.config.rootpath / place).exists()


def test_this_run_has_it(request):
    assert request.config.pluginmanager.has_plugin("tests.scheduling")
