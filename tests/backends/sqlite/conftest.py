"""A file, a clock that stands still, and ways to open and run things on them."""

import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack, closing

import pytest

from onward.backends.sqlite import SqliteBackend
from onward.testing import FakeClock

PATIENCE = 60  # seconds a test waits for another process: reached only when something is broken


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def open_backend(file, clock):
    """Open the file as often as asked for; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_it(path=file, **options):
            return opened.enter_context(closing(SqliteBackend.open(path, **{"clock": clock, **options})))

        yield open_it


@pytest.fixture
def backend(open_backend):
    return open_backend()


@pytest.fixture
def start(file):
    """Start a Python program in another process.  It finds the file's path in ``sys.argv[1]``."""
    started = []

    def start_it(source, *arguments, **options):
        program = [sys.executable, "-c", textwrap.dedent(source), str(file), *map(str, arguments)]
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
