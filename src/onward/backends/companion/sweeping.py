"""Finding jobs that wait in the store without a message in the broker, and putting one.

There are such jobs when a process died between the two writes, or when the broker has lost messages.  The broker cannot say
which jobs have no message; but if the store has more live jobs than the broker has messages, some have none.  Then `Sweep`
puts messages about those that have been due for a while, oldest first: a page at a time, or all of them if the broker has
no message at all.  A second message does no harm.

Members of flows whose node waits are live, and have no message.  So while a flow runs, the store must also have more jobs
that are due than the broker has messages that are ready, and only jobs that are due are looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from onward.backend import Counting, KeepsFlows, Query, StoredJob
from onward.base.clock import SECOND, Clock
from onward.base.logs import get_logger
from onward.contract.companion import CompanionStore
from onward.job.states import LIVE, WAITING, State

__all__ = ["Sweep", "lacking", "runs_flows", "served"]

logger = get_logger("onward.companion")

_EVERY = 30 * SECOND
_PAGE = 100
_PAGES = 100  # where there is no message at all
_LONG_DUE = 60 * SECOND  # where there are others
_JUST_DUE = 5 * SECOND  # where there is none
# Seconds until one job gets another message from the same process: if a worker without the store takes the messages, the job
# runs every time.
_AGAIN = 600.0
_NEAR = (State.AVAILABLE, State.EXECUTING)

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
        flows = runs_flows(self._store)
        for queue, live in served(self._store):
            missing, messages = lacking(self._broker, self._store, queue, live, flows=flows)
            if not missing:
                continue
            due_before = now - (_LONG_DUE if messages else _JUST_DUE)
            states = frozenset({State.AVAILABLE}) if flows else WAITING
            pages = min(_PAGES, 1 + missing // _PAGE) if flows else 1
            put = 0
            for _ in range(pages if messages else _PAGES):
                put += self._put_page(queue, states, due_before)
                if not self._after[queue]:
                    break
            if put:
                logger.warning("queue %s: jobs that waited without a message got another: %d", queue, put)

    def _put_page(self, queue: str, states: frozenset[State], due_before: int) -> int:
        """Put messages about the jobs of one page.  Returns how many got one."""
        page = self._store.list(Query(states=states, queue=queue, after=self._after.get(queue, ""), limit=_PAGE))
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


def runs_flows(store: CompanionStore) -> bool:
    """Return whether jobs may wait for their nodes."""
    return store.capabilities.flows and isinstance(store, KeepsFlows) and bool(store.flows(running=True, limit=1))


def lacking(broker: Counting, store: CompanionStore, queue: str, live: int, *, flows: bool) -> tuple[int, int]:
    """Return how many jobs of a queue seem to have no message, and how many messages it has.

    ``flows``: whether jobs may wait for their nodes, without a message.
    """
    there = broker.counts(queue)
    messages = sum(there[state] for state in LIVE if state in there)
    missing = max(0, live - messages)
    if missing and flows:
        here = store.counts(queue)
        missing = max(0, min(missing, sum(here[state] - there.get(state, 0) for state in _NEAR)))
    return missing, messages
