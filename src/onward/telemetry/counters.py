"""The counter table: what one process has counted, in memory that another process can read while it is written.

    series    256 of 1 KiB, each for one job in one queue, in the order of their first counts; the last one for all others
      word 0     the lengths of both names; 0: the series is not in use.  Written after the names
      names      the queue's, the job's
      columns    one word for each counter of `COUNTERS`; the sums of runs and of waits in milliseconds; the buckets of both

A word is stored by one aligned write of 8 bytes, so a reader never sees half of a number, and no reader needs a lock.
The writers of one process take turns (`onward.telemetry.metrics`).  A job costs a few additions: nothing is allocated for it
that stays, and nothing goes to the store.
"""

from __future__ import annotations

import itertools
import mmap
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from onward.telemetry.numbers import BUCKETS, Histogram, Numbers, Pair

__all__ = ["COUNTERS", "OTHER", "SERIES", "SIZE", "UNREAD", "CounterTable"]

COUNTERS: Mapping[str, str] = {
    "jobs_enqueued": "Jobs that the process has stored.",
    "jobs_deduplicated": "Jobs that were not stored: a live job has their key.",
    "jobs_fetched": "Jobs that the worker has claimed.",
    "jobs_succeeded": "Runs after which the job was completed.",
    "jobs_failed": "Runs that failed: retried or dead-lettered.",
    "jobs_requeued": "Runs that failed and are retried.",
    "jobs_failed_permanently": "Runs that failed and are not retried: the job is dead-lettered.",
    "jobs_skipped_idempotent": "Jobs that did not run: their key is done.",
    "jobs_rejected_signature": "Jobs that did not run: their signature is missing or wrong.",
    "jobs_dlq_failed": "Dead letters that the store refused.",
    "jobs_crashed": "Runs that ended with their process.",
    "jobs_parked": "Jobs that this worker cannot run, put back for another one.",
    "jobs_snoozed": "Runs after which the handler asked for a later one; jobs that waited for a key.",
    "jobs_cancelled": "Jobs that were cancelled while a worker had them.",
    "jobs_refused": "Jobs that did not run: the handler is not allowed on their queue.",
    "jobs_unknown": "Jobs that were discarded: no worker knew them for as long as a job may be parked.",
    "jobs_unverified": "Jobs that ran although their signature is missing or wrong: signatures are not required.",
    "jobs_unreadable": "Jobs that did not run: their bytes cannot be read.",
    "jobs_undecryptable": "Jobs that did not run: their arguments cannot be decrypted.",
    "jobs_misfit": "Jobs that were discarded: their arguments do not fit their function.",
    "jobs_overran": "Runs that went on after their time-out and then ended otherwise.",
    "jobs_cancel_ignored": "Runs that were told to stop and ended otherwise.",
    "leases_lost": "Runs whose lease was lost before their end was recorded.",
}
"""The counters, each with what it counts."""

SERIES = 256
OTHER: Pair = ("other", "other")
UNREAD = "?"
"""The name of a job that was counted before it could be read, or that cannot be read."""

_SERIES_SIZE = 1024
SIZE = SERIES * _SERIES_SIZE
_WORD = 8
_NAMES_AT = _WORD
_COLUMNS_AT = 384
_STEP = _SERIES_SIZE // _WORD  # words from one series to the next

_MOST = 2**63
_MANY = 12  # lengths, from which on it is faster to group them first: `Counter` does that in C

_COLUMN = {name: column for column, name in enumerate(COUNTERS)}
_RUN, _WAIT = 30, 31 + BUCKETS  # a sum, then its buckets
_COLUMNS = _WAIT + 1 + BUCKETS
_FETCHED, _SUCCEEDED = _COLUMN["jobs_fetched"], _COLUMN["jobs_succeeded"]


