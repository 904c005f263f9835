"""How deep and how wide a payload may be: a larger one is of no use to a handler, and slow to inspect.

`max_payload` bounds its size, and Python itself how many digits a number may have.
"""

from __future__ import annotations

from typing import Any

import msgspec

from onward.errors import ArgumentError

__all__ = ["DEEPEST", "WIDEST", "misshapen", "refuse_misshapen"]

DEEPEST = 64  # levels of lists and objects
WIDEST = 10_000  # names in all objects together


def refuse_misshapen(payload: bytes, job: str) -> None:
    if problem := misshapen(payload):
        raise ArgumentError(f"{job}: the payload cannot travel: {problem}")


def misshapen(payload: bytes) -> str | None:
    """Return what is wrong with the shape of a payload.

    >>> misshapen(b'{"a": [1, 2]}')
    >>> misshapen(b"[" * 65 + b"]" * 65)
    'it is nested too deeply, more than 64 levels: pass the data flat, or store it elsewhere and pass a reference'
    """
    # Nearly always counting is enough: there cannot be more levels than brackets, nor more names than colons.
    if payload.count(b"[") + payload.count(b"{") <= DEEPEST and payload.count(b":") <= WIDEST:
        return None
    names, level, depth = 0, [msgspec.json.decode(payload)], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if depth > DEEPEST:
            return f"it is nested too deeply, more than {DEEPEST} levels: pass the data flat, or {_ELSEWHERE}"
        names += sum(len(each) for each in level if isinstance(each, dict))
        if names > WIDEST:
            return f"its objects have more than {WIDEST:,} names: pass a list, or {_ELSEWHERE}"
        level = [part for each in level for part in _parts(each)]
    return None


_ELSEWHERE = "store it elsewhere and pass a reference"


def _parts(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
