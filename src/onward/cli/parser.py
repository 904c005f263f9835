"""The parser, made from the tree of commands.  Options that all commands take may stand before or after the command."""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NoReturn

from onward.cli import near_misses, worker
from onward.cli.command import GLOBALS, Argument, Command, Group
from onward.cli.exits import MEANINGS, CommandError, Exit
from onward.version import __version__

__all__ = ["parse"]


def parse(arguments: Sequence[str]) -> Namespace:
    """Parse the command line; ``run`` is the command's function."""
    tree = _tree(arguments)
    try:
        args, rest = _build(tree, set(arguments)).parse_known_args(arguments)
    except UnknownCommand as unknown:
        after = arguments[arguments.index(unknown.word) + 1 :]
        words = [unknown.word, *(word for word in after if not word.startswith("-"))]
        raise CommandError(near_misses.told(_tree(), unknown.prog, words), Exit.USAGE) from None
    args.tree, args.everywhere = tree, GLOBALS
    _adopt(args, rest)
    _prefer_other(args)
    return args


class UnknownCommand(Exception):
    """A word in the place of a command names none."""

    def __init__(self, prog: str, word: str) -> None:
        super().__init__(word)
        self.prog = prog
        self.word = word


class Parser(argparse.ArgumentParser):
    """Raises an error instead of ending the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see `{self.prog} --help`", Exit.USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001
            raise UnknownCommand(self.prog, value)
        super()._check_value(action, value)


def _tree(arguments: Sequence[str] = ()) -> Sequence[Command | Group]:
    """Return all commands; that of a worker alone if it is asked for, because that one keeps for weeks what it imports."""
    if arguments[:1] == [worker.COMMAND.name]:
        return (worker.COMMAND,)
    from onward.cli.commands import TREE

    return TREE


def _build(tree: Sequence[Command | Group], words: set[str]) -> Parser:
    """Build the parser of a command line with these words."""
    codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())
    parser = Parser(
        prog="onward",
        usage="onward [options] COMMAND ...",
        description="Look after background jobs from the command line.",
        epilog=f"exit codes:\n{codes}",
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"onward {__version__}", help="print the version and exit"
    )
    _add_globals(parser)
    _add_commands(parser, tree, words)
    return parser


def _add_commands(parser: Parser, commands: Sequence[Command | Group], words: set[str]) -> None:
    parser.set_defaults(run=lambda _: _explain(parser), command=None, prog=parser.prog)
    slots = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for command in commands:
        about = f"{_sentence(command.summary)}{_below(command)}"
        usage = f"{parser.prog} {command.usage}"
        added = slots.add_parser(command.name, help=command.summary, description=about, usage=usage)
        added.prog = f"{parser.prog} {command.name}"
        if command.name not in words:
            continue  # it can only be listed: to add the options of all commands takes longer than many commands
        if isinstance(command, Group):
            _add_commands(added, command.commands, words)
        else:
            added.set_defaults(run=command.run, command=command, prog=added.prog)
            for each in command.arguments:
                _add(added, each)
        _add_globals(added, default=argparse.SUPPRESS)  # so that defaults do not replace options before the command


def _add_globals(parser: Parser, **default: Any) -> None:
    group = parser.add_argument_group("options of every command")
    for each in GLOBALS:
        _add(group, each, **default)


def _add(parser: Any, argument: Argument, **default: Any) -> None:
    choices = {"choices": argument.choices} if argument.choices and "type" not in argument.words else {}
    parser.add_argument(
        argument.name, help=argument.summary.replace("%", "%%"), **choices, **(argument.words | default)
    )


def _adopt(args: Namespace, rest: list[str]) -> None:
    """Allow the words of a list on both sides of an option: argparse ends a list at the first option."""
    command: Command | None = args.command
    options = [word for word in rest if word.startswith("-") and word != "-"]
    if options:
        own = [each.name for each in command.arguments if each.is_option] if command else ["--version"]
        known = [*own, *(each.name for each in GLOBALS), "--help"]
        close = difflib.get_close_matches(options[0].partition("=")[0], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"see `{args.prog} --help`"
        raise CommandError(f"there is no option {options[0]}: {hint}", Exit.USAGE)
    lists = [each for each in command.arguments if each.is_variadic] if command else []
    if rest and not lists:
        raise CommandError(f"{rest[0]!r} is one word too many{_meant(rest[0], command, args)}", Exit.USAGE)
    if rest:
        setattr(args, lists[0].dest, [*getattr(args, lists[0].dest), *rest])


def _meant(word: str, command: Command | None, args: Namespace) -> str:
    """Return which option a word that is KEY=VALUE may be for, as the end of an error text."""
    pairs = [each.name for each in command.arguments if each.words.get("metavar") == "KEY=VALUE"] if command else []
    return f": write {pairs[0]} {word}" if pairs and "=" in word else f"; see `{args.prog} --help`"


def _prefer_other(args: Namespace) -> None:
    """Choose another command if a word in place of the first argument names one, as in ``onward worker list``."""
    command: Command | None = args.command
    if command is None or not command.others:
        return
    word = getattr(args, command.arguments[0].dest)
    other = next((each for each in command.others if each.name == word), None)
    if other is None and difflib.get_close_matches(word or "", [each.name for each in command.others], n=1):
        raise CommandError(near_misses.told(_tree(), args.prog, [word]), Exit.USAGE)
    if other is not None:
        for each in command.arguments:
            if each.is_option and getattr(args, each.dest) != each.default:
                raise CommandError(f"`{args.prog} {other.name}` takes no {each.name}", Exit.USAGE)
        args.command, args.run, args.prog = other, other.run, f"{args.prog} {other.name}"


def _explain(parser: Parser) -> int:
    """Print the help of a noun that stands without a verb."""
    sys.stderr.write(parser.format_help())
    return Exit.USAGE


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _below(command: Command | Group) -> str:
    return (
        f"\n\n{textwrap.fill(command.about, 79, break_on_hyphens=False)}"
        if isinstance(command, Command) and command.about
        else ""
    )
