"""Samples: the numbers of a minute, which a process sends with a renewal, and the series of them that a store keeps.

A store does not read the bytes of a sample.  It keeps one row for each minute and process until one process, the sampler of
a later minute, replaces all rows of a stretch by their sum.  The rules here are those of every store, by the store's clock:

    a sample is stored         until 150 s after its minute began: a minute is then closed, and its rows stay as they are
    a minute is merged         from 180 s to an hour after it began
    ten minutes are merged     from two hours after they ended, until they are removed
    rows are removed           seven days after they began, with the next row of a sampler

So a row that is merged can no longer change, and a merge that comes late, or twice, finds its own result or is ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from onward.base.clock import SECOND, time_left, until
from onward.contract.values import Renewal
from onward.errors import OptionError

__all__ = ["SAMPLER", "Sample", "SeriesRow"]

SAMPLER = "*"  # the reporter of what belongs to no process: the row of a minute's sampler, and merged rows
MINUTE = 60 * SECOND
TEN_MINUTES = 10 * MINUTE
LARGEST_SAMPLE = 1024 * 1024  # bytes
LONGEST_REPORTER = 64  # characters
SAMPLE_SECONDS = 2.0  # the longest that a renewal waits for its sample

_OPEN = 150 * SECOND  # since a minute began: samples of it are stored
_CLOSED = 180 * SECOND  # since a minute began: it can be merged
_MINUTES_STAY = 60 * MINUTE  # since a minute began: after that it is merged with nine others, or not at all
_TEN_MINUTES_AFTER = 120 * MINUTE  # since ten minutes ended: they can be merged
_KEPT = 7 * 24 * 60 * MINUTE

Stretch = tuple[int, int, bytes]  # when it begins, its width, the sum of its rows


class Sample(msgspec.Struct, frozen=True):
    """The numbers of one minute, so far, from one process; with stretches that are merged besides."""

    reporter: str
    minute: int  # when the minute began, by the store's clock as far as the process knows it
    data: bytes
    merged: tuple[Stretch, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < len(self.reporter) <= LONGEST_REPORTER:
            raise OptionError(f"a reporter has 1 to {LONGEST_REPORTER} characters, not {len(self.reporter)}")
        if self.minute % MINUTE:
            raise OptionError(f"a sample is of a whole minute, and {self.minute} is inside of one: round it down")
        largest = max(map(len, (self.data, *(data for _, _, data in self.merged))))
        if largest > LARGEST_SAMPLE:
            raise OptionError(
                f"a sample has at most {LARGEST_SAMPLE:,} bytes, not {largest:,}: put fewer series into it"
            )


class SeriesRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the series: what one process has sent of a minute, or the sum of a stretch (`SAMPLER`)."""

    at: int
    width: int  # 0: as it was sent; else the length of the stretch whose rows it replaced
    reporter: str
    data: bytes


def open_between(minute: int) -> tuple[int, int]:
    """Return from when until before when samples of a minute are stored.  From a minute before: clocks go apart."""
    return minute - MINUTE, minute + _OPEN


def merged_between(start: int, width: int) -> tuple[int, int]:
    """Return from when until before when the rows of a stretch can be replaced by their sum; never: an empty span."""
    if width == MINUTE and start % MINUTE == 0:
        return start + _CLOSED, start + _MINUTES_STAY
    if width == TEN_MINUTES and start % TEN_MINUTES == 0:
        return start + width + _TEN_MINUTES_AFTER, start + _KEPT
    return 0, 0


def is_within(now: int, span: tuple[int, int]) -> bool:
    return span[0] <= now < span[1]


def with_sample(renewal: Renewal, keep: Callable[[], tuple[int, bool]]) -> Renewal:
    """Return the answer to a renewal that brought a sample.  ``keep`` stores it; what it raises changes nothing else."""
    try:
        with until(time.monotonic() + time_left(SAMPLE_SECONDS)):
            now, is_sampler = keep()
    except Exception as error:  # noqa: BLE001  the session is renewed, whatever is wrong with a sample
        return msgspec.structs.replace(renewal, refused=str(error) or type(error).__name__)
    return msgspec.structs.replace(renewal, now=now, sampler=is_sampler)


def kept_since(now: int) -> int:
    """Return the instant before which no row is kept."""
    return now - _KEPT
