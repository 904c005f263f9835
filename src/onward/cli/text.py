"""Escaping control characters in text of a job, so that it cannot act on a terminal."""

from __future__ import annotations

from typing import Any

import msgspec

from onward.base.failure import escaped, escaped_lines

__all__ = ["escaped", "escaped_lines", "json_text"]


def json_text(value: Any) -> str:
    r"""Return one line of JSON without a character that could act on a terminal.

    >>> json_text("\x1b\x9b\u202e")
    '"\\u001b\\u009b\\u202e"'
    """
    text = msgspec.json.encode(value).decode()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
