"""A stand-in for `Inspection`, for brokers: they hand jobs out and take them back, and cannot be asked about them.

Every question is answered with an error that says what to do, so nothing is silently absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from onward.backend import (
    Backend,
    Counting,
    DeadLettering,
    Hold,
    Inspection,
    Lease,
    Overview,
    Pruned,
    Query,
    QueuePage,
    QueueState,
    Replayed,
    SessionState,
    StoredJob,
)
from onward.base.logs import get_logger
from onward.errors import Unsupported
from onward.job.states import State

__all__ = ["inspection_of", "stored_of"]

logger = get_logger("onward")

_DEAD = frozenset({State.DISCARDED})


def inspection_of(backend: Backend) -> Inspection:
    """The backend itself, if it can be inspected."""
    return backend if isinstance(backend, Inspection) else Uninspected(backend)


def stored_of(lease: Lease, job: str) -> StoredJob:
    """All that a lease tells of its job."""
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


class Uninspected:
    """Refuses what the store cannot answer."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._warned = False

    def get(self, job_id: str) -> StoredJob | None:
        self._refuse("look up a job, nor keep its result")

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        self._refuse("look up jobs, nor keep their results")

    def list(self, query: Query) -> Sequence[StoredJob]:
        if isinstance(self._backend, DeadLettering) and query.states == _DEAD:
            return self._backend.dead_jobs(query)
        return self._refuse("list jobs")

    def counts(self, queue: str | None = None) -> dict[State, int]:
        if isinstance(self._backend, Counting):
            return self._backend.counts(queue)
        return self._refuse("count jobs")

    def queues(self) -> Sequence[QueueState]:
        if isinstance(self._backend, Counting):
            return self._backend.queues()
        return self._refuse("list queues")

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        self._refuse("name the queues that have work")

    def overview(self, *, at_most: int = 10_000) -> Overview:
        self._refuse("give an overview")

    def sessions(self) -> Sequence[SessionState]:
        self._refuse("list workers")

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        self._refuse("cancel a job")

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        self._refuse("run a job now")

    def replay(self, query: Query) -> Replayed:
        if isinstance(self._backend, DeadLettering) and query.states == _DEAD:
            return self._backend.replay_dead(query)
        return self._refuse("replay a job")

    def purge(self, query: Query) -> int:
        if isinstance(self._backend, DeadLettering) and query.states == _DEAD:
            return self._backend.purge_dead(query)
        return self._refuse("remove a job")

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        """It keeps nothing that could be forgotten."""
        return Pruned(removed={}, next=None)

    def forget_key(self, key: str) -> tuple[Hold, str | None]:
        self._refuse("keep idempotency keys")

    def pause(self, queue: str, *, paused: bool = True) -> bool:
        self._refuse("pause a queue")

    def progress(self, lease: Lease, progress: bytes) -> bool:
        """A job does not fail for it."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "progress is reported, but a broker cannot keep it: give it a store, "
                'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE'
            )
        return True

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(
            f"{type(self._backend).__name__} is a broker and cannot {what}: give it a store that can, "
            f'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE, or use a database as the url'
        )
