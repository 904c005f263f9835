"""A test run whose failed tests are run again, alone, when the others have ended."""

import pytest

from tests.tools.pytest_runs import pytest_run

TESTS = """
import os

import pytest


@pytest.fixture(scope="module")
def spoilt():
    return []


def alone():
    return "PYTEST_XDIST_WORKER" not in os.environ


@pytest.mark.parametrize("n", range(20))
def test_it(n, spoilt):
    with open("ran", "a") as ran:
        ran.write(f"{n}\\n")
    assert n not in spoilt, "the fixture is that of the first time"
    if n < int(os.environ["FAIL_BESIDE_OTHERS"]):
        spoilt.append(n)
        assert alone()
    assert n >= int(os.environ["FAIL_ALWAYS"])


@pytest.fixture
def a_server():
    assert alone() or os.environ["FAIL_TO_START"] == "0"


def test_with_a_server(a_server): ...
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(beside_others=0, always=0, to_start=0, options=("--run-again",)):
        """Run tests of which some fail; give how it ended, and how often each of them ran."""
        ended = pytest_run(
            "-n",
            "1",
            *options,
            "--rootdir",
            tmp_path,
            "test_it.py",
            plugins=["tests.run_again"],
            folder=tmp_path,
            FAIL_BESIDE_OTHERS=str(beside_others),
            FAIL_ALWAYS=str(always),
            FAIL_TO_START=str(to_start),
        )
        return ended.returncode, ended.stdout, (tmp_path / "ran").read_text().splitlines()

    return run


def test_what_fails_beside_others_and_passes_alone_lets_the_run_pass_and_is_shown(run):
    code, output, ran = run(beside_others=1, to_start=1)

    assert code == 0, output
    assert "failed once and passed alone: " in output
    assert "assert alone()" in output
    assert "test_it.py::test_with_a_server" in output
    assert ran.count("0") == 2


def test_what_fails_alone_too_fails_the_run(run):
    code, output, ran = run(always=1)

    assert code == 1
    assert "1 failed, 20 passed" in output
    assert ran.count("0") == 2


def test_where_many_fail_none_is_run_again(run):
    code, output, ran = run(always=6)

    assert code == 1
    assert "6 failed, 15 passed" in output
    assert len(ran) == 20


def test_a_run_that_does_not_ask_for_it_runs_none_again(run):
    code, output, ran = run(always=1, options=())

    assert code == 1
    assert "1 failed, 20 passed" in output
    assert len(ran) == 20


def test_this_run_has_it(request):
    assert request.config.pluginmanager.has_plugin("tests.run_again")
