"""``onward completion``: a script for the shell, made from the same tree as the parser.

All three scripts work alike.  They go through the words so far to find the place in the tree (``/job/list``), leaving out
the values of options; then they offer the words of that place, options only after a dash.  A flag takes a value everywhere
or nowhere, so no grammar is needed.  (`shtab` reads argparse, which knows neither ``worker list``, nor the values of
--state and --many, nor that the word after --url is no command; so this is made from the tree.)
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from onward.cli import output
from onward.cli.command import Argument, Command, Group, argument
from onward.cli.exits import Exit

__all__ = ["COMMAND", "script"]

Tree = Sequence[Command | Group]
Offer = tuple[str, str]  # a word and what it means


class Place(NamedTuple):
    """A place in the tree, and the words that are allowed there."""

    path: str  # "", "/job", "/job/list"
    commands: tuple[Command | Group, ...]
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        return [each for each in self.arguments if each.is_option]

    @property
    def words(self) -> list[Offer]:
        return [
            *((command.name, command.summary) for command in self.commands),
            *((choice, each.summary) for each in self.arguments if not each.is_option for choice in each.choices),
        ]

    @property
    def flags(self) -> list[Offer]:
        return [(each.name, each.summary) for each in self.options]


def complete(args: Namespace) -> int:
    """Print the script."""
    for line in script(args.shell, args.tree, args.everywhere).splitlines():
        output.write(line)
    return Exit.OK


def script(shell: str, tree: Tree, everywhere: Sequence[Argument]) -> str:
    """Return the completion script for ``bash``, ``zsh`` or ``fish``."""
    places = list(_places(tree, tuple(everywhere)))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](places)


def _places(tree: Tree, everywhere: tuple[Argument, ...], path: str = "") -> Iterator[Place]:
    yield Place(path, tuple(tree), everywhere)
    for each in tree:
        if isinstance(each, Group):
            yield from _places(each.commands, everywhere, f"{path}/{each.name}")
        else:
            yield Place(f"{path}/{each.name}", each.others, (*each.arguments, *everywhere))
            for other in each.others:
                yield Place(f"{path}/{each.name}/{other.name}", (), (*other.arguments, *everywhere))


def _bash(places: Sequence[Place]) -> str:
    values = [
        f'        "{place.path} {each.name}") COMPREPLY=($(compgen {_compgen(each)} -- "$current")); return ;;'
        for place in places
        for each in place.options
        if each.choices or each.files
    ]
    offers = [
        f'        "{place.path}") offers="{_listed(place.words)}" flags="{_listed(place.flags)}" ;;' for place in places
    ]
    return f"""\
# Completion of onward for bash.  In ~/.bashrc: eval "$(onward completion bash)"
_onward() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
    local place="" word skip=0 index offers="" flags=""
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${{COMP_WORDS[index]}}"
        if ((skip)); then skip=0; continue; fi
        case "$word" in
            {"|".join(_valued(places))}) skip=1 ;;
        esac
        case "$place/$word" in
            {"|".join(_paths(places))}) place="$place/$word" ;;
        esac
    done
    case "$place $previous" in
{_joined(values)}
        {"|".join(f'*" {flag}"' for flag in _valued(places))}) COMPREPLY=(); return ;;
    esac
    case "$place" in
{_joined(offers)}
    esac
    if [[ "$current" == -* || -z "$offers" ]]; then offers="$flags"; fi
    COMPREPLY=($(compgen -W "$offers" -- "$current"))
}}
complete -F _onward onward
"""


def _zsh(places: Sequence[Place]) -> str:
    values = [
        f'        ("{place.path} {each.name}") {_compadd(each)}; return ;;'
        for place in places
        for each in place.options
        if each.choices or each.files
    ]
    offers = [
        f'        ("{place.path}") offers=({_meanings(place.words)}) flags=({_meanings(place.flags)}) ;;'
        for place in places
    ]
    return f"""\
#compdef onward
# Completion of onward for zsh.  In ~/.zshrc, after compinit: eval "$(onward completion zsh)"
_onward() {{
    local place="" word skip=0
    local -a offers flags
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        if (( skip )); then skip=0; continue; fi
        case $word in
            ({"|".join(_valued(places))}) skip=1 ;;
        esac
        case $place/$word in
            ({"|".join(_paths(places))}) place=$place/$word ;;
        esac
    done
    case "$place ${{words[CURRENT-1]}}" in
{_joined(values)}
        ({"|".join(f'*" {flag}"' for flag in _valued(places))}) return ;;
    esac
    case $place in
{_joined(offers)}
    esac
    if [[ "${{words[CURRENT]}}" == -* || ${{#offers}} -eq 0 ]]; then offers=("${{flags[@]}}"); fi
    _describe onward offers
}}
if [[ $funcstack[1] == _onward ]]; then _onward "$@"; else compdef _onward onward; fi
"""


def _fish(places: Sequence[Place]) -> str:
    lines = [
        f"complete -c onward -n '__onward_at {place.path or '/'}' {offer}"
        for place in places
        for offer in _fish_offers(place)
    ]
    return f"""\
# Completion of onward for fish.  Save as ~/.config/fish/completions/onward.fish
function __onward_at
    set -l place ""
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case {" ".join(_valued(places))}
                set skip 1
        end
        switch "$place/$word"
            case {" ".join(_paths(places))}
                set place "$place/$word"
        end
    end
    test "$place" = (string replace -r '^/$' '' -- $argv[1])
end
complete -c onward -f
{_joined(lines)}
"""


def _fish_offers(place: Place) -> Iterator[str]:
    for word, meaning in place.words:
        yield f"-a {word} -d {_quoted(meaning)}"
    for each in place.options:
        flags = [f"-l {each.name.removeprefix('--')}", f"-d {_quoted(each.summary)}"]
        if each.files:
            flags.append("-r -F")
        elif each.takes_value:
            flags.append(f"-x -a {_quoted(' '.join(each.choices))}" if each.choices else "-x")
        yield " ".join(flags)


def _compgen(argument: Argument) -> str:
    return "-f" if argument.files else f'-W "{" ".join(argument.choices)}"'


def _compadd(argument: Argument) -> str:
    return "_files" if argument.files else f"compadd -- {' '.join(argument.choices)}"


def _listed(offers: Sequence[Offer]) -> str:
    return " ".join(word for word, _ in offers)


def _meanings(offers: Sequence[Offer]) -> str:
    return " ".join(_quoted(f"{word}:{meaning}") for word, meaning in offers)


def _valued(places: Sequence[Place]) -> list[str]:
    return sorted({each.name for place in places for each in place.options if each.takes_value})


def _paths(places: Sequence[Place]) -> list[str]:
    return [place.path for place in places if place.path]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Put a text in single quotes, for any of the three shells."""
    return "'" + text.replace("'", "’") + "'"


COMMAND = Command(
    "completion",
    "print a script that completes commands and options in your shell",
    complete,
    (argument("shell", "bash, zsh or fish", metavar="SHELL", choices=("bash", "zsh", "fish")),),
    about='For bash, put this into ~/.bashrc: eval "$(onward completion bash)"',
)
