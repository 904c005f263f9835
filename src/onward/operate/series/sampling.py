"""Sending samples with renewals, and the work of the one process of a minute that is the sampler.

A sample has what was counted in its minute so far.  Its successor replaces it, and what is counted between the last sample
of a minute and the next one goes to the next minute: nothing is counted twice, and nothing is left out.  While the answer
to the last sample of a minute is missing, that sample is sent again and no other.

The sampler looks at the store once for all processes.  It stores how full the queues are, and merges the rows of minutes
that are closed.  It keeps nothing in memory: if it dies, the sampler of the next minute finds what is left to do.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from onward.backend import SAMPLER, Backend, Inspection, Look, Renewal, Sample, SeriesRow
from onward.base.backoff import doubling
from onward.base.clock import Clock
from onward.base.ids import random_owner
from onward.base.logs import get_logger
from onward.config import Settings
from onward.contract.samples import MINUTE, TEN_MINUTES, Stretch, is_within, merged_between, open_between
from onward.operate.series.measured import Measured, levels_of, merged
from onward.telemetry.numbers import Numbers, Pair, differences
from onward.version import build

__all__ = ["Sampling", "sample_store", "sampling"]

logger = get_logger("onward.series")

NO_SESSION = ""  # no session has this name
_EVERY = 9.0  # seconds between two samples, at least: a renewal every 10 s brings one each time
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0  # seconds, after the store has refused a sample
_HOUR = 60 * MINUTE
_MINUTES_AGO = (13 * MINUTE, 2 * MINUTE)  # where closed minutes are looked for
_OLD = 2 * _HOUR + TEN_MINUTES  # ten minutes that began before can be merged
_NEWEST_OLD, _OTHER_OLD = 3 * TEN_MINUTES, 3 * _HOUR  # how much history a sampler looks through
_WEEK = 7 * 24 * _HOUR
_MOST_ROWS = 10_000

Counted = Callable[[], Mapping[Pair, Numbers]]

_EVENTS: Pair = ("", "")  # beside the pairs of queues and jobs, which have names
_DROPPED = "dropped"


class Sampling:
    """Sends the samples of this process with its renewals.  Whatever happens to them, renewals and jobs go on."""

    def __init__(
        self,
        backend: Backend,
        counted: Counted,
        *,
        clock: Clock,
        build: str,
        every: float = _EVERY,
        dropped: Callable[[], int] = int,
    ) -> None:
        """``counted`` returns all that was counted since the process began, ``dropped`` how many events were dropped.

        ``every``: seconds between two samples.
        """
        self._backend = backend
        self._jobs_counted = counted
        self._events_dropped = dropped
        self._clock = clock
        self._build = build
        self._every = every
        self._sending = threading.Lock()
        self._complained: set[str] = set()
        self._begin({})

    def _begin(self, told: Mapping[Pair, Numbers]) -> None:
        self._pid = os.getpid()
        self._reporter = random_owner()
        self._ahead = 0  # of the store's clock before this one
        self._told = told  # in samples that were stored, all in all
        self._before_minute = told  # the same, when the minute began
        self._minute = 0
        self._unanswered: tuple[Sample, Mapping[Pair, Numbers], bool] | None = None  # whether it was repeated
        self._sampler_of: int | None = None
        self._next, self._refusals = 0.0, 0

    def extend(self, owner: str) -> Renewal:
        """Renew a session, and send a sample with that if it is time for one."""
        if not self._sending.acquire(blocking=False):  # another thread sends one
            return self._backend.extend(owner)
        try:
            sample = self._due()
            if sample is None:
                return self._backend.extend(owner)
            renewal = self._backend.extend(owner, sample=sample)
            self._answered(sample, renewal)
            return renewal
        finally:
            self._sending.release()

    def work(self) -> None:
        """Do the work of the sampler, if this process is the sampler of the minute."""
        minute, self._sampler_of = self._sampler_of, None
        if minute is None or not isinstance(self._backend, Inspection):
            return
        try:
            sample_store(self._backend, self._backend, minute)
        except Exception as error:  # noqa: BLE001  the sampler of the next minute does it
            self._complain("the store could not be sampled", error)

    def finish(self) -> None:
        """Send a last sample; called when the process will renew no more."""
        self._next = min(self._next, 0.0) if not self._refusals else self._next
        try:
            self.extend(NO_SESSION)
        except Exception as error:  # noqa: BLE001  the process ends without it
            self._complain("the last sample could not be sent", error)

    def _due(self) -> Sample | None:
        """Return the sample to send now; None if there is none."""
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self._every
        try:
            if os.getpid() != self._pid:  # a fork: the parent tells what was counted before
                self._begin(self._counted())
            return self._repeated() or self._new()
        except Exception as error:  # noqa: BLE001  a renewal must not fail for it
            self._complain("a sample could not be made", error)
            return None

    def _counted(self) -> dict[Pair, Numbers]:
        """Return all that was counted: dropped events go the way of the other numbers, so none is told twice."""
        return {**self._jobs_counted(), _EVENTS: Numbers({_DROPPED: self._events_dropped()})}

    def _repeated(self) -> Sample | None:
        """Return the last sample of an earlier minute, if its answer is missing and its minute is not closed."""
        if self._unanswered is None:
            return None
        sample, told, _ = self._unanswered
        now = self._now()
        if sample.minute == now - now % MINUTE:
            return None  # a new one replaces it
        if is_within(now, open_between(sample.minute)):
            self._unanswered = (sample, told, True)
            return sample
        self._unanswered, self._told = None, told  # too old to be sent: it may have been stored
        return None

    def _new(self) -> Sample:
        now, counted = self._now(), self._counted()
        minute = now - now % MINUTE
        if minute < self._minute:  # a clock was set back: a row that has numbers is never begun again
            if is_within(now, open_between(self._minute)):
                minute = self._minute
            else:
                self._reporter = random_owner()
        if minute != self._minute:
            self._minute, self._before_minute = minute, self._told
        numbers = differences(counted, self._before_minute)
        dropped = numbers.pop(_EVENTS, Numbers()).counters.get(_DROPPED, 0)
        measured = Measured(builds=(self._build,), numbers=numbers, events_dropped=dropped)
        sample = Sample(self._reporter, minute, measured.encoded())
        is_repeated = self._unanswered is not None
        self._unanswered = (sample, counted, is_repeated)
        return sample

    def _answered(self, sample: Sample, renewal: Renewal) -> None:
        if renewal.refused is not None:
            self._refusals += 1
            self._next = time.monotonic() + doubling(_FIRST_PAUSE, self._refusals, _LONGEST_PAUSE)
            self._complain(f"the store refused a sample: {renewal.refused}: series have gaps")
            return
        self._refusals = 0
        if renewal.now is None or self._unanswered is None:
            return  # this store keeps none
        _, told, is_repeated = self._unanswered
        self._unanswered = None
        self._ahead = renewal.now - self._clock.micros()
        if is_repeated or is_within(renewal.now, open_between(sample.minute)):
            self._told = told
        # else it was ignored, because the clock of this host is wrong: the next sample has its numbers.
        if renewal.sampler:
            self._sampler_of = sample.minute

    def _now(self) -> int:
        """Return the time of the store, as far as it is known."""
        return self._clock.micros() + self._ahead

    def _complain(self, text: str, error: BaseException | None = None) -> None:
        """Log what is wrong, once for each kind of it."""
        kind = text.partition(":")[0]
        if kind in self._complained:
            return
        self._complained.add(kind)
        because = "" if error is None else f": {type(error).__name__}: {error}"
        logger.warning("%s%s; jobs go on, and this is not logged again", text, because)


def sampling(
    backend: Backend, counted: Counted, settings: Settings, clock: Clock, *, dropped: Callable[[], int] = int
) -> Sampling | None:
    """Return what sends the samples of this process; None if they are turned off, or the store keeps none."""
    if not settings.metrics or not isinstance(backend, Inspection):
        return None
    return Sampling(backend, counted, clock=clock, build=build(), dropped=dropped)


def sample_store(backend: Backend, inspection: Inspection, minute: int) -> None:
    """Store how full the queues are, and merge what is closed."""
    first, before = (minute - ago for ago in _MINUTES_AGO)
    recent = inspection.look(Look(counts=True, series=(first, before), at_most=_MOST_ROWS))
    older = inspection.look(Look(series=_older_span(minute), at_most=_MOST_ROWS)).series
    depths = Measured(
        minutes=0, looked=True, queues={} if recent.overview is None else levels_of(recent.overview, recent.now)
    )
    stretches = (*_mergeable(recent.series, MINUTE, recent.now), *_mergeable(older, TEN_MINUTES, recent.now))
    backend.extend(NO_SESSION, sample=Sample(SAMPLER, minute, depths.encoded(), stretches))


def _older_span(minute: int) -> tuple[int, int]:
    """Return where old rows are looked for: every other minute in the newest half-hour of them, else in a part of the week.

    So a sampler reads few rows, and all samplers of two hours the whole week: of a time when no process ran, too.
    """
    number = minute // MINUTE
    end = (minute - _OLD) // TEN_MINUTES * TEN_MINUTES + TEN_MINUTES
    if number % 2 == 0:
        return end - _NEWEST_OLD, end
    end -= number // 2 % (_WEEK // _OTHER_OLD) * _OTHER_OLD
    return end - _OTHER_OLD, end


def _mergeable(rows: Sequence[SeriesRow], width: int, now: int) -> Iterator[Stretch]:
    """Yield the sums of the stretches that have more than their merged row, or another one."""
    complete = rows if len(rows) < _MOST_ROWS else [row for row in rows if row.at // width < rows[-1].at // width]
    stretches: dict[int, list[SeriesRow]] = {}
    for row in complete:
        stretches.setdefault(row.at - row.at % width, []).append(row)
    for start, inside in stretches.items():
        if all(row.width == width for row in inside) or not is_within(now, merged_between(start, width)):
            continue
        read = [(row.at, Measured.decoded(row.data)) for row in inside]
        measured = [(at, each) for at, each in read if each is not None]
        if len(measured) == len(read):  # a row that cannot be read stays as it is, and so do those beside it
            yield start, width, merged(measured).encoded()
