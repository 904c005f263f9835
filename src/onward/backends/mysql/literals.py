r"""Values as literals in a statement.

The driver itself looks at every character in Python, which takes as long as the server takes for the statement.  A doubled
quote ends no literal in any mode of the server; every server that reads backslashes as escapes reads a doubled one as one,
and Onward's sessions set that mode.
"""

from __future__ import annotations

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
    if value is None:
        return b"NULL"
    if isinstance(value, Literal):
        return value
    if isinstance(value, bool):
        return b"TRUE" if value else b"FALSE"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, bytes):
        return b"_binary'" + _doubled(value) + b"'"
    if isinstance(value, str):
        return b"'" + _doubled(value.encode()) + b"'"
    return b"'" + _doubled(_encode(value)) + b"'"


def _doubled(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b"'", b"''")
