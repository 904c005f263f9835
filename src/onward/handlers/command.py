"""Commands of the project: registered functions, and configured lines of the ``onward`` command.

A job names a command and, if it is a function, its arguments.  It never contains words of a command line: the configuration
has all of them.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from onward.base.names import job_name, suggestion
from onward.errors import ArgumentError, DefinitionError, OptionError
from onward.handlers.program import run_program
from onward.handlers.typed import TypedHandler
from onward.job.arguments import encode_value
from onward.job.context import JobContext
from onward.job.definition import JobDefinition
from onward.job.registry import FunctionEntry, NotAllowed
from onward.job.secrets import within

__all__ = ["CommandPayload", "Commands"]

F = TypeVar("F", bound=Callable[..., Any])

_DONE_OR_NOTHING_TO_DO = (0, 6)  # of the exit codes of `onward`


class CommandPayload(msgspec.Struct, forbid_unknown_fields=True):
    """The name of a command, and its arguments."""

    name: str
    arguments: dict[str, Any] = {}


class Commands(TypedHandler[CommandPayload]):
    """``jobs.define("command", {"name": "rebuild", "arguments": {"shelf": 3}})``, or only the name as text.

    ``allow`` names lines of the ``onward`` command: ``{"nightly-prune": ["prune"]}``.  They run in a process of their own,
    on the store of this application.
    """

    payload_type = CommandPayload

    def __init__(
        self, *, allow: Mapping[str, Sequence[str]] | None = None, store: Mapping[str, str | None] | None = None
    ) -> None:
        self._lines: dict[str, list[str]] = {}
        for name, words in (allow or {}).items():
            if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
                raise OptionError(
                    f"handler 'command': {name!r:.60} is a list of words, such as ['queue', 'pause', 'mail']"
                )
            self._lines[job_name(name)] = list(words)
        if self._lines and store is None:
            raise OptionError(
                "handler 'command': a command of onward runs in a process of its own, which sees no store in memory: "
                "register a function with @jobs.command, or use another store"
            )
        self._store = store
        self._folder = str(Path.cwd())  # for relative paths to a store, and for finding the configuration
        self._functions: dict[str, FunctionEntry] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret places of all commands, whichever is called."""
        known = {each for entry in self._functions.values() for each in entry.secrets}
        return tuple(within("arguments", sorted(known)))

    def register(self, name: str, function: F) -> F:
        """Let jobs call a function by this name."""
        if inspect.iscoroutinefunction(function):
            raise DefinitionError(f"command {name!r} is async: make it a job with @jobs.job")
        if name in self._functions or name in self._lines:
            raise DefinitionError(f"a command {name!r} is already registered: give one of them another name")
        self._functions[name] = FunctionEntry(JobDefinition(name=job_name(name), handler="command"), function)
        return function

    def read(self, payload: Any) -> CommandPayload:
        """Return the command; raise if it is known here and cannot be called like that."""
        command = super().read({"name": payload} if isinstance(payload, str) else payload)
        entry = self._functions.get(command.name)
        if entry is not None:
            entry.check(encode_value(command.arguments))
        elif command.name in self._lines and command.arguments:
            raise ArgumentError(f"command {command.name!r} takes no arguments: the configuration has all its words")
        return command

    def decoded(self, payload: Any) -> Any:
        command = self.read(payload)
        entry = self._functions.get(command.name)
        return None if entry is None else entry.decoded(encode_value(command.arguments))

    def handle(self, ctx: JobContext, payload: CommandPayload) -> Any:
        entry = self._functions.get(payload.name)
        if entry is not None:
            return entry.invoke(ctx, encode_value(payload.arguments))
        words = self._lines.get(payload.name)
        if words is None:
            known = [*self._functions, *self._lines]
            hint = suggestion(payload.name, known) if known else ""
            raise NotAllowed(f"command {payload.name!r:.100} is not allowed: it is not registered here{hint}")
        return run_program(
            [sys.executable, "-P", "-m", "onward", *words],
            ctx,
            name=f"onward {' '.join(words)}",
            executable=sys.executable,
            env=self._environment(),
            cwd=self._folder,
            fine=_DONE_OR_NOTHING_TO_DO,
        )

    def _environment(self) -> dict[str, str]:
        """Return this process's environment with the application's settings: the command must sign and encrypt alike."""
        said = {**os.environ, **(self._store or {})}
        return {name: value for name, value in said.items() if value is not None}