class CounterTable:
    """Written by one process.  Its methods take no lock: those that write are called by one thread at a time."""

    def __init__(self, memory: memoryview) -> None:
        """Begin a table in memory that is all zeros, or read one that another process writes."""
        self._bytes = memory
        self._words = memory.cast("Q")
        self._columns: dict[Pair, int] = {}  # of this process: the first column of each series, as a word
        self._free = itertools.count()  # numbers of series

    @classmethod
    def anonymous(cls) -> CounterTable:
        """Begin a table that no other process sees: after a fork the child has a copy."""
        if sys.platform == "win32":  # where nothing forks, there are no flags
            return cls(memoryview(mmap.mmap(-1, SIZE)))
        return cls(memoryview(mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))

    def release(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._bytes.release()

    # The process writes

    def add(self, name: str, pair: Pair, count: int = 1) -> None:
        self._words[self._at(pair) + _COLUMN[name]] += count

    def add_first_deliveries(self, pair: Pair, waits: Sequence[int]) -> None:
        """Count jobs that were claimed for the first time, by the milliseconds that each had been due."""
        at = self._at(pair)
        self._words[at + _FETCHED] += len(waits)
        self._observe(at + _WAIT, waits)

    def add_successes(self, pair: Pair, runs: Sequence[int]) -> None:
        """Count runs after which their job was completed, by their milliseconds."""
        at = self._at(pair)
        self._words[at + _SUCCEEDED] += len(runs)
        self._observe(at + _RUN, runs)

    def add_runs(self, pair: Pair, runs: Sequence[int]) -> None:
        """Count how long other runs took; `add` counts how they ended."""
        self._observe(self._at(pair) + _RUN, runs)

    def take_over(self, other: CounterTable) -> None:
        """Add what another table of this process has counted."""
        for pair, there in list(other._columns.items()):
            here = self._at(pair)
            for column, count in enumerate(other._words[there : there + _COLUMNS].tolist()):
                if count:
                    self._words[here + column] += count

    def _observe(self, at: int, lengths: Sequence[int]) -> None:
        words = self._words
        total = words[at] + sum(lengths)
        words[at] = total if total < _MOST else _MOST  # noqa: FURB136  the clocks of hosts may say anything
        first, last = at + 1, at + BUCKETS
        if len(lengths) < _MANY:
            for ms in lengths:
                bucket = first + ms.bit_length()
                words[bucket if bucket < last else last] += 1  # noqa: FURB136  `max` takes three times as long
        else:
            for bits, count in Counter(map(int.bit_length, lengths)).items():
                words[min(first + bits, last)] += count

    def _at(self, pair: Pair) -> int:
        """Return the first column of a series."""
        at = self._columns.get(pair)
        return self._begin(pair) if at is None else at

    def _begin(self, pair: Pair) -> int:
        """Begin a series.  Returns its first column, or that of all others."""
        queue, job = (name.encode(errors="replace") for name in pair)
        if pair == OTHER:
            series = SERIES - 1
        # A program that can write to the store can make up any number of names, of any length.
        elif not queue or len(queue) + len(job) > _COLUMNS_AT - _NAMES_AT or (series := next(self._free)) >= SERIES - 1:
            return self._at(OTHER)
        at = (series * _SERIES_SIZE + _COLUMNS_AT) // _WORD
        if self._columns.setdefault(pair, at) != at:  # a signal handler has begun it meanwhile
            return self._columns[pair]
        names = series * _SERIES_SIZE + _NAMES_AT
        self._bytes[names : names + len(queue) + len(job)] = queue + job
        self._words[series * _STEP] = len(queue) << 16 | len(job)
        return at

    # Any process reads

    def numbers(self) -> dict[Pair, Numbers]:
        """Return everything that was counted so far, by queue and job."""
        read: dict[Pair, Numbers] = {}
        for series, lengths in enumerate(self._words[::_STEP].tolist()):
            if lengths:
                start = series * _SERIES_SIZE
                middle, end = (
                    start + _NAMES_AT + (lengths >> 16),
                    start + _NAMES_AT + (lengths >> 16) + (lengths & 0xFFFF),
                )
                pair = (self._text(start + _NAMES_AT, middle), self._text(middle, end))
                at = (start + _COLUMNS_AT) // _WORD
                numbers = _numbers(self._words[at : at + _COLUMNS].tolist())
                read[pair] = read[pair].added(numbers) if pair in read else numbers
        return read

    def _text(self, start: int, end: int) -> str:
        return self._bytes[start:end].tobytes().decode(errors="replace")


def _numbers(columns: Sequence[int]) -> Numbers:
    counters = {name: columns[column] for name, column in _COLUMN.items() if columns[column]}
    return Numbers(counters, _histogram(columns, _RUN), _histogram(columns, _WAIT))


def _histogram(columns: Sequence[int], at: int) -> Histogram:
    return Histogram(columns[at], tuple(columns[at + 1 : at + 1 + BUCKETS]))
