"""What the tests of every store use: a clock that stands still, and programs in other processes."""

import os
import subprocess
import sys
import textwrap

import pytest

from onward.testing import FakeClock
from tests.waiting import PATIENCE


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def start(address):
    """Start a Python program in another process.  It finds the address of the store in ``sys.argv[1]``."""
    started = []

    def start_it(source, *arguments, **options):
        program = [sys.executable, "-c", textwrap.dedent(source), str(address), *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **options
        )
        started.append(process)
        return process

    yield start_it
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run(start):
    """Run a Python program in another process to its end; gives what it printed."""

    def run_it(source, *arguments, **options):
        process = start(source, *arguments, **options)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
        return output

    return run_it
