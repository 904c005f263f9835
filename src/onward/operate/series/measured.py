"""What was measured in a minute or in a longer stretch, as values, as bytes, and added up.

Numbers of processes and minutes add up exactly.  Of a queue's depth and of the age of its oldest due job a longer stretch
has the largest.  A merged row has at most 64 series and 64 queues: what was counted of all others is in one series,
``("other", "other")``, so the sums stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from onward.backend import Overview
from onward.base.names import serves
from onward.job.states import State
from onward.telemetry.counters import OTHER
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers, Pair, added_up

__all__ = ["MOST_SERIES", "CheckResult", "Measured", "QueueLevel", "levels_of", "merged"]

MOST_SERIES = 64  # of a merged row; as many queues
_MOST_BUILDS = 16
_VERSION = 1


CheckResult = tuple[str, Literal["ok", "warn", "fail"], tuple[str, ...]]  # of a check: name, status, what it is about


class QueueLevel(msgspec.Struct, frozen=True, gc=False):
    """How full a queue was: the jobs that could run, and for how long the oldest of them had been due."""

    depth: int  # counted up to 10,000
    age_ms: int = 0


class _SeriesBytes(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of one job in one queue, as they are stored: counts in the order of the row's names."""

    queue: str
    job: str
    counts: tuple[int, ...]
    run_ms: int
    run: tuple[int, ...]  # without the zeros at its end
    wait_ms: int
    wait: tuple[int, ...]


class _RowBytes(msgspec.Struct, frozen=True, array_like=True):
    """A row as it is stored."""

    version: int
    minutes: int
    looked: bool
    builds: tuple[str, ...]
    names: tuple[str, ...]  # of counters
    series: tuple[_SeriesBytes, ...]
    queues: tuple[tuple[str, int, int], ...]
    checks: tuple[CheckResult, ...] | None = None
    events_dropped: int = 0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured in a stretch of time."""

    minutes: int = 1  # of how many minutes there are numbers
    builds: tuple[str, ...] = ()  # of the processes that have sent some
    numbers: Mapping[Pair, Numbers] = {}
    queues: Mapping[str, QueueLevel] = {}
    looked: bool = False  # whether a process has looked at the queues; one that is not named was empty then
    checks: tuple[CheckResult, ...] | None = None  # the checks that did not pass, the last time; None: none were made
    events_dropped: int = 0  # events that subscribers did not get, because they were too slow

    def of_queues(self, queues: Sequence[str]) -> Measured:
        """Return what was measured of these queues, names and patterns."""
        return msgspec.structs.replace(
            self,
            numbers={pair: each for pair, each in self.numbers.items() if serves(queues, pair[0])},
            queues={name: level for name, level in self.queues.items() if serves(queues, name)},
        )

    def encoded(self) -> bytes:
        names = tuple(sorted({name for each in self.numbers.values() for name in each.counters}))
        series = (
            _SeriesBytes(
                *pair,
                tuple(each.counters.get(name, 0) for name in names),
                each.run.total_ms,
                _without_end(each.run.buckets),
                each.wait.total_ms,
                _without_end(each.wait.buckets),
            )
            for pair, each in sorted(self.numbers.items())
        )
        queues = tuple((name, level.depth, level.age_ms) for name, level in sorted(self.queues.items()))
        row = (_VERSION, self.minutes, self.looked, self.builds, names, tuple(series), queues)
        return _encode(_RowBytes(*row, self.checks, self.events_dropped))

    @classmethod
    def decoded(cls, data: bytes) -> Measured | None:
        """Return what a row holds; None if it cannot be read.  A row without bytes holds nothing."""
        if not data:
            return cls()
        try:
            row = _decode(data)
            return cls._of(row) if row.version == _VERSION else None
        except (msgspec.MsgspecError, ValueError, OverflowError):
            return None

    @classmethod
    def _of(cls, row: _RowBytes) -> Measured:
        if row.minutes < 0:
            raise ValueError("a row is of minutes")
        return cls(
            minutes=row.minutes,
            looked=row.looked,
            builds=row.builds,
            numbers={
                (each.queue, each.job): Numbers(
                    {name: count for name, count in zip(row.names, each.counts, strict=True) if count},
                    Histogram(each.run_ms, _with_end(each.run)),
                    Histogram(each.wait_ms, _with_end(each.wait)),
                )
                for each in row.series
            },
            queues={name: QueueLevel(depth, age_ms) for name, depth, age_ms in row.queues},
            checks=row.checks,
            events_dropped=row.events_dropped,
        )


def levels_of(overview: Overview, now: int) -> dict[str, QueueLevel]:
    """Return how full each queue is now."""
    return {
        queue.name: QueueLevel(
            queue.counts[State.AVAILABLE], 0 if queue.oldest_due is None else max(0, now - queue.oldest_due) // 1000
        )
        for queue in overview.queues
    }


def merged(rows: Iterable[tuple[int, Measured]]) -> Measured:
    """Return the sum of rows, each with the instant at which it began: several rows of one minute are one minute."""
    listed = sorted(rows, key=lambda row: row[0])
    minutes: dict[int, int] = {}
    levels: dict[str, QueueLevel] = {}
    for at, row in listed:
        minutes[at] = max(minutes.get(at, 0), row.minutes)
        for name, level in row.queues.items():
            other = levels.get(name, level)
            levels[name] = QueueLevel(max(level.depth, other.depth), max(level.age_ms, other.age_ms))
    builds = dict.fromkeys(build for _, row in listed for build in row.builds)
    return Measured(
        minutes=sum(minutes.values()),
        looked=any(row.looked for _, row in listed),
        builds=tuple(builds)[-_MOST_BUILDS:],
        numbers=_bounded(added_up(row.numbers for _, row in listed)),
        queues=_fullest(levels),
        checks=next((row.checks for _, row in reversed(listed) if row.checks is not None), None),
        events_dropped=sum(row.events_dropped for _, row in listed),
    )


def _bounded(numbers: Mapping[Pair, Numbers]) -> dict[Pair, Numbers]:
    """Keep the series in which most was counted, and add up the others."""
    named = [pair for pair in numbers if pair != OTHER]
    if len(numbers) <= MOST_SERIES:
        return dict(numbers)
    busiest = set(sorted(named, key=lambda pair: (-_moved(numbers[pair]), pair))[: MOST_SERIES - 1])
    return added_up({pair if pair in busiest else OTHER: each} for pair, each in numbers.items())


def _moved(numbers: Numbers) -> int:
    return sum(numbers.counters.values()) + numbers.run.count + numbers.wait.count


def _fullest(levels: Mapping[str, QueueLevel]) -> dict[str, QueueLevel]:
    fullest = sorted(levels.items(), key=lambda item: (-item[1].age_ms, -item[1].depth, item[0]))
    return dict(fullest[:MOST_SERIES])


def _without_end(buckets: tuple[int, ...]) -> tuple[int, ...]:
    last = max((place for place, count in enumerate(buckets, 1) if count), default=0)
    return buckets[:last]


def _with_end(buckets: tuple[int, ...]) -> tuple[int, ...]:
    if len(buckets) > BUCKETS:
        raise ValueError(f"a histogram has {BUCKETS} buckets, not {len(buckets)}")
    return buckets + (0,) * (BUCKETS - len(buckets))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_RowBytes).decode
