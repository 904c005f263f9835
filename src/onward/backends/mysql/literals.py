r"""Values as literals in a statement.

The driver itself looks at every character in Python, which takes as long as the server takes for the statement.  A doubled
quote ends no literal in any mode of the server; every server that reads backslashes as escapes reads a doubled one as one,
and Onward's sessions set that mode.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec

__all__ = ["Literal", "as_json", "literal"]

_encode = msgspec.json.Encoder().encode


class Literal(bytes):
    """A part of a statement that is written already."""


def as_json(value: object) -> bytes:
    return _encode(value)


def literal(value: object) -> bytes:
    r"""Return a value as the text of a literal.

    >>> literal(None), literal(True), literal(-5), literal("it's"), literal(b"a\\b"), literal(["a", 1])
    (b'NULL', b'TRUE', b'-5', b"'it''s'", b"_binary'a\\\\b'", b'\'["a",1]\'')
    """
    write = _WRITERS.get(type(value))
    if write is not None:  # nearly always
        return write(value)
    if isinstance(value, Literal):
        return value
    kind = next((kind for kind in (int, bytes, str) if isinstance(value, kind)), None)
    return b"'" + _doubled(_encode(value)) + b"'" if kind is None else _WRITERS[kind](value)


def _doubled(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b"'", b"''")


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    NoneType: lambda _: b"NULL",
    bool: lambda value: b"TRUE" if value else b"FALSE",
    int: lambda value: b"%d" % value,
    bytes: lambda value: b"_binary'" + _doubled(value) + b"'",
    str: lambda value: b"'" + _doubled(value.encode()) + b"'",
}
