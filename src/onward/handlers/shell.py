"""Run a program: an argument list, never a shell; only programs that were allowed; nothing inherited.

A job names a program by the path that was allowed, or by the path that it resolves to under the same name.  The path must
still resolve to the same file as when the worker started: a link cannot bring in another program, and allowing one name of a
program that acts by its name does not allow the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from onward.errors import ArgumentError, OptionError
from onward.handlers.limits import Limits
from onward.handlers.program import CLEAN_ENVIRONMENT, CommandFailed, run_program
from onward.job.context import JobContext
from onward.job.registry import NotAllowed

__all__ = ["CommandFailed", "Shell"]


class Shell:
    """``jobs.define("shell", ["/usr/bin/rsync", "-a", "src/", "dst/"])``.

    ``allow`` lists programs by their absolute paths.  As a mapping it also says which options each may be given:
    ``{"/usr/bin/rsync": ["-a", "--delete"]}``; an argument that begins with ``-`` must be one of them.  ``limits`` say what
    each of its processes may use: ``{"cpu_seconds": 60, "address_space": 2**30, "open_files": 64, "file_size": 10**8}``.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] | Mapping[str, Sequence[str]],
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        limits: Mapping[str, int] | None = None,
    ) -> None:
        if isinstance(allow, str) or not all(isinstance(path, str) and _is_plain(path) for path in allow):
            raise OptionError(
                "handlers={'shell': {'allow': [...]}} takes absolute paths of programs, without '.', '..' and '//'"
            )
        self._programs: dict[str, str] = {}  # how it may be named -> where that led when it was allowed
        self._options: dict[str, frozenset[str]] = {}
        for path in allow:
            self._allow(path, allow[path] if isinstance(allow, Mapping) else None)
        self._env = {**CLEAN_ENVIRONMENT, **(env or {})}
        self._cwd = cwd
        self._limits = Limits(limits or {}, "handler 'shell'")

    def check(self, payload: Any) -> None:
        if not isinstance(payload, list) or not payload or not all(isinstance(part, str) for part in payload):
            raise ArgumentError("shell takes a list of text: the program's absolute path, then its arguments")
        if any("\x00" in part for part in payload):
            raise ArgumentError("shell: a NUL cannot be part of an argument")
        if not _is_plain(payload[0]):
            raise ArgumentError(
                f"shell: {payload[0]!r:.200} names no program: write its absolute path, without '.', '..' and '//'; PATH "
                f"is not searched"
            )

    def run(self, ctx: JobContext) -> dict[str, Any]:
        argv = ctx.payload
        try:
            self.check(argv)
        except ArgumentError as error:
            raise NotAllowed(f"the payload is not allowed: {error}") from None
        return run_program(
            argv,
            ctx,
            name=argv[0],
            executable=self._allowed(argv),
            env=self._env,
            cwd=self._cwd,
            limits=self._limits,
        )

    def _allow(self, path: str, options: Sequence[str] | None) -> None:
        resolved = os.path.realpath(path)
        names = {path, resolved} if PurePosixPath(resolved).name == PurePosixPath(path).name else {path}
        for name in names:
            self._programs[name] = resolved
            if options is not None:
                if isinstance(options, str) or not all(isinstance(option, str) for option in options):
                    raise OptionError(f"handler 'shell': {path}: the options it may be given are a list of text")
                self._options[name] = frozenset(options)

    def _allowed(self, argv: list[str]) -> str:
        """Return the path of the program; raise if it or an option is not allowed."""
        program = argv[0]
        resolved = self._programs.get(program)
        if resolved is None:
            raise NotAllowed(
                f"program {program!r:.200} is not allowed: the shell handler's allow-list does not name it"
            )
        if os.path.realpath(program) != resolved:
            raise NotAllowed(
                f"program {program!r:.200} is not allowed: its path leads to another file than when this worker started; "
                f"restart the worker if that is intended"
            )
        options = self._options.get(program)
        if options is not None:
            for argument in argv[1:]:
                if argument.startswith("-") and argument not in options:
                    raise NotAllowed(f"option {argument!r:.200} of {program} is not allowed: the allow-list omits it")
        return resolved


def _is_plain(path: str) -> bool:
    """Return whether a path is absolute and normal."""
    return path.startswith("/") and not path.startswith("//") and os.path.normpath(path) == path and path != "/"
