"""Checking what people write: names that every backend can carry (SQL values, Redis keys, tubes, files), whole numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from onward.base.lazy import difflib
from onward.errors import InvalidName

__all__ = [
    "is_pattern",
    "job_name",
    "key",
    "like",
    "matcher",
    "namespace_name",
    "queue_name",
    "queue_pattern",
    "serves",
    "suggestion",
    "whole",
]

_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_QUEUE_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,99}")
_JOB = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,199}")
_NAMESPACE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_KEY_LIMIT = 400
_LONGEST_NUMBER = 18  # digits: Python refuses to read thousands of them


def queue_name(name: str) -> str:
    """Check a queue's name, or raise `InvalidName`: line protocols must never get a control character."""
    return _checked(
        _QUEUE, name, "queue name", "letters, digits, '.', '_' and '-', at most 100, not starting with a sign"
    )


def queue_pattern(pattern: str) -> str:
    """Check a pattern of queue names, in which ``*`` stands for any part of one, or raise `InvalidName`."""
    return _checked(
        _QUEUE_PATTERN,
        pattern,
        "queue pattern",
        "the letters, digits and signs of a queue's name, and '*' for any part",
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the comparison with a text in which ``*`` stands for any part.

    An expression would try all ways to divide a name among several stars: hours for ten of them.

    >>> [name for name in ("tenant.a", "tenants", "tenant.") if matcher("tenant.*")(name)]
    ['tenant.a', 'tenant.']
    """
    first, *middle = pattern.split("*")
    if not middle:
        return lambda value: value == first
    last = middle.pop()

    def matches(value: str) -> bool:
        at, end = len(first), len(value) - len(last)
        if at > end or not value.startswith(first) or not value.endswith(last):
            return False
        for part in middle:
            at = value.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return matches


@lru_cache(256)
def like(text: str) -> Callable[[str], bool]:
    """Return the comparison with a text in which ``*`` stands for any part; letters count alike in either case."""
    matches = matcher(text.casefold())
    return lambda value: matches(value.casefold())


def is_pattern(queue: str) -> bool:
    return "*" in queue


def serves(served: Iterable[str], queue: str) -> bool:
    """Return whether a queue, or a pattern itself, is among these names and patterns."""
    return any(queue == each or (is_pattern(each) and matcher(each)(queue)) for each in served)


def job_name(name: str) -> str:
    return _checked(
        _JOB, name, "job name", "letters, digits, '_', '.', ':' and '-', at most 200, starting with a letter"
    )


def namespace_name(name: str) -> str:
    """Check a namespace.  It becomes part of table names, so the rule is stricter than for other names."""
    return _checked(
        _NAMESPACE, name, "namespace", "lower-case letters, digits and '_', at most 40, starting with a letter"
    )


def key(value: str, what: str, *, longest: int = _KEY_LIMIT) -> str:
    """Check a unique or idempotency key: any printable text, bounded so that it fits every store's index."""
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise InvalidName(f"{what} must be printable text of 1 to {longest} characters, not {value!r:.60}")
    return value


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the word that may have been meant.

    >>> suggestion("prioritee", ["priority", "queue"])
    ": did you mean 'priority'?"
    """
    words = sorted(map(str, known))  # of an enum's member, its value
    close = difflib.get_close_matches(word, words, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; it knows {', '.join(words)}"


def whole(text: str) -> int | None:
    """Return the whole number that a text is, or None if it is anything else.

    >>> whole("42"), whole("-1"), whole("٤٢"), whole("9" * 5000)
    (42, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _checked(pattern: re.Pattern[str], name: str, what: str, rule: str) -> str:
    if not isinstance(name, str) or pattern.fullmatch(name) is None:
        raise InvalidName(f"{what} {name!r:.60} is not allowed: use {rule}")
    return name
