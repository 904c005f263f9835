"""Replaying dead jobs with care: one, then ten, then the rest, and no further than the first that fails again.

Nothing remembers a canary but the program that runs it: what was not replayed is still dead, however the program ends.

A job has failed again if the store has a new record of a run that did not succeed, with a token above the one with which
the job had died, or if it is discarded again.  A job that waits for a hold, a limit or a paused queue has not failed: the
canary says what holds it, and waits, as long as its patience lasts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from onward.backend import Inspection, StoredJob
from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds, spoken
from onward.base.wording import counted
from onward.client.record import JobRecord, Records
from onward.errors import OptionError, Unsupported
from onward.flow.limits import rate_of
from onward.job.states import FINISHED, State
from onward.operate.acts import Acts, Trail
from onward.operate.bulk import Bulk
from onward.operate.filters import Filter
from onward.operate.finding import Finder, FoundBatch
from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import Reason

__all__ = ["Canary", "CanaryStep", "Size"]

Size = int | Literal["all"]
Happened = Literal["replayed", "waiting", "passed", "failed", "impatient", "finished"]

_LARGEST = 500  # jobs in a write
_BURST = 10.0  # seconds of the rate that go in one write
_LOOKED_AT = 2_000  # jobs, of those that have not ended, in one look
_SOONEST, _LATEST = 0.05, 1.0  # seconds between two looks
_TOLD = 5.0  # seconds after which it says again what a job waits for
_FAILED = frozenset({"nack", "abandon", "crashed"})


class CanaryStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a canary has just done, or what it sees.  Numbers are of all steps so far."""

    happened: Happened
    step: int  # from 1
    text: str
    replayed: int
    ended: int
    job_id: str | None = None  # that failed, or is waited for
    why: Reason | None = None  # what holds it
    skipped: dict[str, str] = {}  # jobs that could not be replayed, and why; of this step alone

    @property
    def stopped(self) -> bool:
        """Whether the canary has given up: the jobs that it did not replay are still dead."""
        return self.happened in ("failed", "impatient")


