"""Run a program: an argument list, never a shell; only programs that were allowed; nothing inherited.

The program is compared by its resolved absolute path *and* its own name: a link cannot smuggle in another program, and
allowing one applet of a multi-call binary does not allow the others.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onward.clock import to_micros
from onward.context import JobContext
from onward.errors import ArgumentError, OptionError
from onward.failure import storable
from onward.registry import NotAllowed

__all__ = ["CommandFailed", "Shell"]

_OUTPUT_LIMIT = 64 * 1024
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class CommandFailed(Exception):
    """The program ended with another code than 0, or was killed."""


class Shell:
    """``jobs.define("shell", ["/usr/bin/rsync", "-a", "src/", "dst/"])``."""

    def __init__(self, *, allow: Sequence[str], env: dict[str, str] | None = None, cwd: str = "/") -> None:
        if isinstance(allow, str) or not all(isinstance(path, str) and path.startswith("/") for path in allow):
            raise OptionError("handlers={'shell': {'allow': [...]}} takes absolute paths of programs")
        self._allowed = {_identity(path) for path in allow}
        self._env = {**_ENVIRONMENT, **(env or {})}
        self._cwd = cwd

    def check(self, payload: Any) -> None:
        if not isinstance(payload, list) or not payload or not all(isinstance(part, str) for part in payload):
            raise ArgumentError("shell takes a list of text: the program's absolute path, then its arguments")
        if any("\x00" in part for part in payload):
            raise ArgumentError("shell: a NUL cannot be part of an argument")

    def run(self, ctx: JobContext) -> dict[str, Any]:
        argv = ctx.payload
        try:
            self.check(argv)
        except ArgumentError as error:
            raise NotAllowed(f"not allowed: {error}") from None
        program = argv[0]
        identity = _identity(program)
        if not program.startswith("/") or identity not in self._allowed:
            raise NotAllowed(
                f"program {program!r:.200} is not allowed: the shell handler's allow-list does not name it"
            )
        deadline = None if ctx.deadline is None else to_micros(ctx.deadline) / 1e6 - time.time() + time.monotonic()
        return self._execute(identity[0], argv, deadline)

    def _execute(self, executable: str, argv: list[str], deadline: float | None) -> dict[str, Any]:
        process = subprocess.Popen(  # noqa: S603  an argument list whose program is allow-listed
            argv,
            executable=executable,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._cwd,
            env=self._env,
            start_new_session=True,  # so that a time-out ends its children too
        )
        try:
            output = _collect(process, deadline)
            code = process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, TimeoutError):
            raise TimeoutError(f"{argv[0]} did not end in time and was killed") from None
        finally:
            _end(process)
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise CommandFailed(f"{argv[0]} {how}: {output['stderr'][-500:] or output['stdout'][-500:]}")
        return {"exit_code": code, **output}


def _identity(path: str) -> tuple[str, str]:
    return os.path.realpath(path), Path(path).name


def _collect(process: subprocess.Popen[bytes], deadline: float | None) -> dict[str, str]:
    """Read both streams to their end.  Past the limit what comes is read and dropped: the program is never stopped by it."""
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {"stdout": bytearray(), "stderr": bytearray()}
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        while selector.get_map():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65_536)
                if not chunk:
                    selector.unregister(key.fileobj)
                room = _OUTPUT_LIMIT - len(streams[key.data])
                streams[key.data] += chunk[: max(room, 0)]
    return {name: storable(data.decode("utf-8", "replace"), _OUTPUT_LIMIT) for name, data in streams.items()}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind: not the program, not its children, not its pipes."""
    # Even if the program itself has ended: while a child of it lives, the number of its group is not given away.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
