"""Which instants an expression names: cron texts of five or six fields, their aliases, and ``@every 30s``.

    ┌─ second, if there are six fields
    │  ┌─ minute   ┌─ hour   ┌─ day of month: also L, LW
    0  30          9         *         *─ month   mon-fri─ day of week: also 5L (the last Friday), 1#2 (the second Monday)

`cronsim` reads the fields and walks times on the wall, both ways; `onward.flow.zones` makes instants of them.  Texts, steps
and the number of ticks are bounded here, so that no expression can keep a process busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time, tzinfo
from itertools import takewhile
from typing import Protocol

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.errors import InvalidSchedule, InvalidTime
from onward.flow.zones import ascending, descending, start_of_walk, zone_named

__all__ = ["MOST_TICKS", "Timetable", "daily_at", "every", "hourly_at", "normal", "ticks_of", "weekly_on"]

MOST_TICKS = 10_000  # that are ever counted or shown
_LONGEST = 200  # characters: 100,000 would take a tenth of a second to read
# With the longest step that makes a difference.
_FIELDS = (("second", 60), ("minute", 60), ("hour", 24), ("day of month", 31), ("month", 12), ("day of week", 7))
_STEP = re.compile(r"/(\d+)", re.ASCII)
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EVERY = re.compile(r"@every\s+(\S.*)", re.IGNORECASE)
_SHORTEST_PERIOD, _LONGEST_PERIOD = 1.0, 366 * 86_400.0
_DAYS = {day[:3]: day for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")}
_LEAP_DAY = datetime(2000, 1, 1)  # noqa: DTZ001  a time on the wall, to ask whether an expression ever fires


class Timetable(Protocol):
    """The ticks of an expression in its zone, as instants."""

    def after(self, instant: int) -> Iterator[int]:
        """Yield the ticks after an instant, rising; for ever, or until there is none for 50 years."""
        ...

    def before(self, instant: int) -> Iterator[int]:
        """Yield the ticks before an instant, falling, down to 1970."""
        ...

    def count(self, after: int, until: int, at_most: int = MOST_TICKS) -> int:
        """Return how many ticks lie in ``(after, until]``; no more than ``at_most`` are counted."""
        ...


def ticks_of(expression: str, zone: str = "UTC", *, offset: int = 0) -> Timetable:
    """Read an expression, or raise `InvalidSchedule`.  ``offset``: microseconds by which ``@every`` is shifted."""
    text, place = normal(expression), zone_named(zone)
    period = _EVERY.fullmatch(text)
    return Every(_period(period[1]), offset) if period else Cron(text, place)


def normal(expression: str) -> str:
    """Return an expression in the one way it is stored: single blanks, aliases as they are."""
    if not isinstance(expression, str):
        raise InvalidSchedule(f"a cron expression is text such as '0 9 * * mon-fri', not {type(expression).__name__}")
    if len(expression) > _LONGEST:
        raise InvalidSchedule(
            f"the cron expression has {len(expression):,} characters, and the limit is {_LONGEST}: "
            f"write ranges and steps, or several schedules"
        )
    if not expression.isascii() or not expression.replace("\t", " ").isprintable():
        raise InvalidSchedule(f"the cron expression {expression!r:.60} has characters that no field has")
    return " ".join(expression.split())


class Every:
    """Every multiple of a period since 1970, whatever the clocks on the wall do."""

    def __init__(self, period: int, offset: int = 0) -> None:
        self._period = period
        self._offset = offset % period

    def after(self, instant: int) -> Iterator[int]:
        number = (instant - self._offset) // self._period
        while True:
            number += 1
            yield number * self._period + self._offset

    def before(self, instant: int) -> Iterator[int]:
        number = -((self._offset - instant) // self._period)
        while number > 0:
            number -= 1
            yield number * self._period + self._offset

    def count(self, after: int, until: int, at_most: int = MOST_TICKS) -> int:
        first, last = ((each - self._offset) // self._period for each in (after, until))
        return min(max(0, last - first), at_most)


class Cron:
    """A cron expression on the clock of a zone."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        self._text = _checked(_ALIASES.get(text.lower(), text), text)
        self._zone = zone
        minute, hour = self._text.split()[-5:-3]
        # As Debian's cron decides it.  Six fields are no cron of Debian's; a time of day is fixed there, too.
        self._fixed = not (minute.startswith("*") or hour.startswith("*"))
        if next(_walk(self._text, _LEAP_DAY), None) is None:
            raise InvalidSchedule(f"{text!r} never fires: no date of 50 years fits its fields")

    def after(self, instant: int) -> Iterator[int]:
        walls = _walk(self._text, start_of_walk(instant, self._zone, backwards=False))
        return (tick for tick in ascending(walls, self._zone, fixed=self._fixed) if tick > instant)

    def before(self, instant: int) -> Iterator[int]:
        walls = _walk(self._text, start_of_walk(instant, self._zone, backwards=True), reverse=True)
        ticks = (tick for tick in descending(walls, self._zone, fixed=self._fixed) if tick < instant)
        return takewhile(lambda tick: tick >= 0, ticks)  # years before the first cannot be walked

    def count(self, after: int, until: int, at_most: int = MOST_TICKS) -> int:
        ticks = takewhile(lambda tick: tick > after, self.before(until + 1))
        return sum(1 for _, _ in zip(range(at_most), ticks, strict=False))


