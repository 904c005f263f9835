"""Looking at a store again and again, but so seldom that the looks are no load."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onward.backend import Check
from onward.errors import OnwardError
from onward.job.states import State
from onward.operate.counting import COUNTED, is_cut
from onward.operate.death_watch import Deaths, DeathWatch
from onward.operate.queue_pace import QueuePace

if TYPE_CHECKING:
    from onward.backend import Backend, Overview
    from onward.client.record import JobRecord, SessionRecord
    from onward.config import Settings
    from onward.operate.limits import LimitControl, LimitRecord
    from onward.operate.series.points import TimedMeasures

__all__ = ["StoreWatch", "WatchedApplication", "WatchedStore"]

_RUNNING = 50
_DEAD = 50
_LIMITS = 50
_REMEMBERED = 60
_SHARE = 0.04  # the part of the time that looks may take, with the checks of the fleet
_CHECKED_EVERY = 10.0  # seconds
_STORE_CHECKED_EVERY = 60.0  # its own checks read more: a file is looked through
_STORE_SHARE = 0.01  # a part of their own: while they take long they are made more seldom, and looks as often as before


class WatchedApplication(Protocol):
    """What a watch asks of an application."""

    backend: Backend
    settings: Settings

    @property
    def limits(self) -> LimitControl: ...

    def overview(self, at_most: int = ...) -> Overview: ...

    def list(
        self, *, state: State | str | Sequence[State | str] | None = ..., limit: int = ..., newest_first: bool = ...
    ) -> Sequence[JobRecord]: ...

    def sessions(self) -> Sequence[SessionRecord]: ...

    def get(self, job_id: str) -> JobRecord | None: ...

    def health(self, *, store: bool = True, fleet: bool = True) -> Sequence[Check]: ...

    def last_minutes(self) -> Sequence[TimedMeasures]: ...


class WatchedStore(NamedTuple):
    """What one look has read."""

    at: datetime
    overview: Overview
    running: Sequence[JobRecord]  # those that have run for longest, among the first enqueued
    workers: Sequence[SessionRecord]
    rates: Sequence[float]  # jobs that ended per second, between this look and the one before, the last one last
    deaths: Deaths = Deaths()
    limits: Sequence[LimitRecord] = ()
    checks: Sequence[Check] | None = None  # of the store and of the fleet; None: not made yet
    paces: Mapping[str, QueuePace] = {}  # by queue
    at_most: int = COUNTED  # of one state in one queue; the look counted no further

    @property
    def rate(self) -> float | None:
        return self.rates[-1] if self.rates else None

    def counted(self, state: State) -> tuple[int, bool]:
        """Return how many jobs of all queues are in a state, and whether there may be more."""
        return self.overview.counts.get(state, 0), is_cut(self.overview.counts, state, self.at_most)

    def pace(self, queue: str) -> QueuePace:
        return self.paces.get(queue, QueuePace())

    def age(self, instant: int | None) -> float | None:
        """Return the seconds since an instant of the store."""
        return None if instant is None else max(0.0, self.at.timestamp() - instant / 1_000_000)


class StoreWatch:
    """Makes looks: each is a handful of queries whose cost does not depend on how much is in the store."""

    def __init__(self, app: WatchedApplication, *, at_most: int = COUNTED, checks_store: bool = False) -> None:
        """``at_most``: a look counts no further, of one state in one queue.  ``checks_store``: now and then, besides."""
        self._app = app
        self._checks_store = checks_store
        self._at_most = at_most
        self._before: tuple[float, int] | None = None
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self._deaths = DeathWatch(app.get)
        self._cost = 0.0
        self._checks: Sequence[Check] | None = None
        self._check_at = 0.0
        self._of_store: Sequence[Check] = ()
        self._store_at = 0.0
        self._paces: Mapping[str, QueuePace] = {}
        self._live: tuple[float, Mapping[str, int]] | None = None  # when queues were last compared, and what they had

    def look(self) -> WatchedStore:
        started = time.monotonic()
        try:
            seen = self._seen(started)
        finally:  # a look that fails after its time limit has cost as much as one that succeeds
            self._cost = time.monotonic() - started
        return seen._replace(checks=self._checked(seen.overview), paces=self._paces, at_most=self._at_most)

    def _seen(self, started: float) -> WatchedStore:
        overview = self._app.overview(self._at_most)
        running = self._app.list(state=State.EXECUTING, limit=_RUNNING)
        dead = self._app.list(state=State.DISCARDED, limit=_DEAD, newest_first=True)
        workers = self._app.sessions()
        deaths = self._deaths.look(
            datetime.now(UTC), counts=overview.counts, dead=dead, workers=workers, running=running
        )
        limited = self._app.limits.list(at_most=_LIMITS) if self._app.backend.capabilities.lanes else ()
        self._measure(started, overview.ended)
        now = datetime.now(UTC)
        longest_first = sorted(running, key=lambda record: record.started_at or now)
        return WatchedStore(now, overview, longest_first, workers, tuple(self._rates), deaths, limited)

    def forget(self) -> None:
        """Make the checks of the fleet anew with the next look: an act may have answered one."""
        self._check_at = min(self._check_at, time.monotonic())

    def pause(self, interval: float) -> float:
        """Return how many seconds to wait before the next look."""
        return max(interval, self._cost / _SHARE)

    def _checked(self, overview: Overview) -> Sequence[Check] | None:
        """Return the checks, made anew now and then; and so how fast the queues are."""
        from onward.operate.pacing import live_by_queue, paces  # which takes long to import

        if time.monotonic() >= self._check_at:
            self._check_store()
            started = time.monotonic()
            try:
                self._checks = [*self._app.health(store=False), *self._of_store]
                then, before = self._live or (started, {})
                # Not between a look and an act a moment later: what the act changed would pass for the rate of arrivals.
                if self._live is None or started - then >= _CHECKED_EVERY:
                    self._paces = paces(self._app.last_minutes(), overview, before, started - then, self._at_most)
                    self._live = started, live_by_queue(overview)
            finally:
                ended = time.monotonic()
                if self._check_at:  # the first time, most of it are imports
                    self._cost += ended - started
                self._check_at = ended + _CHECKED_EVERY
        return self._checks

    def _check_store(self) -> None:
        """Make the store's own checks, once a minute, and more seldom where they take long."""
        started = time.monotonic()
        if self._checks_store and started >= self._store_at:
            try:
                self._of_store = self._app.health(fleet=False)
            except (OnwardError, OSError) as error:  # it answers, but not this: no reason to show nothing
                detail = f"the store's own checks could not be made: {error}"
                self._of_store = [Check(name="server", status="warn", detail=detail, fix="onward health")]
            ended = time.monotonic()
            self._store_at = ended + max(_STORE_CHECKED_EVERY, (ended - started) / _STORE_SHARE)

    def _measure(self, now: float, ended: int) -> None:
        if self._before is not None:
            then, ended_then = self._before
            self._rates.append(max(0, ended - ended_then) / max(1e-6, now - then))  # it goes back when jobs are removed
        self._before = (now, ended)
