"""Times for people: how long ago, how long from now."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["ago", "length", "stamp"]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def ago(when: datetime, now: datetime | None = None) -> str:
    """Return how long ago an instant was, or how far in the future it is.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> ago(noon, noon.replace(minute=3)), ago(noon.replace(hour=17), noon), ago(noon, noon)
    ('3 m ago', 'in 5 h', 'now')
    """
    passed = ((now or datetime.now(UTC)) - when).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{length(passed)} ago" if passed > 0 else f"in {length(-passed)}"


def length(seconds: float) -> str:
    """Return a length of time in one unit.

    >>> length(59.9), length(5_400), length(48 * 3_600), length(0.012)
    ('59 s', '90 m', '48 h', '12 ms')
    """
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    # Two of the larger unit before it is used: "90 m" says more than "1 h".
    for size, unit in _UNITS:
        if seconds > 2 * size or size == 1:
            return f"{int(seconds // size)} {unit}"
    raise AssertionError


def stamp(when: datetime) -> str:
    """Return an instant to the second, in UTC.

    >>> stamp(datetime(2030, 1, 1, 12, tzinfo=UTC))
    '2030-01-01 12:00:00Z'
    """
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
