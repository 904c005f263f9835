"""What a schedule is, and which of its ticks to book.  Pure: the store's clock comes in as a number.

    (booked_until, now + 60 s]      the ticks that are booked ahead, each a scheduled job
    more than 60 s past             late: as many are booked as ``catch_up`` says, newest first; the rest is missed

A tick is booked once because the row's version is compared where it is written, not because of anything here.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any, NamedTuple

import msgspec

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.base.ids import occurrence_id
from onward.base.lazy import hashlib
from onward.base.names import suggestion
from onward.errors import InvalidSchedule, InvalidTime
from onward.flow.cron import Timetable, normal, ticks_of
from onward.job.envelope import CatchUp, Letter, Occurrence, Overlap

__all__ = [
    "Booking",
    "Pace",
    "Specification",
    "checked_catch_up",
    "checked_overlap",
    "checked_spread",
    "ids_of",
    "newer_ticks",
    "plan",
    "schedule_name",
    "spread_of",
    "ticks_booked",
    "timetable_of",
]

_CLOCK_WENT_BACK = 3600 * SECOND  # beyond this, booking starts over
_MOST_CAUGHT_UP = 1000
_MOST_TAKEN_BACK = 500
_OVERLAPS: tuple[Overlap, ...] = ("allow", "queue", "skip", "cancel")
_LATE_RUNS = {"skip": 0, "once": 1}
_LONGEST_NAME = 200
_LONGEST_SPREAD = 86_400.0


class Specification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a schedule says, as it is sealed: when, how, and the letter that every occurrence is a copy of."""

    name: str
    namespace: str
    expression: str
    zone: str = "UTC"
    catch_up: CatchUp = "once"
    overlap: Overlap = "queue"
    spread: float | bool = 0.0  # seconds; True: the ticks themselves are shifted, by less than their period
    expires_in: float | None = None
    letter: Letter
    flow: str | None = None  # the name of the flow that the letter's job starts

    @property
    def offset(self) -> int:
        """Microseconds by which every tick is shifted."""
        if self.spread is not True:
            return 0
        first, second = islice(ticks_of(self.expression, self.zone).after(0), 2)
        return _fraction_of(second - first, self.name)

    def occurrence(self, tick: int) -> Occurrence:
        return Occurrence(
            name=self.name,
            tick=tick,
            expression=self.expression,
            zone=self.zone,
            offset=self.offset,
            catch_up=self.catch_up,
            overlap=self.overlap,
            flow=self.flow,
        )

    def due(self, tick: int) -> int:
        """Return when the job of a tick is due: within its spread, the same on every machine."""
        return tick + spread_of(self.name, tick, self.spread)


def spread_of(name: str, tick: int, spread: float | bool) -> int:
    """Return by how many microseconds the job of a tick is due later than its tick."""
    return 0 if spread is True else _fraction_of(round(spread * SECOND), name, str(tick))


def _fraction_of(length: int, *parts: str) -> int:
    """Return a number in ``[0, length)`` that depends on these texts alone, and is spread evenly."""
    digest = hashlib.sha256("\0".join(("onward/1 spread", *parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") * length >> 64


def timetable_of(what: Specification | Occurrence) -> Timetable:
    return ticks_of(what.expression, what.zone, offset=what.offset)


# What users say


def schedule_name(name: str) -> str:
    """Check the name of a schedule: printable text that fits every store's index."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidSchedule(
            f"the name of a schedule is printable text of 1 to {_LONGEST_NAME} characters, not {name!r:.60}"
        )
    return name


def checked_catch_up(value: Any) -> CatchUp:
    if value == "skip":
        return "skip"
    if value == "once":
        return "once"
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_CAUGHT_UP:
        return value
    raise InvalidSchedule(
        f"catch_up must be 'skip', 'once' or how many late ticks run, 1 to {_MOST_CAUGHT_UP:,}, not {value!r:.60}"
    )


def checked_overlap(value: Any) -> Overlap:
    for overlap in _OVERLAPS:
        if value == overlap:
            return overlap
    hint = suggestion(value, _OVERLAPS) if isinstance(value, str) else f", but one of {', '.join(_OVERLAPS)}"
    raise InvalidSchedule(f"overlap cannot be {value!r:.60}{hint}")


def checked_spread(value: Duration | bool | None, expression: str) -> float | bool:
    """Read a spread.  ``True`` asks for ticks that differ from schedule to schedule, which only ``@every`` can have."""
    if value is None or value is False:
        return 0.0
    if value is True:
        if not normal(expression).lower().startswith("@every"):
            raise InvalidSchedule(
                f"spread=True shifts the ticks of '@every …'; for {expression!r:.60} say how long: spread='5m'"
            )
        return True
    try:
        length = seconds(value, "spread")
    except InvalidTime as error:
        raise InvalidSchedule(str(error)) from None
    if length > _LONGEST_SPREAD:
        raise InvalidSchedule(f"spread must be at most a day, not {value!r:.60}")
    return length


# Booking


class Pace(NamedTuple):
    """How far ahead ticks are booked, in microseconds."""

    ahead: int = 60 * SECOND
    enough: int = 45 * SECOND  # what is booked as far as this is not written again
    late: int = 60 * SECOND  # a tick that is booked so long after its time is late


class Booking(NamedTuple):
    """What to write: the jobs of these ticks, and how far that is."""

    ticks: list[int]  # rising
    until: int
    missed: int  # late ticks that no job is booked for
    started_over: bool  # the clock had gone back too far to wait for it


_PACE = Pace()


def plan(ticks: Timetable, catch_up: CatchUp, *, booked_until: int, now: int, pace: Pace = _PACE) -> Booking | None:
    """Return what to book now; None if there is nothing to write."""
    started_over = booked_until > now + pace.ahead + _CLOCK_WENT_BACK
    if started_over:
        booked_until = now
    elif booked_until >= now + pace.enough:
        return None
    late_until, until = now - pace.late, now + pace.ahead
    late: list[int] = []
    missed = 0
    if booked_until < late_until:
        wanted = _LATE_RUNS[catch_up] if isinstance(catch_up, str) else catch_up
        late = list(islice(takewhile(lambda tick: tick > booked_until, ticks.before(late_until + 1)), wanted))
        missed = max(0, ticks.count(booked_until, late_until) - len(late))
    in_time = takewhile(lambda tick: tick <= until, ticks.after(max(booked_until, late_until)))
    booked = [*reversed(late), *in_time]
    return Booking(booked, until, missed, started_over) if booked or missed or started_over else None


def ticks_booked(ticks: Timetable, *, booked_until: int, after: int | None = None) -> list[int]:
    """Return the newest ticks that may be booked and not begun, those after an instant if one is given."""
    newest = islice(ticks.before(booked_until + 1), _MOST_TAKEN_BACK)
    return list(newest if after is None else takewhile(lambda tick: tick > after, newest))


def newer_ticks(occurrence: Occurrence, now: int) -> list[int]:
    """Return the ticks of its schedule that are due and newer than an occurrence, the newest first."""
    newest = islice(timetable_of(occurrence).before(now + 1), _MOST_TAKEN_BACK)
    return list(takewhile(lambda tick: tick > occurrence.tick, newest))


def ids_of(namespace: str, name: str, ticks: list[int]) -> list[str]:
    return [occurrence_id(namespace, name, tick) for tick in ticks]
