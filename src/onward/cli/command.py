"""What a command is, as plain data.  The parser, the shell completion and the reference are all made from it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Argument", "Command", "Group", "argument"]


class Argument(NamedTuple):
    """One option, or one positional argument."""

    name: str  # "--queue", or "id"
    summary: str
    words: dict[str, Any]  # for argparse
    choices: tuple[str, ...] = ()  # what a shell may offer
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
        """How it is written: ``--queue NAME``, ``ID...``, ``[KEY=VALUE...]``."""
        metavar = self.words.get("metavar") or self.dest.upper()
        if self.is_option:
            return f"{self.name} {metavar}" if self.takes_value else self.name
        many = f"{metavar}..." if self.is_variadic else metavar
        return f"[{many}]" if self.words.get("nargs") in ("*", "?") else many


def argument(name: str, summary: str, *, choices: Sequence[str] = (), files: bool = False, **words: Any) -> Argument:
    return Argument(name, summary, words, tuple(choices), files)


class Command(NamedTuple):
    """Something that can be done."""

    name: str
    summary: str
    run: Callable[[Namespace], int]
    arguments: tuple[Argument, ...] = ()
    about: str = ""  # what the summary has no room for
    narrates: bool = False  # its log is what it has to say
    others: tuple[Command, ...] = ()  # words that may stand in place of its first argument, and ask for something else

    @property
    def usage(self) -> str:
        """How it is called: ``cancel [options] ID...``."""
        return " ".join([self.name, "[options]", *(each.usage for each in self.arguments if not each.is_option)])


class Group(NamedTuple):
    """A noun, with what can be done about it."""

    name: str
    summary: str
    commands: tuple[Command, ...]

    @property
    def usage(self) -> str:
        return f"{self.name} [options] COMMAND ..."
