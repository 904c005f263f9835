"""From times on the wall to instants: what a change of clocks leaves out, and what it shows twice.

*Fixed* times are those of an expression whose minutes and hours do not begin with ``*``.  In the gap of spring a fixed time
fires once, at the first instant after the gap; in the fold of autumn once, at its first occurrence.  All other times follow
the clock on the wall: what the gap leaves out is left out, what the fold shows twice fires twice.

Both walks get the times on the wall in order, without a zone, and give instants in order.  That order differs only in a
fold: 02:00 and 02:30 are shown before 02:00 and 02:30 are shown again.  So the occurrences that are out of order wait in a
short list until the walk has passed them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches

from onward.base.clock import SECOND, from_micros, to_micros
from onward.errors import InvalidSchedule

__all__ = ["ascending", "descending", "start_of_walk", "zone_named"]

_FOLD = timedelta(hours=3)  # longer than any change of clocks
_LONGEST_NAME = 100
_NO_PLACES = ("localtime", "posixrules", "Factory", "posix/", "right/")  # files beside the zones: no two machines agree


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name in the IANA database, such as Europe/Berlin."""
    if isinstance(name, str) and name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # where it is needed first: it brings the build's configuration along

    if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and not name.startswith(_NO_PLACES):
        with suppress(ValueError, OSError, KeyError):  # no such zone is a KeyError; a path is one of the others
            return ZoneInfo(name)
    raise _unknown_zone(name)


def _unknown_zone(name: object) -> InvalidSchedule:
    from zoneinfo import available_timezones

    if isinstance(name, str) and len(name) <= _LONGEST_NAME:
        known = available_timezones()
        if not known:
            return InvalidSchedule("this machine has no time zones: pip install tzdata")
        exact = [zone for zone in known if zone.lower() == name.lower() or zone.lower().endswith(f"/{name.lower()}")]
        close = sorted(exact) or get_close_matches(name, known, n=1)
        if close:
            return InvalidSchedule(f"there is no time zone {name!r}: did you mean {close[0]!r}?")
    return InvalidSchedule(f"there is no time zone {name!r:.60}: use a name such as 'Europe/Berlin' or 'UTC'")


def start_of_walk(instant: int, zone: tzinfo, *, backwards: bool) -> datetime:
    """Return the time on the wall at which a walk starts, so that it passes every tick beyond this instant.

    Near a change of clocks that is some hours before: a time on the wall may lie on both sides of the instant.
    """
    here = from_micros(instant).astimezone(zone)
    near = {(here + step).astimezone(UTC).astimezone(zone).utcoffset() for step in (-_FOLD, timedelta(), _FOLD)}
    if len(near) > 1:
        here = here + _FOLD if backwards else here - _FOLD
    return here.replace(tzinfo=None, fold=0)


def ascending(walls: Iterable[datetime], zone: tzinfo, *, fixed: bool) -> Iterator[int]:
    """Turn rising times on the wall into rising instants, each once."""
    again: deque[int] = deque()  # the second occurrences of the times in a fold
    last = None
    for wall in walls:
        first, second = _instants(wall, zone)
        while again and again[0] < first:
            yield again.popleft()
        if first > second:  # in a gap
            first = second = _end_of_gap(wall, zone) if fixed else -1
        if first in (last, -1):
            continue
        yield first
        last = first
        if second > first and not fixed:
            again.append(second)
    yield from again


def descending(walls: Iterable[datetime], zone: tzinfo, *, fixed: bool) -> Iterator[int]:
    """Turn falling times on the wall into falling instants, each once."""
    before: deque[int] = deque()  # the first occurrences of the times in a fold
    last = None
    for wall in walls:
        first, second = _instants(wall, zone)
        if first > second:
            first = second = _end_of_gap(wall, zone) if fixed else -1
        if fixed:
            second = first
        while before and before[0] > second != -1:
            yield before.popleft()
        if second in (last, -1):
            continue
        yield second
        last = second
        if first < second:
            before.append(first)
    yield from before


def _instants(wall: datetime, zone: tzinfo) -> tuple[int, int]:
    """Return both instants of a time on the wall: rising in a fold, falling in a gap, the same outside of them."""
    return to_micros(wall.replace(tzinfo=zone, fold=0)), to_micros(wall.replace(tzinfo=zone, fold=1))


def _end_of_gap(wall: datetime, zone: tzinfo) -> int:
    """Return the first instant after the gap that this time on the wall lies in, to the second."""
    # Read with the offset from after the gap, the time is an instant before it; with the one from before, an instant after.
    late, early = _instants(wall, zone)
    after = from_micros(late).astimezone(zone).utcoffset()
    low, high = early // SECOND, late // SECOND
    while high - low > 1:
        middle = (low + high) // 2
        if from_micros(middle * SECOND).astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return high * SECOND
