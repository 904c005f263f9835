"""Lengths of time and instants as users write them, turned into seconds or microseconds UTC."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from onward.base.clock import to_micros
from onward.errors import InvalidTime

__all__ = ["Duration", "instant", "seconds", "spoken"]

Duration = float | timedelta | str

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)
LONGEST = 100 * 366 * 86_400.0  # a century: more is a mistake in the unit, and would overflow a store's integer


def seconds(value: Duration, what: str = "duration") -> float:
    """Return a length of time in seconds.

    >>> seconds("1h 30m"), seconds(timedelta(minutes=2)), seconds(1.5)
    (5400.0, 120.0, 1.5)
    """
    if isinstance(value, timedelta):
        length: float = value.total_seconds()
    elif isinstance(value, str):
        length = _parse(value, what)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = value
    else:
        raise InvalidTime(f"{what} must be seconds, a timedelta or a string such as '10m', not {type(value).__name__}")
    if not 0 <= length <= LONGEST:
        raise InvalidTime(f"{what} must lie between 0 seconds and 100 years, not {value!r:.60}")
    return float(length)


def instant(value: datetime, what: str = "time") -> int:
    """Return an aware datetime as microseconds UTC."""
    if not isinstance(value, datetime):
        raise InvalidTime(f"{what} must be an aware datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidTime(
            f"{what} is a naive datetime, which names no time zone: use datetime.now(timezone.utc) or add a tzinfo"
        )
    return to_micros(value)


def spoken(length: float) -> str:
    """Return a length of time in words, in two units at most.

    >>> spoken(0.34), spoken(1.1), spoken(123), spoken(3720)
    ('340 ms', '1.1 s', '2 min 3 s', '1 h 2 min')
    """
    if length < 0.9995:
        return f"{length * 1000:.0f} ms"
    if length < 9.95:
        return f"{length:.1f} s"
    whole = round(length)
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            whole = round(length / part) * part  # or an hour less a second would be 60 minutes
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
        if round(length / part) * part >= size:
            return f"1 {unit}"
    return f"{whole} s"


def _parse(text: str, what: str) -> float:
    stripped = text.strip()
    parts = _PART.findall(stripped)
    if not parts or _PART.sub("", stripped).strip():
        raise InvalidTime(f"{what} {text!r} cannot be read: write it as '90s', '10m', '1h 30m', '2d'")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
