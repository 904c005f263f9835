"""`crontab`, `schedule` and the entries of `beat_schedule`, as cron expressions and calls.

Celery runs a `crontab` when all fields fit; cron, and so Onward, when the day of the month or the day of the week does.
Where both are restricted no expression says the same, and it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from onward.base.names import suggestion
from onward.compat.celery.refusing import refusing
from onward.errors import InvalidSchedule, OptionError
from onward.flow.cron import every, normal, ticks_of

__all__ = ["BeatEntry", "Crontab", "beat_entries", "crontab", "schedule", "solar"]

__getattr__ = refusing(
    "schedules",
    {
        "maybe_schedule": "give beat_schedule seconds, a timedelta or a crontab",
        "crontab_parser": "crontab(…) reads its fields",
        "ParseException": "catch onward.InvalidSchedule",
    },
)

_ENTRY = ("task", "schedule", "args", "kwargs", "options")
_DAY = re.compile(r"(?i)\b(mon|tue|wed|thu|fri|sat|sun)[a-z]+\b")


@dataclass(frozen=True, slots=True)
class Crontab:
    """The fields of a `crontab`, as text."""

    expression: str

    def __str__(self) -> str:
        return self.expression


def crontab(
    minute: Any = "*",
    hour: Any = "*",
    day_of_week: Any = "*",
    day_of_month: Any = "*",
    month_of_year: Any = "*",
    **others: Any,
) -> Crontab:
    """Return what Celery's `crontab` of these fields says.

    >>> str(crontab(minute=30, hour="7,19", day_of_week="monday-friday"))
    '30 7,19 * * mon-fri'
    """
    for option in others:
        raise OptionError(f"crontab takes no {option!r} here: the zone is app.conf.timezone")
    fields = [_field(each) for each in (minute, hour, day_of_month, month_of_year, day_of_week)]
    if fields[2] != "*" and fields[4] != "*":
        raise InvalidSchedule(
            f"crontab(day_of_month={fields[2]!r}, day_of_week={fields[4]!r}): Celery runs it when both fit, and cron when "
            f"either does: restrict one of them, and check the other in the task"
        )
    expression = normal(" ".join(fields))
    ticks_of(expression)
    return Crontab(expression)


def schedule(run_every: float | timedelta) -> str:
    """Return the expression for a period: multiples since 1970, and not since the start of a process.

    >>> schedule(30)
    '@every 30s'
    """
    return every(run_every)


def solar(*_: Any, **__: Any) -> Any:
    """Refused: there is no expression for the sun."""
    raise OptionError("solar has no meaning here: make a job that enqueues the next with using(at=…)")


def _field(given: Any) -> str:
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, str):
        return _DAY.sub(lambda day: day[1].lower(), given.replace(" ", ""))
    if isinstance(given, Iterable):
        return ",".join(sorted((_field(each) for each in given), key=lambda each: (len(each), each)))
    raise InvalidSchedule(f"a field of crontab is a number, text or a set of numbers, not {given!r:.60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatEntry:
    """One entry of `beat_schedule`, read."""

    name: str
    task: str
    expression: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def beat_entries(given: Any) -> list[BeatEntry]:
    """Read `beat_schedule`, also that of an application of Celery's own; raise for what has no meaning here."""
    if not isinstance(given, Mapping):
        raise InvalidSchedule(f"beat_schedule is a table of entries by name, not {given!r:.60}")
    return [_entry(str(name), entry) for name, entry in given.items()]


def _entry(name: str, entry: Any) -> BeatEntry:
    if not isinstance(entry, Mapping):
        raise InvalidSchedule(f"beat_schedule[{name!r}] is a table with 'task' and 'schedule', not {entry!r:.60}")
    for key in entry:
        if key not in _ENTRY:
            raise InvalidSchedule(f"beat_schedule[{name!r}] has no {key!r}{suggestion(str(key), _ENTRY)}")
    for key in ("task", "schedule"):
        if key not in entry:
            raise InvalidSchedule(f"beat_schedule[{name!r}] has no {key!r}: every entry names a task and a schedule")
    return BeatEntry(
        name=name,
        task=str(entry["task"]),
        expression=_expression(name, entry["schedule"]),
        args=tuple(entry.get("args") or ()),
        kwargs=dict(entry.get("kwargs") or {}),
        options=dict(entry.get("options") or {}),
    )


def _expression(name: str, given: Any) -> str:
    if isinstance(given, Crontab):
        return given.expression
    if isinstance(given, str):
        return normal(given)
    if isinstance(given, int | float | timedelta) and not isinstance(given, bool):
        return every(given)
    fields = [f"_orig_{each}" for each in ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")]
    if all(hasattr(given, each) for each in fields):  # Celery's own crontab
        return crontab(*(getattr(given, each) for each in fields)).expression
    if hasattr(given, "run_every"):  # Celery's own schedule
        return every(given.run_every)
    raise InvalidSchedule(
        f"beat_schedule[{name!r}]: {type(given).__name__} is no schedule that can be read here: use crontab, a timedelta or "
        f"seconds"
    )
