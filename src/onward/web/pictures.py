"""What all pages of a process share: one look at the store every two seconds at most, and none if no page asks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from onward.app import Onward
from onward.base import forks
from onward.client.auditing import AuditRecord
from onward.errors import BackendUnavailable
from onward.operate.series.points import TimedMeasures
from onward.operate.shared_watch import SharedLook, SharedWatch
from onward.operate.store_metrics import StoreMetrics
from onward.operate.watching import WatchedStore

__all__ = ["Picture", "Pictures"]

T = TypeVar("T")

_KEPT = 10.0  # seconds for which series and entries are kept


class Picture(NamedTuple):
    """A look, and a name for it that changes with every look."""

    look: WatchedStore
    tag: str


class Pictures:
    """Shares one watch among all pages, and keeps what they show besides.  Any thread may ask."""

    def __init__(self, jobs: Onward, refresh: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._clock = clock
        self._watch = SharedWatch(jobs, interval=refresh, clock=clock)
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Make what a child after a fork must not share: its looks have names of their own."""
        self.metrics = StoreMetrics(self._jobs.backend)
        self._kept: dict[str, tuple[float, Any]] = {}
        self._last: SharedLook | None = None
        self._process = os.urandom(4).hex()

    def age(self) -> float | None:
        """Return the seconds since the store last answered; None: it has not yet."""
        return None if self._last is None or not self._last.number else self._clock() - self._last.at

    def picture(self) -> Picture:
        """Return the last look, or a new one.  Raises what the store raised last, until the next look is due."""
        self._last = last = self._watch.look()
        if isinstance(last.error, OSError):
            raise BackendUnavailable(str(last.error)) from last.error
        if last.error is not None:
            raise last.error
        assert last.seen is not None
        return Picture(last.seen, self._tag(last))

    def last_hour(self) -> Sequence[TimedMeasures]:
        """Return what was measured in the last hour, read at most every ten seconds."""
        return self._keep("hour", lambda: self._jobs.measures("1h"))

    def last_hours(self) -> Sequence[TimedMeasures]:
        """Return what was measured in the last three hours."""
        return self._keep("hours", lambda: self._jobs.measures("3h"))

    def last_entries(self, number: int) -> Sequence[AuditRecord]:
        """Return the newest entries of the audit trail, as old as the picture at most."""
        tag = "" if self._last is None else self._tag(self._last)
        return self._keep(f"entries {tag}", lambda: self._jobs.audit(limit=number))

    def _keep(self, name: str, read: Callable[[], T]) -> T:
        kept = self._kept.get(name)
        if kept is not None and self._clock() - kept[0] < _KEPT:
            found: T = kept[1]
            return found
        found = read()
        for old in [old for old, (at, _) in self._kept.items() if self._clock() - at >= _KEPT]:
            self._kept.pop(old, None)
        self._kept[name] = (self._clock(), found)
        return found

    def forget(self) -> None:
        """Look again when the next page asks: an act has changed something."""
        self._watch.forget()

    def _tag(self, look: SharedLook) -> str:
        return f"{self._process}-{look.number}"
