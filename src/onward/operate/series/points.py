"""Series as people read them: points of time with rates, percentiles and depths, and when a new build began to run.

Times without rows are left out: no worker ran then, which is not the same as a worker that had nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import msgspec

from onward.backend import Inspection, Look, SeriesRow
from onward.base import names
from onward.base.clock import SECOND, from_micros
from onward.base.durations import Duration, seconds
from onward.contract.samples import MINUTE, TEN_MINUTES, kept_since
from onward.errors import OptionError
from onward.operate.series.measured import MOST_SERIES, Measured, merged
from onward.telemetry.numbers import NOTHING, Numbers

__all__ = ["BuildChange", "Series", "SeriesPoint", "SeriesReader", "TimedMeasures", "ended_in", "numbers_of"]

_ENDS = (
    *("jobs_succeeded", "jobs_skipped_idempotent", "jobs_cancelled", "jobs_failed_permanently"),
    *(
        "jobs_rejected_signature",
        "jobs_unreadable",
        "jobs_undecryptable",
        "jobs_refused",
        "jobs_unknown",
        "jobs_misfit",
    ),
)
_FULL_MINUTES = 5
_FEWEST = 20  # jobs from which a rate or a percentile is told
_MOST_ROWS = 100_000


class TimedMeasures(NamedTuple):
    """What was measured in one stretch of time, of all processes together."""

    at: int
    measured: Measured


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a minute, or, two hours later, in ten.  Lengths of time are milliseconds, but for ``seconds``."""

    at: datetime
    seconds: int  # how long workers have run in that time
    ended: int  # jobs that came to their end
    failed: int  # runs that failed, retried ones among them
    per_second: float  # jobs that ended
    run_p50: float | None  # None: nothing ran
    run_p95: float | None
    wait_p50: float | None  # from when a job was due until it was first claimed
    wait_p95: float | None
    depth: int | None  # the most jobs that could run, counted up to 10,000; None: not known
    oldest_age: int | None  # the longest that one of them had been due


class BuildChange(msgspec.Struct, frozen=True, kw_only=True):
    """A build of the application that ran, and had not run in the minute or ten minutes before: it was deployed."""

    at: datetime
    build: str


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The points of a span of time, in their order, and the builds that began in it."""

    points: tuple[SeriesPoint, ...]
    builds: tuple[BuildChange, ...]


class SeriesReader:
    """Reads the series of one store."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def series(
        self, last: Duration, queue: str | None = None, job: str | None = None, queues: Sequence[str] | None = None
    ) -> Series:
        """Return the points of the last time, of all jobs, or of one queue or one job, or of some queues."""
        length = seconds(last, "last")
        if not 60 <= length <= timedelta(days=7).total_seconds():
            raise OptionError(f"series are kept for 7 days: last must be from a minute to 7 days, not {last!r}")
        if queue is not None:
            names.queue_name(queue)
        measures = self.measures(round(length * SECOND))
        if queues is not None:
            measures = [TimedMeasures(each.at, each.measured.of_queues(queues)) for each in measures]
        return Series(
            points=tuple(_point(each, queue, job) for each in measures), builds=tuple(_build_changes(measures))
        )

    def measures(self, length: int, now: int | None = None) -> list[TimedMeasures]:
        """Return what was measured in the microseconds before an instant of the store or now, in minutes that are over."""
        now = self._inspection.look(Look(at_most=1)).now if now is None else now
        first = max(now - length, kept_since(now))
        return added_by_time(self._rows(first - first % TEN_MINUTES, now), since=first, now=now)

    def last_minutes(self, now: int | None = None, minutes: int = _FULL_MINUTES) -> list[TimedMeasures]:
        """Return what was measured in the last full minutes, before an instant of the store or now."""
        now = self._inspection.look(Look(at_most=1)).now if now is None else now
        this = now - now % MINUTE
        first = this - minutes * MINUTE
        return added_by_time(self._rows(first, this), since=first, now=now)

    def _rows(self, first: int, before: int) -> Sequence[SeriesRow]:
        return self._inspection.look(Look(series=(first, before), at_most=_MOST_ROWS)).series