def _walk(text: str, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    from cronsim import CronSim  # where it is needed first: `import onward` brings nothing along

    with suppress(OverflowError):  # after the year 9999 there is none
        yield from CronSim(text, start, reverse=reverse)


def _checked(text: str, said: str) -> str:
    from cronsim import CronSim, CronSimError

    if text.startswith("@"):
        known = ", ".join((*_ALIASES, "@every 30s"))
        raise InvalidSchedule(f"there is no alias {said!r:.60}: use one of {known}, or five fields")
    fields = text.split()
    if len(fields) not in (5, 6):
        raise InvalidSchedule(
            f"the cron expression {said!r:.60} has {len(fields)} fields: write minute, hour, day of month, month and day of "
            f"week, such as '0 9 * * mon-fri' (six fields: seconds first)"
        )
    for (name, longest), field in zip(_FIELDS[-len(fields) :], fields, strict=True):
        for step in _STEP.findall(field):
            if not 0 < int(step) <= longest:
                raise InvalidSchedule(f"{said!r:.60}: the step {step:.20} of its {name} must be 1 to {longest}")
    try:
        CronSim(text, _LEAP_DAY)
    except (CronSimError, ValueError, AssertionError) as error:
        raise InvalidSchedule(f"the cron expression {said!r:.60} cannot be read: {_problem(error)}") from None
    return text


def _problem(error: Exception) -> str:
    """Say what is wrong with a field, and what may stand there."""
    problem = str(error)
    for name, first, last in (("second", 0, 59), ("minute", 0, 59), ("hour", 0, 23)):
        if problem == f"Bad {name}":
            return f"its {name} must be * or numbers from {first} to {last}, as in 5, 1-5, */10 or 0,30"
    return {
        "Bad day-of-month": "its day of month must be * or 1 to 31 and in one of its months; L is the last day, LW the last "
        "working day",
        "Bad month": "its month must be * or 1 to 12 or jan to dec",
        "Bad day-of-week": "its day of week must be * or 0 to 7 or sun to sat; 5L is the last Friday, "
        "mon#2 the second Monday",
    }.get(problem, problem or "its fields contradict each other")


def _period(text: str) -> int:
    try:
        period = seconds(text, "@every")
    except InvalidTime:
        period = 0.0
    if not _SHORTEST_PERIOD <= period <= _LONGEST_PERIOD:
        raise InvalidSchedule(
            f"'@every {text:.40}': write a period of 1s to 366d, such as '@every 30s' or '@every 1h 30m'"
        )
    return round(period * SECOND)


# Expressions in words


def every(period: Duration) -> str:
    """Return the expression for every multiple of a period since 1970, at least a second long.

    >>> every("30s"), every(5400)
    ('@every 30s', '@every 5400s')
    """
    try:
        length = seconds(period, "every")
    except InvalidTime as error:
        raise InvalidSchedule(str(error)) from None
    text = f"@every {length:.6f}".rstrip("0").rstrip(".") + "s"
    ticks_of(text)
    return text


def hourly_at(minute: int) -> str:
    """Return the expression for a minute of every hour.

    >>> hourly_at(15)
    '15 * * * *'
    """
    if isinstance(minute, bool) or not isinstance(minute, int) or not 0 <= minute <= 59:
        raise InvalidSchedule(f"hourly_at takes a minute from 0 to 59, not {minute!r:.60}")
    return f"{minute} * * * *"


def daily_at(clock: str | time) -> str:
    """Return the expression for a time of every day.

    >>> daily_at("02:30")
    '30 2 * * *'
    """
    at = _time_of_day(clock, "daily_at")
    return f"{at.minute} {at.hour} * * *"


def weekly_on(day: str, clock: str | time = "00:00") -> str:
    """Return the expression for a time on a day of every week.

    >>> weekly_on("monday", "09:00")
    '0 9 * * mon'
    """
    said = day.strip().lower() if isinstance(day, str) else ""
    short = next((short for short, whole in _DAYS.items() if said in (short, whole)), None)
    if short is None:
        raise InvalidSchedule(f"weekly_on takes a day such as 'monday' or 'mon', not {day!r:.60}")
    at = _time_of_day(clock, "weekly_on")
    return f"{at.minute} {at.hour} * * {short}"


def _time_of_day(clock: str | time, what: str) -> time:
    with suppress(TypeError, ValueError):
        at = clock if isinstance(clock, time) else time.fromisoformat(clock)
        if (at.second, at.microsecond, at.tzinfo) == (0, 0, None):
            return at
    raise InvalidSchedule(
        f"{what} takes a time of day such as '09:30', to the minute and without a zone, not {clock!r:.60}"
    )
