"""Guessing the command for words that name none: a plural, verb and noun in the other order, a typing error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from onward.cli.command import Command, Group

__all__ = ["meant", "told"]

Path = tuple[str, ...]  # ("job", "list")

# The names of commands in other tools.
_OTHER_WORDS = {
    "add": ("enqueue",),
    "push": ("enqueue",),
    "send": ("enqueue",),
    "run": ("worker",),
    "start": ("worker",),
    "work": ("worker",),
    "monitor": ("top",),
    "watch": ("top",),
    "stats": ("top",),
    "doctor": ("health",),
    "check": ("health",),
    "status": ("health", "show"),
    "settings": ("config",),
    "cron": ("schedule",),
    "beat": ("schedule",),
    "periodic": ("schedule",),
    "dlq": ("dead",),
    "failed": ("dead",),
    "dead-letter": ("dead",),
    "ls": ("list",),
    "info": ("show",),
    "get": ("show",),
    "inspect": ("show",),
    "delete": ("purge", "cancel"),
    "remove": ("delete", "purge", "cancel"),
    "rm": ("delete", "purge", "cancel"),
    "trigger": ("run",),
    "unschedule": ("delete",),
    "stop": ("pause", "cancel"),
    "requeue": ("replay", "retry"),
    "unpause": ("resume",),
}
_ID = re.compile(r"[0-9a-f-]{8,36}")


def told(tree: Sequence[Command | Group], prog: str, words: Sequence[str]) -> str:
    """Return an error text for words that name no command; ``prog`` is what was understood: ``onward``, ``onward job``."""
    understood = prog.split()[1:]
    named = " ".join([*understood, words[0]])
    found = [f"`onward {path}`" for path in meant(tree, understood, words)]
    if not found:
        return f"there is no command {named!r}: `{prog} --help` lists them"
    *first, last = found
    return f"there is no command {named!r}: did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def meant(tree: Sequence[Command | Group], understood: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the commands that these words may stand for, without the program's name; the best only."""
    paths = [*_paths(tree)]
    if words[0] == "help":
        rest = [*understood, *words[1:]]
        return [" ".join([*(_nearest(paths, rest)[:1] if rest else ()), "--help"])]
    if understood:
        return _of_noun(paths, understood[0], words[0])
    return _nearest(paths, words)


def _nearest(paths: Sequence[Path], words: Sequence[str]) -> list[str]:
    """Return the nearest commands for words that name no noun."""
    first, second = _readings(words[0]), _readings(words[1]) if len(words) > 1 else []
    pairs = [(one, other) for one in first for other in second]
    return (
        _among(paths, pairs)
        or _among(paths, [(other, one) for one, other in pairs])
        or _among(paths, [(one,) for one in first])
        or _with_verb(paths, first)
        or _alike(" ".join(words[:2]), [path for path in paths if len(path) > 1])
        or _alike(words[0], paths)
    )


def _of_noun(paths: Sequence[Path], noun: str, word: str) -> list[str]:
    """Return the nearest commands for a known noun and a verb that it does not have."""
    verbs = _readings(word)
    return (
        _among(paths, [(noun, verb) for verb in verbs])
        or (_among(paths, [(noun, "show")]) if _ID.fullmatch(word) else [])
        or _among(paths, [(verb,) for verb in verbs])
        or _with_verb(paths, verbs)
        or [f"{noun} {verb}" for verb in _alike(word, [path[1:] for path in paths if path[0] == noun])]
    )


def _among(paths: Iterable[Path], wanted: Sequence[Path]) -> list[str]:
    return [" ".join(path) for path in paths if path in wanted]


def _with_verb(paths: Iterable[Path], verbs: Sequence[str]) -> list[str]:
    return [" ".join(path) for path in paths if len(path) > 1 and path[1] in verbs]


def _alike(text: str, paths: Iterable[Path]) -> list[str]:
    """Return the command with the most similar letters."""
    return difflib.get_close_matches(text.lower(), [" ".join(path) for path in paths], n=1, cutoff=0.65)


def _paths(tree: Iterable[Command | Group]) -> Iterable[Path]:
    for each in tree:
        yield (each.name,)
        for below in each.commands if isinstance(each, Group) else each.others:
            yield each.name, below.name


def _readings(word: str) -> list[str]:
    """Return the word in the singular and the plural, and Onward's name for it."""
    plain = word.lower()
    forms = [plain, plain.removesuffix("s"), f"{plain}s"]
    return [*forms, *(other for form in forms for other in _OTHER_WORDS.get(form, ()))]
