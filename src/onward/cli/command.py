"""Commands as plain data, from which the parser, the shell completion and the reference are made."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["GLOBALS", "Argument", "Command", "Group", "argument"]


class Argument(NamedTuple):
    """One option, or one positional argument."""

    name: str  # "--queue", or "id"
    summary: str
    words: dict[str, Any]  # for argparse
    choices: tuple[str, ...] = ()  # the words that a shell may offer
    files: bool = False  # or whether it may offer files

    @property
    def is_option(self) -> bool:
        return self.name.startswith("-")

    @property
    def takes_value(self) -> bool:
        return self.is_option and not str(self.words.get("action", "")).startswith("store_")

    @property
    def is_variadic(self) -> bool:
        return self.words.get("nargs") in ("*", "+")

    @property
    def dest(self) -> str:
        return str(self.words.get("dest", self.name.lstrip("-").replace("-", "_")))

    @property
    def default(self) -> Any:
        return self.words.get("default", False if self.words.get("action") == "store_true" else None)

    @property
    def usage(self) -> str:
        """The argument as the help writes it: ``--queue NAME``, ``ID...``, ``[KEY=VALUE...]``."""
        metavar = self.words.get("metavar") or self.dest.upper()
        if self.is_option:
            return f"{self.name} {metavar}" if self.takes_value else self.name
        many = f"{metavar}..." if self.is_variadic else metavar
        return f"[{many}]" if self.words.get("nargs") in ("*", "?") else many


def argument(name: str, summary: str, *, choices: Sequence[str] = (), files: bool = False, **words: Any) -> Argument:
    return Argument(name, summary, words, tuple(choices), files)


class Command(NamedTuple):
    """One command, and the function that runs it."""

    name: str
    summary: str
    run: Callable[[Namespace], int]
    arguments: tuple[Argument, ...] = ()
    about: str = ""  # more than the summary has room for
    narrates: bool = False  # whether its log is its output
    others: tuple[Command, ...] = ()  # commands that may stand in place of its first argument

    @property
    def usage(self) -> str:
        """The command as the help writes it: ``cancel [options] ID...``."""
        return " ".join([self.name, "[options]", *(each.usage for each in self.arguments if not each.is_option)])


class Group(NamedTuple):
    """A noun, with its commands."""

    name: str
    summary: str
    commands: tuple[Command, ...]

    @property
    def usage(self) -> str:
        return f"{self.name} [options] COMMAND ..."


GLOBALS = (
    argument("--url", "the store, such as sqlite:///jobs.db; else ONWARD_URL, or what onward.toml says", metavar="URL"),
    argument(
        "--store", "the database beside a broker, for what the broker cannot keep; else ONWARD_STORE", metavar="URL"
    ),
    argument("--namespace", "the namespace in that store", metavar="NAME"),
    argument(
        "--app",
        "take store and jobs from an application in Python code, as in shop.jobs:jobs or shop:create()",
        metavar="MODULE:ATTRIBUTE",
    ),
    argument("--json", "print data as JSON, one object to a line", action="store_true"),
    argument("--quiet", "print data and errors only", action="store_true"),
    argument("--debug", "log, and show the traceback of an error", action="store_true"),
)
