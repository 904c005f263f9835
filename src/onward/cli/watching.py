"""Looking at a store again and again, but so seldom that the looks are no load."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli import limits
from onward.cli.deaths import Deaths, DeathWatch
from onward.job.states import State

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Overview
    from onward.client.record import JobRecord, SessionRecord
    from onward.operate.limits import LimitRecord

__all__ = ["COUNTED", "StoreWatch", "WatchedStore", "as_data"]

COUNTED = 100_000  # of one state in one queue; a look counts no further
_RUNNING = 50
_DEAD = 50
_LIMITS = 50
_REMEMBERED = 60
_SHARE = 0.05  # the part of the time that looks may take


class WatchedStore(NamedTuple):
    """What one look has read."""

    at: datetime
    overview: Overview
    running: Sequence[JobRecord]  # those that have run for longest, among the first enqueued
    workers: Sequence[SessionRecord]
    rates: Sequence[float]  # jobs that ended per second, between this look and the one before, the last one last
    deaths: Deaths = Deaths()
    limits: Sequence[LimitRecord] = ()

    @property
    def rate(self) -> float | None:
        return self.rates[-1] if self.rates else None


class StoreWatch:
    """Makes looks: each is a handful of queries whose cost does not depend on how much is in the store."""

    def __init__(self, app: Onward) -> None:
        self._app = app
        self._before: tuple[float, int] | None = None
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self._deaths = DeathWatch(app.get)
        self._cost = 0.0

    def look(self) -> WatchedStore:
        started = time.monotonic()
        overview = self._app.overview(COUNTED)
        running = self._app.list(state=State.EXECUTING, limit=_RUNNING)
        dead = self._app.list(state=State.DISCARDED, limit=_DEAD, newest_first=True)
        workers = self._app.sessions()
        deaths = self._deaths.look(
            datetime.now(UTC), counts=overview.counts, dead=dead, workers=workers, running=running
        )
        limited = self._app.limits.list(at_most=_LIMITS) if self._app.backend.capabilities.lanes else ()
        self._measure(started, overview.ended)
        self._cost = time.monotonic() - started
        now = datetime.now(UTC)
        longest_first = sorted(running, key=lambda record: record.started_at or now)
        return WatchedStore(now, overview, longest_first, workers, tuple(self._rates), deaths, limited)

    def pause(self, interval: float) -> float:
        """Return how many seconds to wait before the next look."""
        return max(interval, self._cost / _SHARE)

    def _measure(self, now: float, ended: int) -> None:
        if self._before is not None:
            then, ended_then = self._before
            self._rates.append(max(0, ended - ended_then) / (now - then))  # it goes back when jobs are removed
        self._before = (now, ended)


def as_data(look: WatchedStore) -> dict[str, Any]:
    """Return a look for machines."""
    return {
        "at": look.at,
        "ended_per_second": look.rate,
        "counts": look.overview.counts,
        "queues": [{"queue": each.name, "paused": each.paused, **each.counts} for each in look.overview.queues],
        "deaths": look.deaths.as_data(),
        "limits": [limits.as_data(limit) for limit in look.limits],
        "workers": [asdict(worker) for worker in look.workers],
        "running": [
            {
                "id": record.id,
                "name": record.name,
                "queue": record.queue,
                "attempt": record.attempts + 1,
                "owner": record.owner,
                "started_at": record.started_at,
                "progress": record.progress,
            }
            for record in look.running
        ],
    }
