"""Running a program to its end; it inherits no files, and its child processes end with it.

The program leads a process group of its own, and the handler kills the group before it waits for the leader: until then no
other process can get its number.  So every process that the program started ends with it, unless it left the group.  If this
process is killed meanwhile, its supervisor knows the number, and does the same.  In a process that runs only this job the
program stays in the group of that process, which ends with it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onward.base.failure import escaped, storable
from onward.base.interruption import uninterrupted
from onward.base.lazy import subprocess
from onward.handlers.limits import Limits, never_dump
from onward.handlers.time_left import TimeLeft
from onward.job.context import JobContext

__all__ = ["CLEAN_ENVIRONMENT", "CommandFailed", "run_program"]

CLEAN_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_OUTPUT_LIMIT = 64 * 1024
_TAIL = 500
_BEFORE = 4_096  # of the end, so that a secret at its edge is found whole


class CommandFailed(Exception):
    """The program ended with another code than 0, or was killed."""


class _Said:
    """The beginning of a stream, which is the result, and its end, for the error text."""

    def __init__(self) -> None:
        self.beginning = bytearray()
        self._end = b""

    def add(self, chunk: bytes) -> None:
        """Keep output up to the limit and drop the rest: the program can go on writing."""
        self.beginning += chunk[: max(_OUTPUT_LIMIT - len(self.beginning), 0)]
        self._end = (self._end + chunk)[-_TAIL - _BEFORE :]

    def text(self) -> str:
        return storable(self.beginning.decode("utf-8", "replace"), _OUTPUT_LIMIT)

    def tail(self, scrub: Callable[[str], str]) -> str:
        return escaped(scrub(self._end.decode("utf-8", "replace").strip())[-_TAIL:])


def run_program(
    argv: Sequence[str],
    ctx: JobContext,
    *,
    name: str,
    executable: str,
    env: Mapping[str, str],
    cwd: str,
    fine: Sequence[int] = (0,),
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Run a program; return its output and its exit code, if that is one of ``fine``; else raise."""
    if limits:
        argv, executable = limits.around(executable, argv, env), sys.executable
    process: subprocess.Popen[bytes] | None = None
    out, err = _Said(), _Said()
    try:
        with uninterrupted():  # an interruption waits until the process is known here
            process = _start(argv, executable, env, cwd, leads=not ctx.alone)
            ctx.runs_program(process.pid)
        if not limits:
            never_dump(process.pid)
        _listen(process, out, err, TimeLeft(ctx))
    except TimeoutError:
        raise TimeoutError(f"{name} did not end in time and was killed") from None
    finally:
        if process is not None:
            _end_surely(process, leads=not ctx.alone)
            ctx.runs_program(0)
    code = process.returncode
    if code not in fine:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        said = err.tail(ctx.scrub) or out.tail(ctx.scrub)
        raise CommandFailed(f"{name} {how}{limits.explanation(code, said) if limits else ''}: {said}")
    return {"exit_code": code, "stdout": out.text(), "stderr": err.text()}


def _start(
    argv: Sequence[str], executable: str, env: Mapping[str, str], cwd: str, *, leads: bool
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        executable=executable,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=leads,  # no terminal to write to, and a group that can be killed
    )


def _listen(process: subprocess.Popen[bytes], out: _Said, err: _Said, time_left: TimeLeft) -> None:
    """Read both streams to their end, and wait for the end of the program."""
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        while selector.get_map():
            for key, _ in selector.select(time_left.nap()):
                chunk = os.read(key.fd, 65_536)
                key.data.add(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
    _wait(process, time_left)


def _wait(process: subprocess.Popen[bytes], time_left: TimeLeft) -> None:
    """Wait for the end of the program, and leave it a zombie: no other process or group gets its number."""
    pause = 0.0005  # seconds; nearly always the program has ended when its streams have
    with contextlib.suppress(ChildProcessError):  # another thread of this program waits for all children
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(min(time_left.nap(), pause))
            pause = min(pause * 2, 0.05)


def _end_surely(process: subprocess.Popen[bytes], *, leads: bool) -> None:
    """End the program; once more if an interruption arrives at the beginning: seconds pass before the next one."""
    try:
        with uninterrupted():
            _end(process, leads=leads)
    finally:
        if process.returncode is None:
            _end(process, leads=leads)


def _end(process: subprocess.Popen[bytes], *, leads: bool) -> None:
    """End the program, its children and its pipes."""
    # This process may not kill a program that changed its user.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if leads else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