class Canary:
    """Starts canaries on one store."""

    def __init__(
        self, inspection: Inspection, finder: Finder, bulk: Bulk, *, acts: Acts, explainer: Explainer, records: Records
    ) -> None:
        self.inspection = inspection
        self.finder = finder
        self.acts = acts
        self.explainer = explainer
        self.records = records
        self._bulk = bulk

    def run(
        self,
        text: str,
        *,
        steps: Sequence[Size] = (1, 10, "all"),
        patience: Duration = "10m",
        rate: str = "50/s",
        queues: Sequence[str] | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Iterator[CanaryStep]:
        """Replay the dead jobs that match, step by step.  Arguments are checked before the first is."""
        sizes, per_second = _sizes(steps), _per_second(rate)
        parsed = self._bulk.filter("replay", text, queues)
        if parsed.states != frozenset({State.DISCARDED}):
            raise OptionError("a canary replays dead jobs: leave state: out of the filter")
        trail = Trail(self.acts.auditor, "canary", parsed.shown, by, reason)
        flight = Flight(self, parsed, seconds(patience, "patience"), trail)
        return self._run(flight, sizes, per_second)

    def _run(self, flight: Flight, sizes: Sequence[Size], rate: float) -> Iterator[CanaryStep]:
        flight.begin()
        for number, size in enumerate(sizes, start=1):
            if flight.is_over:
                break
            for step in flight.all(number, rate) if size == "all" else flight.some(number, size):
                yield step
                if step.stopped:
                    return
        yield flight.told(
            "finished", flight.step, "no job failed again" if flight.replayed else "there is none to replay"
        )


class Flight:
    """One canary that goes: the jobs that it has replayed and that have not ended."""

    def __init__(self, canary: Canary, parsed: Filter, patience: float, trail: Trail) -> None:
        self.step = 1
        self.replayed = 0
        self.is_over = False  # no dead job is left to replay
        self._canary = canary
        self._parsed = parsed
        self._patience = patience
        self._trail = trail
        self._batches: Iterator[FoundBatch] = iter(())
        self._dead: list[StoredJob] = []  # read, and not replayed yet
        self._waiting: dict[str, int] = {}  # the token with which each died
        self._ended = 0
        self._last_end = 0.0

    def begin(self) -> None:
        """Find the newest dead job that is meant, and read the first."""
        until = self._canary.finder.until(self._parsed)
        if until is not None:
            self._canary.inspection.get_many([until.id])  # a store that cannot say what became of a job refuses here
            self._batches = self._canary.finder.batches(self._parsed, until, size=_LARGEST)
        self._read_on()

    def some(self, number: int, size: int) -> Iterator[CanaryStep]:
        """Replay so many, and wait until they have ended."""
        self.step = number
        yield self._replay(size)
        yield from self._wait()

    def all(self, number: int, rate: float) -> Iterator[CanaryStep]:
        """Replay the rest, at a rate, looking back all the time; then wait until they have ended."""
        self.step = number
        size = max(1, min(_LARGEST, math.floor(rate * _BURST)))
        while not self.is_over:
            next_at = time.monotonic() + size / rate
            yield self._replay(size)
            if not self.is_over:
                yield from self._look_until(next_at)
        yield from self._wait()

    def told(
        self, happened: Happened, step: int, text: str, *, job_id: str | None = None, why: Reason | None = None
    ) -> CanaryStep:
        return CanaryStep(
            happened=happened, step=step, text=text, replayed=self.replayed, ended=self._ended, job_id=job_id, why=why
        )

    def _replay(self, size: int) -> CanaryStep:
        """Replay so many dead jobs, or all that are left; those that cannot be are passed over."""
        done, skipped = 0, dict[str, str]()
        while done < size and (jobs := self._take(size - done)):
            acted = self._canary.acts.replay(jobs, self._trail)
            tokens = {stored.id: stored.delivery for stored in jobs}
            self._waiting |= {job_id: tokens[job_id] for job_id in acted.ids}
            done, skipped = done + acted.number, skipped | acted.skipped
        self._read_on()
        self._last_end = time.monotonic()
        self.replayed += done
        step = self.told("replayed", self.step, f"replayed {counted(done, 'job')}")
        return msgspec.structs.replace(step, skipped=skipped)

    def _take(self, size: int) -> list[StoredJob]:
        self._read_on()
        taken, self._dead = self._dead[:size], self._dead[size:]
        return taken

    def _read_on(self) -> None:
        """Read dead jobs until there is one to replay, or no more."""
        while not self._dead and not self.is_over:
            batch = next(self._batches, None)
            if batch is None:
                self.is_over = True
            else:
                self._dead = batch.jobs

    def _wait(self) -> Iterator[CanaryStep]:
        """Wait until all that were replayed have ended, for as long as some of them do."""
        if self._waiting:
            yield from self._look_until(math.inf)
        if not self._waiting:
            yield self.told("passed", self.step, f"{counted(self._ended, 'job')} ended, and none failed again")

    def _look_until(self, instant: float) -> Iterator[CanaryStep]:
        """Look at the jobs again and again; at a failure yield it and stop."""
        pause, told_at = _SOONEST, time.monotonic()
        while True:
            failed = self._look()
            if failed is not None:
                yield failed
                return
            now = time.monotonic()
            if now >= instant or (instant == math.inf and not self._waiting):
                return
            if self._waiting and now - self._last_end >= self._patience:
                yield self._say("impatient", f"no job has ended for {spoken(self._patience)}")
                return
            if self._waiting and now - told_at >= _TOLD:
                told_at = now
                yield self._say("waiting", f"{counted(len(self._waiting), 'job')} not ended")
            elif pause == _LATEST:
                yield self.told("waiting", self.step, "")
            time.sleep(max(0.0, min(pause, instant - now)))
            pause = min(pause * 1.5, _LATEST)

    def _look(self) -> CanaryStep | None:
        """Look at jobs that had not ended, in turn; return the first that has failed again."""
        turn = list(self._waiting)[:_LOOKED_AT]
        for start in range(0, len(turn), _LARGEST):
            ids = turn[start : start + _LARGEST]
            found = {stored.id: stored for stored in self._canary.inspection.get_many(ids)}
            for job_id in ids:
                token = self._waiting.pop(job_id)
                stored = found.get(job_id)  # None: it has ended and was removed
                if stored is not None and _failed_again(stored, token):
                    return self._failure(stored)
                if stored is None or stored.state in FINISHED:
                    self._ended, self._last_end = self._ended + 1, time.monotonic()
                else:
                    self._waiting[job_id] = token  # behind those that were not looked at
        return None

    def _failure(self, stored: StoredJob) -> CanaryStep:
        record = self._canary.records.record(stored)
        return self.told("failed", self.step, f"{stored.id} failed again: {_trouble(record)}", job_id=stored.id)

    def _say(self, happened: Happened, text: str) -> CanaryStep:
        """Say what the first job waits for."""
        job_id = next(iter(self._waiting))
        try:
            why = self._canary.explainer.why(job_id)
        except Unsupported:
            return self.told(happened, self.step, text, job_id=job_id)
        return self.told(happened, self.step, f"{text}; {job_id}: {why.text}", job_id=job_id, why=why)


def _failed_again(stored: StoredJob, token: int) -> bool:
    """Return whether a job that had died with this token has failed since."""
    if any(run.token > token and run.move in _FAILED for run in stored.runs):
        return True
    return stored.state is State.DISCARDED and stored.delivery > token


def _trouble(record: JobRecord) -> str:
    if record.errors:
        last = record.errors[-1]
        return f"{last.kind}: {last.message.splitlines()[0] if last.message else ''}"
    return record.reason or "it was discarded"


def _sizes(steps: Sequence[Size]) -> tuple[Size, ...]:
    sizes = tuple(steps)
    for place, size in enumerate(sizes, start=1):
        is_last = size == "all" and place == len(sizes)
        if not is_last and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise OptionError(
                f"steps are whole numbers of at least 1, and 'all' at the end, not {size!r:.40}: 1, 10, 'all'"
            )
    if not sizes:
        raise OptionError("a canary needs a step: 1, 10, 'all'")
    return sizes


def _per_second(rate: str) -> float:
    read = rate_of(rate)
    return read.tokens * SECOND / read.period
