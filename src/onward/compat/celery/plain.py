"""Plain data: what arguments and results of tasks are made of, here and with Celery's JSON."""

from __future__ import annotations

import math
from typing import Any

from onward.errors import ArgumentError

__all__ = ["plain"]

_AS_THEY_ARE = (bool, int, str, type(None))


def plain(value: Any, what: str) -> Any:
    """Return a copy of plain data, tuples as lists, as they arrive with Celery; raise `ArgumentError` for anything else.

    >>> plain({"sizes": (1, 2)}, "shop.resize")
    {'sizes': [1, 2]}
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ArgumentError(f"{what}: {value!r} has no JSON form: pass a finite number or None")
    if isinstance(value, list | tuple):
        return [plain(each, what) for each in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ArgumentError(f"{what}: the key {key!r:.60} of a dict is no text, and would come back as text")
        return {key: plain(each, what) for key, each in value.items()}
    if isinstance(value, str | int):  # members of an enum, which Celery's JSON makes plain as well
        return value.value if hasattr(value, "value") else value
    kind = type(value).__name__
    raise ArgumentError(f"{what}: {kind} is no plain data: {_INSTEAD.get(kind, 'pass what it is found by, its id')}")


_INSTEAD = {
    "datetime": "pass value.isoformat(), and read it with datetime.fromisoformat",
    "date": "pass value.isoformat(), and read it with date.fromisoformat",
    "timedelta": "pass value.total_seconds()",
    "UUID": "pass str(value), and read it with UUID(...)",
    "Decimal": "pass str(value), and read it with Decimal(...)",
    "bytes": "keep the data elsewhere and pass a reference, or pass base64 text",
    "set": "pass a list, sorted(value)",
    "frozenset": "pass a list, sorted(value)",
    "generator": "pass list(value)",
}
