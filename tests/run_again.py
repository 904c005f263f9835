"""A test that fails in a whole run is run again, alone: `pytest --run-again`, as `make test` does.

Real servers and killed processes on a busy machine: a test can fail because it had no processor for seconds.  It is run
again when the run has ended and the machine is quiet, in a process of its own, so that nothing is left of the first time:
no server, no application, no fixture.  A bug fails again.  The summary shows the first failure all the same, and where more
than `MOST` tests fail, something is wrong, and none is run again.
"""

import subprocess
import sys

import pytest

MOST = 5


def pytest_addoption(parser):
    parser.addoption(
        "--run-again", action="store_true", help="run tests that failed again, alone, at the end of the run"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Let a run pass whose failed tests, if they are few, pass alone."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    # A process of xdist does not know what the others ran.
    if not session.config.getoption("run_again") or hasattr(session.config, "workerinput") or reporter is None:
        return
    failures = reporter.stats.get("failed", []) + reporter.stats.get("error", [])
    tests = sorted({report.nodeid for report in failures})
    if (
        session.exitstatus == pytest.ExitCode.TESTS_FAILED
        and len(tests) <= MOST
        and _pass_alone(session, reporter, tests)
    ):
        reporter.stats.pop("failed", None)
        reporter.stats.pop("error", None)
        reporter.stats["rerun"] = failures
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter):
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section(f"failed once and passed alone: {len(again)}", red=True)
        for report in again:
            terminalreporter.write_line(report.nodeid, red=True)
            terminalreporter.write_line(report.longreprtext)


def _pass_alone(session, reporter, tests):
    reporter.ensure_newline()
    reporter.section(f"failed, run again alone: {len(tests)}", red=True)
    reporter.flush()
    command = [sys.executable, "-m", "pytest", "--rootdir", str(session.config.rootpath), "--no-header"]
    return subprocess.run([*command, *tests], cwd=session.config.rootpath, check=False).returncode == 0
