"""Finding jobs that wait in the store without a message in the broker, and putting one.

There are such jobs when a process died between the store and the broker, or when the broker has lost what it had.  Which
jobs have no message nobody can ask; but if the store has more live jobs than the broker has messages, some have none.  Then
those that have been due for a while get another, oldest first, a page at a time.  A second message does no harm.
"""

from __future__ import annotations

import time
from typing import Protocol

from onward.backend import Counting, Query, StoredJob
from onward.backends.companion.store import Store
from onward.clock import SECOND, Clock
from onward.logs import get_logger
from onward.states import LIVE, WAITING

__all__ = ["Sweep", "messages_in"]

logger = get_logger("onward.companion")

_EVERY = 30 * SECOND
_PAGE = 100
_LONG_DUE = 60 * SECOND  # where there are other messages
_JUST_DUE = 5 * SECOND  # where there is none at all
_AGAIN = 3_600.0  # seconds until one job gets another message from the same process


class Put(Protocol):
    def __call__(self, ids: list[str]) -> None: ...


class Sweep:
    """Looks at every queue, now and then."""

    def __init__(self, broker: Counting, store: Store, clock: Clock, put: Put) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._put = put
        self._last: int | None = None
        self._after: dict[str, str] = {}  # by queue, the last id of the page before
        self._done: dict[str, float] = {}  # what got a message from here, and when

    def run(self) -> None:
        now = self._clock.micros()
        if self._last is not None and now - self._last < _EVERY:
            return
        self._last = now
        self._done = {job_id: at for job_id, at in self._done.items() if time.monotonic() - at < _AGAIN}
        for queue in self._store.queues():
            if not queue.live or queue.paused:
                continue
            messages = messages_in(self._broker, queue.name)
            if queue.live > messages:
                self._mend(queue.name, now - (_LONG_DUE if messages else _JUST_DUE))

    def _mend(self, queue: str, due_before: int) -> None:
        page = self._store.list(Query(states=WAITING, queue=queue, after=self._after.get(queue, ""), limit=_PAGE))
        self._after[queue] = page[-1].id if len(page) == _PAGE else ""
        missing = [job.id for job in page if self._is_missing(job, due_before)]
        if missing:
            logger.warning("%d jobs of queue %s wait without a message: they get another", len(missing), queue)
            self._put(missing)
            self._done |= dict.fromkeys(missing, time.monotonic())

    def _is_missing(self, job: StoredJob, due_before: int) -> bool:
        return job.available_at <= due_before and job.id not in self._done


def messages_in(broker: Counting, queue: str) -> int:
    """How many messages a queue has, of all kinds that come again by themselves."""
    counts = broker.counts(queue)
    return sum(counts[state] for state in LIVE if state in counts)
