"""The command `onward` for the application of a framework's project: what ``manage.py onward`` and ``flask onward`` become.

Their process is replaced by it: a supervisor must not have imported the project, whose code it watches and restarts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

__all__ = ["command", "needs_application", "replace_process"]

_WITHOUT_APPLICATION = ("version", "completion", "demo", "--help", "-h", "--version", "-V")


def needs_application(words: Sequence[str]) -> bool:
    """Return whether a command with these words is about an application: to ask for help is not."""
    return bool(words) and words[0] not in _WITHOUT_APPLICATION


def command(words: Sequence[str], application: str, queues: Callable[[], list[str]] = list) -> list[str]:
    """Return the command line of `onward` with these words, for this application; ``queues``: options of a worker."""
    python = [sys.executable, *(f"-W{option}" for option in sys.warnoptions), "-m", "onward"]
    if not needs_application(words):
        return [*python, *words]
    if words[0] == "worker" and (len(words) == 1 or words[1].startswith("-")):
        return [*python, "worker", application, *queues(), *words[1:]]
    return [*python, *words, "--app", application]


def replace_process(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Become this command, with the id of this process: signals and a process manager reach it directly."""
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606  no shell, on purpose
