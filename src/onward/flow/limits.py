"""How many jobs may run, and how many may start in a while: what users write, and the numbers that a store keeps.

Limit(running=5)                            at most five at once, in the whole fleet
Limit(rate="100/min", burst=20)             at most a hundred starts a minute, twenty of them at once
Limit(running=2, by="tenant")               two at once of each tenant
Limit(rate="1000/h", cost="pages")          a start takes as many tokens as the job has pages
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Never

import msgspec

from onward.base.clock import SECOND
from onward.base.names import suggestion
from onward.errors import InvalidLimit

__all__ = ["LARGEST_COST", "Bounds", "Kind", "Limit", "Rate", "limits_of", "merged", "rate_of"]

Kind = Literal["queue", "job", "key"]  # what a limit counts: the latter for each key of a job

LARGEST_COST = 1_000_000  # tokens of one start
_MOST_RUNNING = 1_000_000
_MOST_TOKENS = 1_000_000
_FASTEST = 10_000  # starts a second: beyond that a microsecond of rounding would be more than a percent
_PERIODS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_RATE = re.compile(r"(\d{1,9})\s*/\s*([a-z]+)", re.ASCII)
_PLACE = re.compile(r"(meta\.)?[^\W\d]\w*(\.\w+)*")


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """``tokens`` starts in ``period`` microseconds, ``burst`` of them at once."""

    tokens: int
    period: int
    burst: int

    @property
    def interval(self) -> int:
        """Microseconds from one token to the next: whole ones, so that sums are exact; never too short."""
        return -(-self.period // self.tokens)

    def __str__(self) -> str:
        unit = next((unit for unit in ("s", "min", "h", "d") if _PERIODS[unit] * SECOND == self.period), None)
        pace = f"{self.tokens}/{unit}" if unit else f"{self.tokens} in {self.period / SECOND:g} s"
        return pace if self.burst == self.tokens else f"{pace}, {self.burst} at once"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a limit, as a store keeps them.  None: there is no such bound."""

    running: int | None = None
    rate: Rate | None = None

    def __bool__(self) -> bool:
        return self.running is not None or self.rate is not None


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """How many jobs may run at once, or start in a while; of all calls of a job, or ``by`` the value of one parameter.

    >>> Limit(running=2, rate="100/min", by="tenant").bounds
    Bounds(running=2, rate=Rate(tokens=100, period=60000000, burst=100))
    """

    running: int | None = None
    """At most so many at once."""
    rate: str | None = None
    """At most so many starts in a second, minute, hour or day: `"100/min"`."""
    burst: int | None = None
    """How many starts there may be at once, after a while without one; as many as the rate's number by default."""
    by: str | None = None
    """The parameter, or `"meta.<key>"`, whose values have this limit each."""
    cost: str | None = None
    """The parameter, or `"meta.<key>"`, that says how many tokens of the rate a start takes; else it takes one."""

    def __init__(
        self,
        *given: Never,
        running: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
        cost: str | None = None,
        **unknown: Never,
    ) -> None:
        _refuse_unnamed(given, unknown)
        said = {"running": running, "rate": rate, "burst": burst, "by": by, "cost": cost}
        for name, value in said.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.running is None and self.rate is None:
            raise InvalidLimit(
                "a Limit needs running=…, how many at once, or rate='100/min', how many starts in a while"
            )
        if self.running is not None:
            _whole(self.running, _MOST_RUNNING, "running")
        if self.rate is not None:
            rate_of(self.rate, self.burst)
        elif self.burst is not None or self.cost is not None:
            what = "burst" if self.burst is not None else "cost"
            raise InvalidLimit(
                f"{what} belongs to a rate, and this Limit has none: add rate='100/min', or leave it out"
            )
        for what, place in (("by", self.by), ("cost", self.cost)):
            if place is not None and (not isinstance(place, str) or not _PLACE.fullmatch(place)):
                raise InvalidLimit(f"{what} names a parameter of the job or 'meta.<key>', not {place!r:.60}")

    @property
    def bounds(self) -> Bounds:
        """The numbers, without what they are counted by."""
        return Bounds(running=self.running, rate=None if self.rate is None else rate_of(self.rate, self.burst))


def _refuse_unnamed(given: tuple[object, ...], unknown: Mapping[str, object]) -> None:
    """Raise for numbers without a name, and for names that a limit does not have."""
    for value in given:
        raise InvalidLimit(
            f"a Limit says what it bounds by name: Limit(running={value!r:.40}) or Limit(rate='100/min')"
        )
    for name in unknown:
        known = ("running", "rate", "burst", "by", "cost")
        raise InvalidLimit(f"a Limit has no {name!r:.60}{suggestion(name, known)}")


def rate_of(text: str, burst: int | None = None) -> Rate:
    """Read a rate, or raise `InvalidLimit`.

    >>> rate_of("50/s"), str(rate_of("1000/h", 10))
    (Rate(tokens=50, period=1000000, burst=50), '1000/h, 10 at once')
    """
    found = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in _PERIODS:
        raise InvalidLimit(f"the rate {text!r:.60} cannot be read: write it as '10/s', '100/min', '1000/h' or '5/day'")
    tokens, period = int(found[1]), _PERIODS[found[2]] * SECOND
    if not 1 <= tokens <= _MOST_TOKENS or tokens * SECOND > _FASTEST * period:
        raise InvalidLimit(
            f"the rate {text!r} must be from 1 to {_MOST_TOKENS:,} starts, and at most {_FASTEST:,} a second"
        )
    return Rate(tokens=tokens, period=period, burst=tokens if burst is None else _whole(burst, _MOST_TOKENS, "burst"))


def limits_of(given: Any, job: str) -> tuple[Limit, ...]:
    """Return what ``limit=`` was given as a tuple; at most one limit for all calls, and one ``by``."""
    limits = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    for limit in limits:
        if not isinstance(limit, Limit):
            raise InvalidLimit(
                f"{job}: limit takes Limit(running=…) or Limit(rate=…), or a tuple of them, not {limit!r:.60}"
            )
    for what, chosen in (("without by", [x for x in limits if x.by is None]), ("with by", [x for x in limits if x.by])):
        if len(chosen) > 1:
            raise InvalidLimit(
                f"{job}: it has {len(chosen)} limits {what}: say running and rate in one, Limit(running=…, rate=…)"
            )
    costs = {limit.cost for limit in limits if limit.cost is not None}
    if len(costs) > 1:
        raise InvalidLimit(f"{job}: its limits name two costs, {' and '.join(sorted(costs))}: a job has one")
    return limits


def merged(declared: Bounds | None, chosen: Bounds | None) -> Bounds:
    """Return the bounds that count: each as it was chosen at run time, else as the code declares it.

    >>> merged(Bounds(running=5), Bounds(rate=rate_of("1/s"))).running
    5
    """
    code, people = declared or Bounds(), chosen or Bounds()
    return Bounds(
        running=code.running if people.running is None else people.running,
        rate=code.rate if people.rate is None else people.rate,
    )


def _whole(value: Any, most: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidLimit(f"{what} must be a whole number from 1 to {most:,}, not {value!r:.60}")
    return value
