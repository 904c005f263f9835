"""The last net: a process of the test run that stands still is ended, and its test is named.

A time-out of pytest is Python code.  A test that stands still with the interpreter's lock held lets none run, and the suite
would wait for ever.  `faulthandler` waits in a thread of C: it writes the stacks of all threads to the terminal, the test's
own among them, and ends the process.  xdist then names the test and starts another process for those that are left.

It is armed anew for each phase of each run, since pytest disarms it where a test has failed.
"""

import faulthandler
import os

import pytest

_stderr = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addini("standstill_margin", "seconds after its time-out until a process is ended", default="60")


def pytest_configure(config):
    # Before anything is captured: what is written there later reaches the terminal, from processes of xdist too.
    config.stash[_stderr] = os.dup(2)


def pytest_unconfigure(config):
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[_stderr])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _arm(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    _arm(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    _arm(item)


def pytest_runtest_logfinish():
    faulthandler.cancel_dump_traceback_later()


def _arm(item):
    marker = item.get_closest_marker("timeout")
    option = item.config.getoption("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout") if option is None else option)
    if limit:
        margin = float(item.config.getini("standstill_margin"))
        faulthandler.dump_traceback_later(limit + margin, exit=True, file=item.config.stash[_stderr])
