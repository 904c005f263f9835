"""A test run that was told to ignore Ctrl-C, as shells tell what they start in the background, tests the same as any other.

Programs inherit what is ignored.  One that a test starts would never hear its SIGINT, and `onward worker` is right not to:
`nohup onward worker &` outlives its terminal (`test_a_signal_that_its_parent_told_it_to_ignore_is_ignored`).  What is
caught is inherited as not ignored.  So processes that run tests catch these signals, and do nothing about them as before.
"""

import signal

import pytest


def pytest_configure(config):
    # Not in the process that only starts those of xdist: they would inherit it, and be ended by a closed terminal.
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        for number in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, _do_nothing)


@pytest.fixture
def ctrl_c():
    """SIGINT raises `KeyboardInterrupt` in this process, whatever the run was told."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _do_nothing(number, frame):
    """Ignored here, but not by the programs that tests start."""
