"""What a store holds, as metrics: one look at it, at most every 15 seconds, however often it is asked for.

Every process that looks sees the same numbers: take the maximum of several, not their sum.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from onward.backend import Backend, Inspection, Look
from onward.base import forks
from onward.base.clock import SECOND
from onward.errors import BackendError
from onward.job.states import State
from onward.telemetry import families
from onward.telemetry.exposition import FamilyValues, MetricValue

__all__ = ["LOOK_EVERY", "StoreMetrics", "look_at"]

LOOK_EVERY = 15.0  # seconds
_LIVE = (State.AVAILABLE, State.SCHEDULED, State.RETRYABLE, State.EXECUTING)


def look_at(backend: Backend) -> Sequence[FamilyValues]:
    """Look at a store once; nothing for a broker that cannot be inspected."""
    if not isinstance(backend, Inspection):
        return ()
    seen = backend.look(Look(counts=True))
    assert seen.overview is not None
    queues = seen.overview.queues
    expired = [session.expires_at <= seen.now for session in backend.sessions()]
    return (
        (
            families.QUEUE_JOBS,
            [MetricValue((each.name, str(state)), each.counts.get(state, 0)) for each in queues for state in _LIVE],
        ),
        (
            families.OLDEST_DUE,
            [
                MetricValue((each.name,), 0 if each.oldest_due is None else max(0, seen.now - each.oldest_due) / SECOND)
                for each in queues
            ],
        ),
        (families.QUEUE_PAUSED, [MetricValue((each.name,), int(each.paused)) for each in queues]),
        (families.DEAD_LETTERS, [MetricValue((), seen.overview.counts.get(State.DISCARDED, 0))]),
        (
            families.SESSIONS,
            [MetricValue(("live",), expired.count(False)), MetricValue(("expired",), expired.count(True))],
        ),
    )


class StoreMetrics:
    """Keeps the last look for 15 seconds.  Any thread may ask; one of them looks, and the others wait for it."""

    def __init__(self, backend: Backend, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._clock = clock
        self._looked_at: float | None = None
        self._samples: Sequence[FamilyValues] = ()
        self.is_up = False
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Make the lock: after a fork, a thread that the child does not have may hold it."""
        self._lock = threading.Lock()

    @property
    def is_recent(self) -> bool:
        """Whether the next question is answered without a look."""
        return self._looked_at is not None and self._clock() - self._looked_at < LOOK_EVERY

    def samples(self) -> Sequence[FamilyValues]:
        """Return what the store holds; nothing if it does not answer, since old numbers would look like new ones."""
        with self._lock:
            if not self.is_recent:
                try:
                    self._samples, self.is_up = look_at(self._backend), True
                except (BackendError, OSError):
                    self._samples, self.is_up = (), False
                self._looked_at = self._clock()
            return self._samples