def added_by_time(rows: Iterable[SeriesRow], *, since: int, now: int) -> list[TimedMeasures]:
    """Add up the rows of each stretch that is over: of ten minutes, if one of its rows is that wide, else of a minute."""
    by_ten: dict[int, list[SeriesRow]] = {}
    for row in rows:
        by_ten.setdefault(row.at - row.at % TEN_MINUTES, []).append(row)
    found = []
    for _, inside in sorted(by_ten.items()):
        width = TEN_MINUTES if any(row.width == TEN_MINUTES for row in inside) else MINUTE
        stretches: dict[int, list[tuple[int, Measured]]] = {}
        for row in inside:
            measured = Measured.decoded(row.data)
            if measured is not None:
                stretches.setdefault(row.at - row.at % width, []).append((row.at, measured))
        found += [
            TimedMeasures(at, merged(parts))
            for at, parts in sorted(stretches.items())
            if at + width > since and at + width <= now
        ]
    return found


def numbers_of(measured: Measured, queue: str | None = None, job: str | None = None) -> Numbers:
    """Return what was counted of these jobs."""
    found = NOTHING
    for (of_queue, of_job), numbers in measured.numbers.items():
        if queue in (None, of_queue) and job in (None, of_job):
            found = found.added(numbers)
    return found


def ended_in(numbers: Numbers) -> int:
    """Return how many jobs came to their end."""
    return sum(numbers.counters.get(name, 0) for name in _ENDS)


def ended_per_second(measures: Sequence[TimedMeasures], queue: str) -> float | None:
    """Return how many jobs of a queue ended in each second; None if they are too few to tell."""
    ended = sum(ended_in(numbers_of(each.measured, queue)) for each in measures)
    minutes = sum(each.measured.minutes for each in measures)
    return None if ended < _FEWEST or minutes == 0 else ended / (60 * minutes)


def run_percentile(measures: Sequence[TimedMeasures], job: str, share: float) -> float | None:
    """Return the seconds that this share of the runs of a job took at most; None if they are too few to tell."""
    run = NOTHING.run
    for each in measures:
        run = run.added(numbers_of(each.measured, job=job).run)
    found = run.percentile(share) if run.count >= _FEWEST else None
    return None if found is None else found / 1000


def _point(each: TimedMeasures, queue: str | None, job: str | None) -> SeriesPoint:
    measured = each.measured
    numbers = numbers_of(measured, queue, job)
    depth, age = _level(measured, queue)
    length, ended = 60 * measured.minutes, ended_in(numbers)
    return SeriesPoint(
        at=from_micros(each.at),
        seconds=length,
        ended=ended,
        failed=numbers.counters.get("jobs_failed", 0),
        per_second=ended / length if length else 0.0,
        run_p50=numbers.run.percentile(0.5),
        run_p95=numbers.run.percentile(0.95),
        wait_p50=numbers.wait.percentile(0.5),
        wait_p95=numbers.wait.percentile(0.95),
        depth=depth,
        oldest_age=age,
    )


def _level(measured: Measured, queue: str | None) -> tuple[int | None, int | None]:
    """Return how full a queue was, or all of them together, and the age of the oldest job."""
    levels = measured.queues
    if not measured.looked:
        return None, None
    if queue is None:
        return sum(each.depth for each in levels.values()), max((each.age_ms for each in levels.values()), default=0)
    if queue in levels:
        return levels[queue].depth, levels[queue].age_ms
    return (0, 0) if len(levels) < MOST_SERIES else (None, None)  # it was empty, or one of very many


def _build_changes(measures: Sequence[TimedMeasures]) -> Iterator[BuildChange]:
    for before, each in pairwise(measures):
        for build in each.measured.builds:
            if build not in before.measured.builds:
                yield BuildChange(at=from_micros(each.at), build=build)
