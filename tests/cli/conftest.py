"""What the tests of the command line share: a store on a real file, and three ways to run the command.

`onward` calls it in this process, which is quick; `shell` runs the program; `terminal` runs it on a terminal of its own.
"""

import contextlib
import errno
import fcntl
import io
import json
import os
import pty
import sqlite3
import struct
import subprocess
import sys
import termios
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from onward import Onward
from onward.cli import main
from onward.testing import FakeClock


class Ran(NamedTuple):
    code: int
    out: str
    err: str = ""

    @property
    def json(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def url(tmp_path, monkeypatch):
    """The store that the command finds without being told.  It need not survive a power cut, so tests run faster."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed"
    monkeypatch.setenv("ONWARD_URL", url)
    return url


@pytest.fixture
def clock():
    """An hour ago: whatever happens on it lies in the command's past."""
    return FakeClock(datetime.now(UTC) - timedelta(hours=1))


@pytest.fixture
def open_app(url):
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Onward(url, **settings))


@pytest.fixture
def jobs(open_app):
    """The store as Python sees it."""
    return open_app()


@pytest.fixture
def past(open_app, clock):
    """The same store, an hour ago."""
    return open_app(clock=clock)


@pytest.fixture
def sql(tmp_path):
    """Change the file behind everybody's back."""

    def sql(statement, *values):
        connection = sqlite3.connect(tmp_path / "jobs.db")
        with contextlib.closing(connection), connection:
            connection.execute(statement, values)

    return sql


@pytest.fixture
def onward(capsys):
    """``onward("job", "list")`` in this process."""

    def onward(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return onward


@pytest.fixture
def program():
    return [sys.executable, "-m", "onward"]


@pytest.fixture
def shell(program):
    """The program, its output caught."""

    def shell(*words, stdin="", **environ):
        done = subprocess.run(
            [*program, *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **environ},
            check=False,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return shell


@pytest.fixture
def terminal(program):
    """The program on a terminal: ``terminal("dead", "purge", "--all", typed="2\\n", columns=80)``."""

    def terminal(*words, typed="", columns=80, **environ):
        process, screen = pty.fork()
        if process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            # Named in full: readline, which pytest loads, puts a COLUMNS of its own into what would be inherited.
            os.execve(program[0], [*program, *map(str, words)], {**os.environ, "TERM": "xterm-256color", **environ})
        os.write(screen, typed.encode())
        shown = b"".join(iter(lambda: _read(screen), b"")).decode()
        os.close(screen)
        return Ran(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.replace("\r\n", "\n"))

    return terminal


def _read(screen):
    try:
        return os.read(screen, 65_536)
    except OSError as error:
        if error.errno == errno.EIO:  # the other side has ended
            return b""
        raise


@pytest.fixture
def type_in(monkeypatch):
    """What stands on stdin of a command that runs in this process."""

    def type_in(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return type_in


@pytest.fixture
def kill(jobs):
    """Enqueue jobs that fail, and let them: returns their ids."""

    def fail(message):
        raise RuntimeError(message)

    defined = {}

    def kill(*messages, queue="default", job="fail"):
        if job not in defined:
            defined[job] = jobs.job(name=job)(_typed(fail))
        ids = [defined[job].using(queue=queue).enqueue(message).id for message in messages]
        jobs.drain(queue)
        return ids

    return kill


def _typed(function):
    def typed(message: str) -> None:
        function(message)

    return typed


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """An application in a module of its own: ``shop("sqlite:///jobs.db")`` is what --app takes."""
    made = []

    def shop(url, source=SHOP):
        name = f"shop_{len(made)}_{tmp_path.name.replace('-', '_')}"
        made.append(name)
        (tmp_path / f"{name}.py").write_text(source.format(url=url))
        return f"{name}:jobs"

    monkeypatch.syspath_prepend(tmp_path)
    yield shop
    for name in made:
        sys.modules.pop(name, None)


SHOP = """\
from onward import Onward

jobs = Onward({url!r}, default_max_retries=4)

@jobs.job(queue="mail")
def welcome(user: int, lang: str = "en") -> str:
    return f"user {{user}} welcomed in {{lang}}"

@jobs.job
def refuse(why: str) -> None:
    raise RuntimeError(why)
"""
