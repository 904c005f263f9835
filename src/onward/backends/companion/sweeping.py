"""Finding jobs that wait in the store without a message in the broker, and putting one.

There are such jobs when a process died between the two writes, or when the broker has lost messages.  The broker cannot say
which jobs have no message; but if the store has more live jobs than the broker has messages, some have none.  Then `Sweep`
puts messages about those that have been due for a while, oldest first: a page at a time, or all of them if the broker has
no message at all.  A second message does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from onward.backend import Counting, Query, StoredJob
from onward.base.clock import SECOND, Clock
from onward.base.logs import get_logger
from onward.contract.companion import CompanionStore
from onward.job.states import LIVE, WAITING

__all__ = ["Sweep", "messages_in", "served"]

logger = get_logger("onward.companion")

_EVERY = 30 * SECOND
_PAGE = 100
_PAGES = 100  # where there is no message at all
_LONG_DUE = 60 * SECOND  # where there are others
_JUST_DUE = 5 * SECOND  # where there is none
# Seconds until one job gets another message from the same process: if a worker without the store takes the messages, the job
# runs every time.
_AGAIN = 600.0

Put = Callable[[Sequence[StoredJob]], bool]


class Sweep:
    """Looks at every queue when it is called, as each reap does."""

    def __init__(self, broker: Counting, store: CompanionStore, clock: Clock, put: Put) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._put = put
        self._last: int | None = None
        self._after: dict[str, str] = {}  # by queue, the last id of the page before
        self._done: dict[str, float] = {}  # the jobs that got a message from here, and when

    def run(self) -> None:
        now = self._clock.micros()
        if self._last is not None and now - self._last < _EVERY:
            return
        self._last = now
        self._done = {job_id: at for job_id, at in self._done.items() if time.monotonic() - at < _AGAIN}
        for queue, live in served(self._store):
            messages = messages_in(self._broker, queue)
            if live <= messages:
                continue
            due_before = now - (_LONG_DUE if messages else _JUST_DUE)
            put = 0
            for _ in range(1 if messages else _PAGES):
                put += self._put_page(queue, due_before)
                if not self._after[queue]:
                    break
            if put:
                logger.warning("queue %s: jobs that waited without a message got another: %d", queue, put)

    def _put_page(self, queue: str, due_before: int) -> int:
        """Put messages about the jobs of one page.  Returns how many got one."""
        page = self._store.list(Query(states=WAITING, queue=queue, after=self._after.get(queue, ""), limit=_PAGE))
        self._after[queue] = page[-1].id if len(page) == _PAGE else ""
        missing = [job for job in page if self._is_missing(job, due_before)]
        if not missing or not self._put(missing):
            return 0
        self._done |= {job.id: time.monotonic() for job in missing}
        return len(missing)

    def _is_missing(self, job: StoredJob, due_before: int) -> bool:
        return job.available_at <= due_before and job.id not in self._done


def served(store: CompanionStore) -> list[tuple[str, int]]:
    """List the queues whose jobs should have messages, with their live jobs: not those that are paused."""
    return [(queue.name, queue.live) for queue in store.queues() if queue.live and not queue.paused]


def messages_in(broker: Counting, queue: str) -> int:
    """Return how many messages a queue has, in all states from which they are delivered."""
    counts = broker.counts(queue)
    return sum(counts[state] for state in LIVE if state in counts)
