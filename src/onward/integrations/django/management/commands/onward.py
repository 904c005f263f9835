"""``manage.py onward worker …``, ``manage.py onward job list …``: `onward` for the application of this project."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from onward.base.names import suggestion
from onward.errors import OptionError
from onward.integrations.replacing import command, needs_application, replace_process

__all__ = ["Command", "ManageOnward"]

_MODULE = "onward.integrations.django.app"
_DJANGOS = ("--settings", "--pythonpath")  # manage.py has read them already


class ManageOnward(BaseCommand):  # type: ignore[misc, unused-ignore]
    """Runs `onward` with the application of one alias of TASKS."""

    help = "Run workers, and look at and steer jobs: manage.py onward --help"
    requires_system_checks: Sequence[str] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "words", nargs=REMAINDER, help="what `onward` takes; --alias NAME chooses an alias of TASKS"
        )

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Replace this process by the command."""
        try:
            words = self._command(argv[2:])
        except OptionError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        replace_process(words, self._environment())

    def handle(self, *args: Any, words: Sequence[str] = (), **_: Any) -> None:
        """Run the command beside this process, for `call_command`."""
        done = subprocess.run(self._command([*args, *words]), env=self._environment(), check=False)  # noqa: S603
        if done.returncode:
            raise CommandError(f"onward {' '.join(words)} ended with {done.returncode}", returncode=done.returncode)

    def _command(self, words: Sequence[str]) -> list[str]:
        from onward.integrations.django.versions import task_backends

        own, alias = _split(words)
        if not needs_application(own):
            return command(own, _MODULE)
        known = task_backends.settings
        if alias not in known:
            hint = f": choose one, --alias {' or '.join(known)}" if alias == "default" else suggestion(alias, known)
            raise OptionError(f"there is no alias {alias!r} in TASKS{hint}")
        if not alias.isidentifier():
            raise OptionError(f"the alias {alias!r} is no name of Python, which commands need: rename it in TASKS")
        return command(own, f"{_MODULE}:{alias}", lambda: _queues(own, known[alias]))

    @staticmethod
    def _environment() -> dict[str, str]:
        """Return the environment in which the command finds the project: where manage.py is, and what --pythonpath named."""
        # As `python manage.py` has it, its folder first; `python -m` would begin with the current one.
        added = [str(Path(path).absolute()) for path in sys.path[:1]]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*added, *filter(None, [os.environ.get("PYTHONPATH")])])}


Command = ManageOnward  # the name that manage.py looks for


def _queues(words: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return the queues of QUEUES as options, unless some are named."""
    given = settings.get("QUEUES", ["default"])
    is_said = any(word.startswith("--queue") for word in words)
    return [f"--queues={','.join(map(str, given))}"] if given and not is_said else []


def _split(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words of the command, without what is for Django or for this command, and the alias."""
    own: list[str] = []
    alias, rest = "default", iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--alias":
            alias = value if equals else next(rest, "")
        elif name in _DJANGOS:
            if not equals:
                next(rest, None)
        else:
            own.append(word)
    return own, alias
