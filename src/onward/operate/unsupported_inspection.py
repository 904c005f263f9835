"""An `Inspection` for brokers, which cannot look up jobs.

Every question that a broker cannot answer raises an error that says what to do, so nothing is silently missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, cast

from onward.backend import (
    Audit,
    Backend,
    Counting,
    DeadLettering,
    Inspection,
    Lease,
    Pruned,
    Query,
    QueueState,
    Replayed,
    StoredJob,
)
from onward.base.logs import get_logger
from onward.errors import Unsupported
from onward.job.states import State

__all__ = ["inspection_of", "stored_of"]

logger = get_logger("onward")

_DEAD = frozenset({State.DISCARDED})


def inspection_of(backend: Backend) -> Inspection:
    """Return the backend itself, if it can be inspected."""
    return backend if isinstance(backend, Inspection) else cast("Inspection", Uninspected(backend))


def stored_of(lease: Lease, job: str) -> StoredJob:
    """Return the job of a lease, as far as the lease has it."""
    return StoredJob(
        id=lease.envelope.id,
        queue=lease.envelope.queue,
        job=job,
        data=lease.envelope.data,
        state=State.EXECUTING,
        priority=0,
        attempts=lease.attempts,
        delivery=lease.token,
        crashes=lease.crashes,
        interruptions=lease.interruptions,
        available_at=lease.claimed_at,
        enqueued_at=lease.claimed_at,
        started_at=lease.claimed_at,
        owner=lease.owner,
        waits=lease.waits,
        parked_since=lease.parked_since,
    )


# The verbs of `Inspection` that no broker has, in the words of the error.
_REFUSED = {
    "get": "look up a job, nor keep its result",
    "get_many": "look up jobs, nor keep their results",
    "queues_with_work": "name the queues that have work",
    "look": "show what waits in it",
    "sessions": "list workers",
    "cancel": "cancel a job",
    "retry": "run a job now",
    "forget_key": "keep idempotency keys",
    "pause": "pause a queue",
}


class Uninspected:
    """An `Inspection` that answers what its broker can, and refuses the rest."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._warned = False

    def __getattr__(self, verb: str) -> Callable[..., NoReturn]:
        if verb not in _REFUSED:
            raise AttributeError(verb)
        return lambda *_, **__: self._refuse(_REFUSED[verb])

    def list(self, query: Query) -> Sequence[StoredJob]:
        return self._dead_letters(query, "list jobs").dead_jobs(query)

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        return self._dead_letters(query, "replay a job").replay_dead(query)

    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        return self._dead_letters(query, "remove a job").purge_dead(query)

    def counts(self, queue: str | None = None) -> dict[State, int]:
        return self._counting("count jobs").counts(queue)

    def queues(self) -> Sequence[QueueState]:
        return self._counting("list queues").queues()

    def prune(self, *_: object, **__: object) -> Pruned:
        """Remove nothing: a broker keeps no finished jobs."""
        return Pruned(removed={}, next=None)

    def progress(self, lease: Lease, progress: bytes) -> bool:
        """Warn once that progress is not kept; the job goes on."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "a job reports progress, but a broker cannot store it: give it a store, "
                'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE'
            )
        return True

    def _dead_letters(self, query: Query, what: str) -> DeadLettering:
        if isinstance(self._backend, DeadLettering) and query.states == _DEAD:
            return self._backend
        return self._refuse(what)

    def _counting(self, what: str) -> Counting:
        return self._backend if isinstance(self._backend, Counting) else self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(
            f"{type(self._backend).__name__} is a broker and cannot {what}: give it a store that can, "
            f'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE, or use a database as the url'
        )
