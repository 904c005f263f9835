"""What the tests of the command line share: a store on a real file, and four ways to run the command.

`onward` calls it in this process, which is quick; `shell` runs the program; `terminal` runs it on a terminal of its own, and
`live` too, but there one can look and type while it runs.
"""

import contextlib
import errno
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from onward import Onward
from onward.cli import main
from onward.testing import FakeClock

PATIENCE = 60.0  # seconds a test waits for a fact: reached only when something is broken


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
        yield lambda **settings: stack.enter_context(Onward(url, **settings).connect())


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
        process, screen = _on_terminal(program, words, 24, columns, environ)
        os.write(screen, typed.encode())
        shown = b"".join(iter(lambda: _read(screen), b"")).decode()
        os.close(screen)
        return Ran(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.replace("\r\n", "\n"))

    return terminal


def _on_terminal(program, words, rows, columns, environ):
    process, screen = pty.fork()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Named in full: readline, which pytest loads, puts a COLUMNS of its own into what would be inherited.
        os.execve(program[0], [*program, *map(str, words)], {**os.environ, "TERM": "xterm-256color", **environ})
    return process, screen


class Live:
    """A program that draws on a terminal."""

    def __init__(self, process, screen):
        self.process = process
        self.code = None
        self._screen = screen
        self._shown = b""

    @property
    def everything(self):
        return self._shown.decode(errors="replace")

    @property
    def picture(self):
        """What was drawn last, without colours.  Every picture begins at home."""
        last = self._shown.rpartition(b"\x1b[H")[2].decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last).replace("\r\n", "\n")

    def wait_for(self, *texts, gone=()):
        """Look until the picture shows all of these and none of those."""
        self._look_until(
            lambda: all(text in self.picture for text in texts) and not any(g in self.picture for g in gone)
        )
        return self.picture

    def type(self, keys):
        os.write(self._screen, keys.encode())

    def signal(self, number):
        os.kill(self.process, number)

    def end(self):
        """Look until the program has ended; gives what it left on the screen."""
        while chunk := _read(self._screen):
            self._shown += chunk
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.everything.rpartition("\x1b[?1049l")[2].replace("\r\n", "\n")

    def close(self):
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self._screen)

    def _look_until(self, seen):
        deadline = time.monotonic() + PATIENCE
        while not seen():
            left = deadline - time.monotonic()
            assert left > 0, f"never seen; the last picture was:\n{self.picture}"
            if select.select([self._screen], [], [], left)[0]:
                chunk = _read(self._screen)
                assert chunk, f"it ended; the last picture was:\n{self.picture}"
                self._shown += chunk


@pytest.fixture
def live(program):
    """The program on a terminal, while it runs: ``live("top").wait_for("RUNNING")``."""
    started = []

    def live(*words, rows=30, columns=100, **environ):
        started.append(Live(*_on_terminal(program, words, rows, columns, environ)))
        return started[-1]

    yield live
    for each in started:
        each.close()


@pytest.fixture
def worker(program, tmp_path):
    """``worker("shop:jobs")`` runs `onward worker` until the end of the test; its log is in worker.log."""
    started = []

    def worker(*words):
        with (tmp_path / "worker.log").open("ab") as log:
            command = [*program, "worker", *map(str, words), "--shutdown-timeout", "0.1s"]
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return started[-1]

    yield worker
    for each in started:
        each.terminate()
        each.wait(PATIENCE)


@pytest.fixture
def eventually():
    """Ask until the answer is a fact: ``eventually(lambda: handle.state() == "executing")``."""

    def eventually(fact):
        deadline = time.monotonic() + PATIENCE
        while not (found := fact()):
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.02)
        return found

    return eventually


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
