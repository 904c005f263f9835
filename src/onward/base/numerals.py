"""Whole numbers that people write."""

from __future__ import annotations

__all__ = ["whole"]

_LONGEST = 18  # digits: Python refuses to read thousands of them, and nobody means that many


def whole(text: str) -> int | None:
    """The number, or None if the text is anything else.

    >>> whole("42"), whole("-1"), whole("٤٢"), whole("9" * 5000)
    (42, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST else None
